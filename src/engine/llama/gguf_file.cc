#include "engine/llama/gguf_file.h"

#include <fmt/format.h>

#include "engine/llama/library.h"
#include "os/paths.h"

namespace kvkeep::engine::llama {

Result<GgufHandle> open_gguf(const std::string& path) {
  start_library();
  const std::uint64_t mark = log_mark();
  GgufHandle file(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  if (file) return file;
  const std::string reason = log_reason_since(mark);
  if (reason.find("No such file") != reason.npos) return not_found(fmt::format("cannot load {}: no such file", path));
  return damaged(fmt::format("cannot load {}: {}", path, reason.empty() ? "not a GGUF file" : reason));
}

std::optional<std::uint64_t> gguf_number(const gguf_context& file, const std::string& key, std::size_t index) {
  const std::int64_t id = gguf_find_key(&file, key.c_str());
  if (id < 0) return std::nullopt;
  switch (gguf_get_kv_type(&file, id)) {
    case GGUF_TYPE_UINT16: return gguf_get_val_u16(&file, id);
    case GGUF_TYPE_UINT32: return gguf_get_val_u32(&file, id);
    case GGUF_TYPE_UINT64: return gguf_get_val_u64(&file, id);
    case GGUF_TYPE_INT32: return static_cast<std::uint64_t>(gguf_get_val_i32(&file, id));
    case GGUF_TYPE_ARRAY: break;
    default: return std::nullopt;
  }
  const gguf_type type = gguf_get_arr_type(&file, id);
  const bool four_bytes = type == GGUF_TYPE_UINT32 || type == GGUF_TYPE_INT32;
  if (!four_bytes || index >= gguf_get_arr_n(&file, id)) return std::nullopt;
  return static_cast<const std::uint32_t*>(gguf_get_arr_data(&file, id))[index];
}

Result<std::unique_ptr<os::File>> open_linked(const std::string& path) {
  TRY_ASSIGN(const std::string resolved, os::resolve_links(path));
  return os::real_file_system().open(resolved);
}

std::string gguf_text(const gguf_context& file, const std::string& key) {
  const std::int64_t id = gguf_find_key(&file, key.c_str());
  return id >= 0 && gguf_get_kv_type(&file, id) == GGUF_TYPE_STRING ? gguf_get_val_str(&file, id) : std::string();
}

}  // namespace kvkeep::engine::llama
