#pragma once

// `kvkeep cache verify --repair`: moves damaged files to the quarantine and removes orphans.

#include "inspect/verify.h"
#include "os/clock.h"

namespace kvkeep::inspect {

struct RepairReport {
  std::uint64_t set_aside = 0;  // in quarantine/, of which the oldest leave (store/unserved_files.h)
  std::uint64_t removed = 0;
  ByteCount freed;
  std::uint64_t failed = 0;
};

// Changes whole files only, children before parents, so that a server next to it sees no hole. Unreadable files stay: a
// device may recover. `budget`: of the directory, of which the quarantine may have a share. Errors: of the quarantine's
// directory.
Result<RepairReport> repair(os::FileSystem& files, os::Clock& clock, const CacheDirectory& directory, ByteCount budget,
                            const std::vector<Finding>& findings);

}  // namespace kvkeep::inspect
