#pragma once

// What people and `kvkeep cache` leave beside a running server's segments, looked at now and then on a thread of its
// own. The note of the model is written again where other hands removed it. What is pinned is kept: the cache is asked
// for it as if somebody had wanted it again and again.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tenant.h"
#include "base/types.h"
#include "cache/cache.h"
#include "inspect/model_note.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/threads.h"

namespace kvkeep::cli {

class DirectoryNotes {
 public:
  // `directory`: of the fingerprint. The note is written and what is pinned is kept at once. All must outlive it.
  DirectoryNotes(std::string directory, const FingerprintHash& fingerprint, inspect::ModelNote note,
                 cache::Cache& cache, os::FileSystem& files, os::Clock& clock);
  DirectoryNotes(const DirectoryNotes&) = delete;
  DirectoryNotes& operator=(const DirectoryNotes&) = delete;

 private:
  struct Pinned {
    std::vector<TokenId> ids;
    Tenant tenant;
  };
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
  // Of the thread, once it runs:
  std::vector<PrefixHash> pins_;
  std::vector<Pinned> pinned_;
  std::int64_t kept_ns_ = 0;
  bool warned_ = false;
  std::unique_ptr<os::Ticker> ticker_;  // last: it ends first
};

}  // namespace kvkeep::cli
