#pragma once

// Follows what people and `kvkeep cache` write next to a running server's segments, on a thread of its own. If the
// model's note was removed, it is written again. Pinned prefixes are reported to the cache as if they were wanted again
// and again, so that they are kept.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "cache/cache.h"
#include "inspect/model_notes.h"
#include "inspect/view.h"
#include "os/clock.h"
#include "os/executor.h"
#include "os/file_system.h"
#include "os/threads.h"

namespace kvkeep::cli {

class DirectoryNotes {
 public:
  // `directory` is the fingerprint's. Writes the note and keeps pinned prefixes at once. The arguments must outlive it.
  DirectoryNotes(std::string directory, const FingerprintHash& fingerprint, inspect::ModelNote note,
                 cache::Cache& cache, os::FileSystem& files, os::Clock& clock);
  DirectoryNotes(const DirectoryNotes&) = delete;
  DirectoryNotes& operator=(const DirectoryNotes&) = delete;

  // Pins the prefix of this name, or unpins it, as `kvkeep cache pin` does: the file of pins changes, and a later look
  // keeps the prefix. Returns false if that is so already. kNotFound if the prefix is not on disk. Thread safe; reads
  // the directory.
  Result<bool> change_pin(const PrefixHash& prefix, bool pin) const;
  // The names of pinned prefixes, as the file had them when it was last read. Thread safe.
  std::vector<PrefixHash> pins() const;
  // A thread for such changes.
  os::Executor& executor() { return *changes_; }

 private:
  struct Pinned {
    std::vector<TokenId> ids;
    Tenant tenant;
  };
  Result<inspect::Forest> read_forest() const;
  Result<std::vector<PrefixHash>> read_pins() const;
  void look_at_note();
  void look_at_pins();
  void find_prefixes();
  void keep();
  void warn_once(const Error& error);

  const std::string directory_;
  const FingerprintHash fingerprint_;
  const inspect::ModelNote note_;
  cache::Cache& cache_;
  os::FileSystem& files_;
  os::Clock& clock_;
  // Used by the constructor, then by the thread only:
  std::vector<PrefixHash> pins_;
  std::vector<Pinned> pinned_;
  std::int64_t kept_ns_ = 0;
  bool warned_ = false;
  mutable Mutex mutex_;
  mutable std::vector<PrefixHash> read_pins_ GUARDED_BY(mutex_);
  const std::unique_ptr<os::Executor> changes_ = os::make_thread_executor("kv-notes");
  std::unique_ptr<os::Ticker> ticker_;  // last, so that its thread ends first
};

}  // namespace kvkeep::cli
