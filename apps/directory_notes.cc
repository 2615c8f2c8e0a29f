#include "directory_notes.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "inspect/cache_directory.h"
#include "inspect/model_notes.h"
#include "policy/evict_candidate.h"

namespace kvkeep::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::seconds(2);
// Long before the cache's promise to keep a prefix ends.
constexpr std::int64_t kRenewNs = policy::kLongestKeepNs / 4;

}  // namespace

DirectoryNotes::DirectoryNotes(std::string directory, const FingerprintHash& fingerprint, inspect::ModelNote note,
                               cache::Cache& cache, os::FileSystem& files, os::Clock& clock)
    : directory_(std::move(directory)),
      fingerprint_(fingerprint),
      note_(std::move(note)),
      cache_(cache),
      files_(files),
      clock_(clock) {
  const Status written = inspect::write_model_note(files_, directory_, note_);
  if (!written) spdlog::debug("kv disk: cannot write the note about the model: {}", written.error().message);
  look_at_pins();
  ticker_ = os::make_ticker(kBetweenLooks, [this] {
    look_at_note();
    look_at_pins();
  });
}

// The note is lost if somebody removes the model's files or its directory, which the store makes again.
void DirectoryNotes::look_at_note() {
  if (inspect::read_model_note(files_, directory_) || !inspect::write_model_note(files_, directory_, note_)) return;
  spdlog::warn(
      "kv disk: the files in {} were removed by another program; state in memory is still served, new state is stored",
      directory_);
}

void DirectoryNotes::look_at_pins() {
  Result<std::vector<PrefixHash>> pins = read_pins();
  if (!pins) return warn_once(pins.error());  // the pins read before stay
  if (*pins != pins_) {
    pins_ = std::move(*pins);
    find_prefixes();
    keep();
  } else if (!pinned_.empty() && clock_.monotonic_ns() - kept_ns_ >= kRenewNs) {
    keep();
  }
}

std::vector<PrefixHash> DirectoryNotes::pins() const {
  MutexLock lock(mutex_);
  return read_pins_;
}

Result<std::vector<PrefixHash>> DirectoryNotes::read_pins() const {
  TRY_ASSIGN(std::vector<PrefixHash> pins, inspect::read_pins(files_, directory_));
  MutexLock lock(mutex_);
  read_pins_ = pins;
  return pins;
}

Result<inspect::Forest> DirectoryNotes::read_forest() const {
  inspect::CacheDirectory directory;
  directory.root = store::directory_of(directory_);
  TRY_ASSIGN(inspect::ModelDirectory own, inspect::read_model(files_, directory.root, fingerprint_));
  directory.models.push_back(std::move(own));
  return inspect::plant(std::move(directory));
}

Result<bool> DirectoryNotes::change_pin(const PrefixHash& prefix, bool pin) const {
  TRY_ASSIGN(const inspect::Forest forest, read_forest());
  TRY_ASSIGN(const inspect::IdTarget run, forest.ids.find(prefix.hex()));
  TRY_ASSIGN(const std::size_t changed, inspect::change_pins(files_, forest, {run}, pin));
  (void)read_pins();  // so that pins() has it at once; a later look tells of errors
  return changed > 0;
}

// A pin is a hash; the ids of its prefix are found in the files.
void DirectoryNotes::find_prefixes() {
  pinned_.clear();
  if (pins_.empty()) return;
  Result<inspect::Forest> read = read_forest();
  if (!read) {
    pins_.clear();  // so that the next look tries again
    return warn_once(read.error());
  }
  inspect::Forest& forest = *read;
  forest.directory.models.front().pins = pins_;  // not the pins that were written since they were read
  for (std::size_t model = 0; model < forest.trees.size(); ++model) {
    const auto& found = forest.directory.models[model].files.segments;
    for (const std::size_t run : inspect::pinned_runs(forest, model)) {
      const Tenant tenant = found[forest.trees[model].runs[run].rows.front()].header.tenant;
      pinned_.push_back({inspect::path_tokens(forest.trees[model], found, run), tenant});
    }
  }
  spdlog::info("kv disk: {} kept",
               pinned_.size() == 1 ? "1 pinned prefix is" : fmt::format("{} pinned prefixes are", pinned_.size()));
}

void DirectoryNotes::keep() {
  kept_ns_ = clock_.monotonic_ns();
  for (const Pinned& pinned : pinned_) {
    const cache::Track track = cache_.track(pinned.ids, pinned.tenant);
    cache_.keep(track, policy::kLongestKeepNs);
  }
}

// Warns once; each look tries again, and the server serves meanwhile.
void DirectoryNotes::warn_once(const Error& error) {
  if (!std::exchange(warned_, true))
    spdlog::warn("kv disk: pins cannot be read: {}; the pins read before stay", error.message);
}

}  // namespace kvkeep::cli
