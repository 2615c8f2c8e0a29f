#pragma once

// Keeps state of other model files out of a server's tiers: reads all of the model's files once, next to serving, and
// tells the disk tier what it found (store/weights.h). With --model-hash full the fingerprint says it all, and there is
// no guard.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "os/executor.h"
#include "store/weights.h"

namespace kvkeep::cli {

// A model's files as they were at some moment.
struct SeenFiles {
  std::string path;  // of the first
  store::FilesMark mark;
  std::uint64_t bytes = 0;  // of all of them
};
// Errors: as gguf::split_paths() and os::stamp_of().
Result<SeenFiles> see_files(const std::string& path);

// Returns the hash of all bytes of a small model, such as a projector: the kept one, or reads the file and keeps it in
// `root` ("": nowhere).
Result<ModelHash> hash_at_once(const SeenFiles& seen, const std::string& root);

// The fingerprint that versions gave which sampled fewer bytes of a model, from the text of this version's.
Result<FingerprintHash> former_fingerprint(const std::string& path, const std::string& text);

// Thread safe after use_directory().
class WeightsGuard {
 public:
  // `seen` before the model was loaded. A file that changed since belongs to no state. Readings that keep the server
  // from serving end when `ends` returns true, which is asked after each mebibyte, on the thread that reads.
  explicit WeightsGuard(SeenFiles seen, std::function<bool()> ends = {});
  ~WeightsGuard();
  WeightsGuard(const WeightsGuard&) = delete;
  WeightsGuard& operator=(const WeightsGuard&) = delete;

  // Returns what DiskOptions::admit is to be for this directory. Where the state there may be another file's, the files
  // are read in the call that finds that out if they have at most kReadAtOnceBytes: the first request then finds it.
  std::function<Status()> use_directory(const store::Layout& layout);
  // Returns what DiskOptions::still_admitted is to return for that directory.
  bool uses_directory() const { return claim_->is_held(); }
  // Returns the hash, and reads the files now if it is not known: for tiers that cannot wait.
  Result<ModelHash> hash_now();
  // Reads the files on a thread that others go before, at most kBytesPerSecond, unless their hash is known.
  // Calls `known` when it is; both must outlive the result, which ends the reading.
  class Reading;
  std::unique_ptr<Reading> read_in_background(std::function<void()> known);

  static constexpr std::uint64_t kBytesPerSecond = std::uint64_t{512} << 20;
  static constexpr std::uint64_t kReadAtOnceBytes = std::uint64_t{1} << 30;  // half a second from the page cache

 private:
  Result<ModelHash> read_files(bool throttled);
  void note(const ModelHash& hash);
  Status read_and_take();
  Status take() const;

  const SeenFiles seen_;
  const std::function<bool()> ends_;
  bool changed_ = false;  // while the model was loaded
  bool read_at_once_ = false;
  std::string root_;
  std::unique_ptr<store::DirectoryClaim> claim_;  // null without a disk tier
  std::atomic<bool> stopping_ = false;
};

class WeightsGuard::Reading {
 public:
  Reading(WeightsGuard& guard, std::function<void()> known);
  ~Reading();
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  WeightsGuard& guard_;
  std::unique_ptr<os::Executor> thread_;
};

}  // namespace kvkeep::cli
