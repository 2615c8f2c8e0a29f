#pragma once

// What `kvkeep cache verify --repair` does: damaged files are set aside, what hangs below nothing is removed.

#include "inspect/verify.h"
#include "os/clock.h"

namespace kvkeep::inspect {

struct RepairReport {
  std::uint64_t set_aside = 0;  // in quarantine/, of which the oldest leave (store/quarantine.h)
  std::uint64_t removed = 0;
  ByteCount freed;
  std::uint64_t failed = 0;
};

// Whole files only, children before parents, so that a server next to it sees no hole. What is unreadable stays: a
// device may recover. `budget`: of the directory, of which quarantine may have a share. Errors: of the quarantine's
// directory.
Result<RepairReport> repair(os::FileSystem& files, os::Clock& clock, const CacheDirectory& directory, ByteCount budget,
                            const std::vector<Finding>& findings);

}  // namespace kvkeep::inspect
