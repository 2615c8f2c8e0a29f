#pragma once

// Small files next to a model's segments, for people and `kvkeep cache`: what describes the model (its loss costs only
// names), and its pinned prefixes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/notes.h"
#include "os/file_system.h"

namespace kvkeep::inspect {

struct Forest;    // view.h
struct IdTarget;  // prefix_tree.h

struct ModelNote {
  std::string name = {};          // of the model
  std::string description = {};   // "llama 26M Q8_0"
  std::string path = {};          // of its file, absolute
  std::string settings = {};      // "-ctk q8_0 -fa off", "default"; empty: unknown
  std::string computed_by = {};   // "CPU, libllama 0.7.0, ggml 0.27.0"; empty: unknown
  std::int64_t first_used_s = 0;  // since the epoch
  // The kinds of devices that computed what is stored (engine::Description::compute_kinds), at most kMostDevices;
  // empty, or kUnknownDevice among them: also others. Namespaces of a shared tier are named after one.
  std::vector<std::string> devices = {};
  // The hash of the model's files in hexadecimal digits, as a note has it that leaves its directory, where it is told
  // by another file (store/weights.h). Empty: the fingerprint tells all files apart.
  std::string weights = {};
  bool operator==(const ModelNote&) const = default;
};

inline constexpr std::size_t kMaxNoteBytes = 12 << 10;
inline constexpr std::size_t kMostDevices = 4;
inline constexpr std::string_view kUnknownDevice = "unknown";

// Longer fields are cut.
std::string encode_model_note(const ModelNote& note);
// Returns nullopt if it is no note. Never throws.
std::optional<ModelNote> decode_model_note(std::string_view text);

std::optional<ModelNote> read_model_note(os::FileSystem& files, const std::string& directory);
// Keeps the time of the first use and the devices if there is a note already, and leaves the weights out. Replaced as a
// whole; not synced.
Status write_model_note(os::FileSystem& files, const std::string& directory, ModelNote note);

// A small file of a directory of the cache: all of it, if it is not larger than `most`. Fails with kNotFound, or with
// kDamaged if it is too large.
Result<std::string> read_small_file(os::FileSystem& files, const std::string& path, std::size_t most);

// The pinned prefixes of a fingerprint: a text file next to the segments, one line for each. Without it they are like
// all others.
using format::decode_pins;
using format::encode_pins;
using format::kMostPins;

// Empty if there is no such file.
Result<std::vector<PrefixHash>> read_pins(os::FileSystem& files, const std::string& directory);
Status write_pins(os::FileSystem& files, const std::string& directory, const std::vector<PrefixHash>& pins);

// The runs whose ends, or ends of segments within, are pinned.
std::vector<std::size_t> pinned_runs(const Forest& forest, std::size_t model);

// Pins these runs, or unpins them. Fails with kNoSpace if one model had more than kMostPins. Returns how many changed;
// a run that is pinned already did not.
Result<std::size_t> change_pins(os::FileSystem& files, const Forest& forest, const std::vector<IdTarget>& runs,
                                bool pin);

}  // namespace kvkeep::inspect
