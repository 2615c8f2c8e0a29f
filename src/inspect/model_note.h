#pragma once

// A small file next to a model's segments that describes the model: advice for people. Its fields are bounded and never
// trusted; its loss costs only names.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/file_system.h"

namespace kvkeep::inspect {

struct ModelNote {
  std::string name = {};          // of the model
  std::string description = {};   // "llama 26M Q8_0"
  std::string path = {};          // of its file, absolute
  std::string settings = {};      // "-ctk q8_0 -fa off", "default"; empty: unknown
  std::string computed_by = {};   // "CPU, libllama 0.7.0, ggml 0.27.0"; empty: unknown
  std::int64_t first_used_s = 0;  // since the epoch
  bool operator==(const ModelNote&) const = default;
};

inline constexpr std::size_t kMaxNoteBytes = 12 << 10;

// Longer fields are cut.
std::string encode_model_note(const ModelNote& note);
// Returns nullopt if it is no note. Never throws.
std::optional<ModelNote> decode_model_note(std::string_view text);

std::optional<ModelNote> read_model_note(os::FileSystem& files, const std::string& directory);
// Keeps the time of the first use if there is a note already. Replaced as a whole; not synced.
Status write_model_note(os::FileSystem& files, const std::string& directory, ModelNote note);

// A small file of a directory of the cache: all of it, if it is not larger than `most`. kNotFound, kDamaged: too large.
Result<std::string> read_small_file(os::FileSystem& files, const std::string& path, std::size_t most);

}  // namespace kvkeep::inspect
