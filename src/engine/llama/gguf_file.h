#pragma once

// Reading GGUF files: their metadata, and their bytes for names.

#include <gguf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "os/file_system.h"

namespace kvkeep::engine::llama {

struct GgufDeleter {
  void operator()(gguf_context* file) const { gguf_free(file); }
};
using GgufHandle = std::unique_ptr<gguf_context, GgufDeleter>;

// Metadata and tensor directory, no weights. Errors: kNotFound, kDamaged (not a GGUF file), one line each.
Result<GgufHandle> open_gguf(const std::string& path);

// An unsigned number of any width; of an array, its element `index`. Nothing: no such key, or not a number.
std::optional<std::uint64_t> gguf_number(const gguf_context& file, const std::string& key, std::size_t index = 0);
// Opens a file that may be reached through links.
Result<std::unique_ptr<os::File>> open_linked(const std::string& path);
// Empty: no such key, or not a string.
std::string gguf_text(const gguf_context& file, const std::string& key);

}  // namespace kvkeep::engine::llama
