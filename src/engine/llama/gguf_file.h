#pragma once

// Reads GGUF files: their metadata, and their bytes for hashing.

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

// Reads metadata and tensor directory, no weights. Errors: kNotFound, kDamaged (not a GGUF file), one line each.
Result<GgufHandle> open_gguf(const std::string& path);

// Returns an unsigned number of any width, or element `index` of an array; nullopt if there is no such number.
std::optional<std::uint64_t> gguf_number(const gguf_context& file, const std::string& key, std::size_t index = 0);
// Opens a file that may be reached through links.
Result<std::unique_ptr<os::File>> open_linked(const std::string& path);
// Returns "" if there is no such key, or it is no string.
std::string gguf_text(const gguf_context& file, const std::string& key);

}  // namespace kvkeep::engine::llama
