#include "engine/llama/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>

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

namespace {

void read_kv_elements(const gguf_context& file, std::uint64_t layers, ModelShape& shape) {
  const std::string prefix = shape.architecture + ".";
  const std::uint64_t embedding = gguf_number(file, prefix + "embedding_length").value_or(0);
  const bool derives_v = gguf_number(file, prefix + "attention.kv_lora_rank").has_value();
  for (std::size_t i = 0; i < layers; ++i) {
    const std::uint64_t heads = gguf_number(file, prefix + "attention.head_count", i).value_or(1);
    const std::uint64_t heads_kv = gguf_number(file, prefix + "attention.head_count_kv", i).value_or(heads);
    const std::uint64_t head_size = heads == 0 ? 0 : embedding / heads;
    shape.k_elements.push_back(heads_kv * gguf_number(file, prefix + "attention.key_length").value_or(head_size));
    shape.v_elements.push_back(
        derives_v ? 0 : heads_kv * gguf_number(file, prefix + "attention.value_length").value_or(head_size));
  }
}

// libllama ends the process if two ids have the same spelling. It gives empty ones a spelling of its own.
Status check_tokens(const gguf_context& file, const std::string& path) {
  const std::int64_t key = gguf_find_key(&file, "tokenizer.ggml.tokens");
  const bool has_tokens =
      key >= 0 && gguf_get_kv_type(&file, key) == GGUF_TYPE_ARRAY && gguf_get_arr_type(&file, key) == GGUF_TYPE_STRING;
  if (!has_tokens) return {};
  std::unordered_map<std::string_view, std::size_t> ids;
  ids.reserve(gguf_get_arr_n(&file, key));
  for (std::size_t id = 0; id < gguf_get_arr_n(&file, key); ++id) {
    const std::string_view spelling = gguf_get_arr_str(&file, key, id);
    if (spelling.empty()) continue;
    const auto [known, is_new] = ids.emplace(spelling, id);
    if (is_new) continue;
    return damaged(
        fmt::format("cannot load {}: it is damaged: its tokens {} and {} are spelt alike", path, known->second, id));
  }
  return {};
}

// "blk.12.attn_q.weight" -> 12.
std::optional<std::size_t> layer_of(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  std::size_t layer = 0;
  const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return error == std::errc{} ? std::optional(layer) : std::nullopt;
}

void add_weights(const gguf_context& file, ModelShape& shape) {
  for (std::int64_t i = 0; i < gguf_get_n_tensors(&file); ++i) {
    const std::string_view name = gguf_get_tensor_name(&file, i);
    const std::uint64_t bytes = gguf_get_tensor_size(&file, i);
    if (name.starts_with("rope_factors_")) shape.has_rope_factors = true;
    if (name == "cls.weight" || name == "cls.output.weight") shape.has_classifier = true;
    const auto layer = layer_of(name);
    if (layer && *layer < shape.layer_bytes.size()) shape.layer_bytes[*layer] += bytes;
    // Token embeddings are looked up on the host; they count again if they are also the output matrix.
    if (!layer) shape.output_bytes += bytes;
  }
}

std::string split_path(const std::string& first, std::uint16_t index, std::uint16_t count) {
  std::vector<char> prefix(first.size() + 1);
  if (llama_split_prefix(prefix.data(), prefix.size(), first.c_str(), 0, count) <= 0) return {};
  std::vector<char> path(first.size() + 64);
  llama_split_path(path.data(), path.size(), prefix.data(), index, count);
  return path.data();
}

// libllama takes the first of several values, and ignores values that are not whole numbers.
std::optional<std::uint32_t> overridden(std::span<const MetadataOverride> kv_overrides, const std::string& key) {
  const auto found = std::ranges::find(kv_overrides, key, &MetadataOverride::key);
  if (found == kv_overrides.end() || !std::holds_alternative<std::int64_t>(found->value)) return std::nullopt;
  return static_cast<std::uint32_t>(std::get<std::int64_t>(found->value));
}

// Read as libllama does: the model's own key, else the length that it was trained for.
std::uint32_t original_context_tokens(const ModelShape& shape, std::span<const MetadataOverride> kv_overrides) {
  const std::string original = shape.architecture + ".rope.scaling.original_context_length";
  if (const auto tokens = overridden(kv_overrides, original)) return *tokens;
  if (shape.context_original_tokens) return *shape.context_original_tokens;
  return overridden(kv_overrides, shape.architecture + ".context_length").value_or(shape.context_train_tokens);
}

}  // namespace

std::uint64_t ModelShape::kv_bytes(std::size_t layer, std::uint64_t tokens, ggml_type type_k, ggml_type type_v) const {
  return tokens * (ggml_row_size(type_k, static_cast<std::int64_t>(k_elements[layer])) +
                   ggml_row_size(type_v, static_cast<std::int64_t>(v_elements[layer])));
}

std::uint64_t ModelShape::kv_bytes(std::uint64_t tokens, ggml_type type_k, ggml_type type_v) const {
  std::uint64_t sum = 0;
  for (std::size_t layer = 0; layer < k_elements.size(); ++layer) sum += kv_bytes(layer, tokens, type_k, type_v);
  return sum;
}

Result<ModelShape> read_model_shape(const std::string& path) {
  TRY_ASSIGN(GgufHandle file, open_gguf(path));
  ModelShape shape;
  shape.architecture = gguf_text(*file, "general.architecture");
  const std::string prefix = shape.architecture + ".";
  shape.context_train_tokens = static_cast<std::uint32_t>(gguf_number(*file, prefix + "context_length").value_or(0));
  if (const auto original = gguf_number(*file, prefix + "rope.scaling.original_context_length")) {
    shape.context_original_tokens = static_cast<std::uint32_t>(*original);
  }
  TRY(check_tokens(*file, path));
  const std::uint64_t layers = gguf_number(*file, prefix + "block_count").value_or(0);
  if (layers == 0 && gguf_find_key(file.get(), (prefix + "block_count").c_str()) >= 0) {
    return damaged(fmt::format("cannot load {}: it claims to have no layers ({}block_count)", path, prefix));
  }
  if (layers > 4096) return damaged(fmt::format("cannot load {}: it claims {} layers", path, layers));
  shape.layer_bytes.resize(layers);
  read_kv_elements(*file, layers, shape);
  add_weights(*file, shape);
  const auto splits = static_cast<std::uint16_t>(gguf_number(*file, "split.count").value_or(0));
  for (std::uint16_t i = 1; i < splits; ++i) {
    TRY_ASSIGN(const GgufHandle part, open_gguf(split_path(path, i, splits)));
    add_weights(*part, shape);
  }
  return shape;
}

std::string rope_factors_in_use(const ModelShape& shape, std::span<const MetadataOverride> kv_overrides,
                                std::uint32_t sequence_tokens) {
  if (!shape.has_rope_factors) return {};
  return sequence_tokens > original_context_tokens(shape, kv_overrides) ? "long" : "short";
}

}  // namespace kvkeep::engine::llama
