#pragma once

// Reads every file of a cache directory and reports what is wrong with it.
//
// Next to a running server files come and go: a file that is gone when it is read is no damage, and a seeming orphan is
// looked at again, because a listing may miss files that were written during it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "inspect/cache_directory.h"
#include "inspect/prefix_tree.h"
#include "os/clock.h"
#include "os/executor.h"

namespace kvkeep::inspect {

enum class Trouble {
  kDamaged,     // the bytes are not a whole segment of this name and fingerprint
  kMisnamed,    // whole, but the tokens do not hash to the name
  kOrphan,      // whole, but the file that it continues, hangs in or is built on is missing
  kUnreadable,  // the device refused
};
std::string_view to_string(Trouble trouble);

struct Finding {
  Trouble trouble = Trouble::kDamaged;
  std::string directory;  // path
  std::string file;       // name
  ByteCount size;
  std::string reason;
  // Findings sorted by it may be removed in order: children before parents.
  Position order = {};
};

struct VerifyReport {
  std::uint64_t files = 0;
  ByteCount read;
  std::uint64_t prefixes = 0;   // runs whose files all hang together
  std::uint64_t redundant = 0;  // files that hold only what others hold; harmless
  std::uint64_t vanished = 0;   // listed, and gone when they were to be read
  std::vector<Finding> findings;
  bool clean() const { return findings.empty(); }
};

// Called from the executors' threads, one at a time.
using VerifyProgress = std::function<void(ByteCount done, ByteCount total)>;

// Waits for a moment in which servers write missing files, or remove orphans. Returns false after the last time.
using VerifyWait = std::function<bool()>;

// All executors read files at the same time. If servers run, pass `wait`: a seeming orphan may be the end of a
// conversation that went on before its server heard that the beginning was removed. Errors: of listing directories.
Result<VerifyReport> verify(os::FileSystem& files, const CacheDirectory& directory,
                            const std::vector<os::Executor*>& executors, const VerifyProgress& progress = {},
                            const VerifyWait& wait = {});

// `kvkeep cache verify --repair`: moves damaged files to the quarantine and removes orphans.
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
