#pragma once

// Keeps what `kvkeep cache pin` named: looks at the file of pins now and then, on a thread of its own, and has the
// cache keep those prefixes as if somebody had asked for it again and again.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tenant.h"
#include "base/types.h"
#include "cache/cache.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/ticker.h"

namespace kvkeep::cli {

class PinKeeper {
 public:
  // `directory`: of the fingerprint. All must outlive it.
  PinKeeper(std::string directory, const FingerprintHash& fingerprint, cache::Cache& cache, os::FileSystem& files,
            os::Clock& clock);
  PinKeeper(const PinKeeper&) = delete;
  PinKeeper& operator=(const PinKeeper&) = delete;

 private:
  struct Pinned {
    std::vector<TokenId> ids;
    Tenant tenant;
  };
  void look();
  void find_prefixes();
  void keep();

  const std::string directory_;
  const FingerprintHash fingerprint_;
  cache::Cache& cache_;
  os::FileSystem& files_;
  os::Clock& clock_;
  // Of the thread:
  std::vector<PrefixHash> pins_;
  std::vector<Pinned> pinned_;
  std::int64_t kept_ns_ = 0;
  std::unique_ptr<os::Ticker> ticker_;  // last: it ends first
};

}  // namespace kvkeep::cli
