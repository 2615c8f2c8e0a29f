#pragma once

// Reads every file of a cache directory and says what is wrong with it.
//
// Next to a running server files come and go: what is gone when it is looked at is no damage, and what seems to hang
// below nothing is looked at again, because a listing may miss what was written during it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "inspect/cache_directory.h"
#include "inspect/prefix_tree.h"
#include "os/executor.h"

namespace kvkeep::inspect {

enum class Trouble {
  kDamaged,     // the bytes are not a whole segment of this name and fingerprint
  kMisnamed,    // whole, but the tokens do not hash to the name
  kOrphan,      // whole, but what it continues, hangs in or is built on is not there
  kUnreadable,  // the device refused
};
std::string_view to_string(Trouble trouble);

struct Finding {
  Trouble trouble = Trouble::kDamaged;
  std::string directory;  // path
  std::string file;       // name
  ByteCount size;
  std::string reason;
  // Children before parents, if findings are removed in their order.
  Position order = {};
};

struct VerifyReport {
  std::uint64_t files = 0;
  ByteCount read;
  std::uint64_t prefixes = 0;   // runs whose files all hang together
  std::uint64_t redundant = 0;  // files that hold only what others have; harmless
  std::uint64_t vanished = 0;   // listed, and gone when they were to be read
  std::vector<Finding> findings;
  bool clean() const { return findings.empty(); }
};

// Called from the executors' threads, one at a time.
using VerifyProgress = std::function<void(ByteCount done, ByteCount total)>;

// Lets a moment pass in which servers write what is missing, or remove what hangs below nothing. False: no more.
using VerifyWait = std::function<bool()>;

// Files are read by all executors at the same time. Where servers run, pass `wait`: what seems to be an orphan may be
// the end of a conversation that went on before its server heard that the beginning was removed. Errors: of listing
// directories.
Result<VerifyReport> verify(os::FileSystem& files, const CacheDirectory& directory,
                            const std::vector<os::Executor*>& executors, const VerifyProgress& progress = {},
                            const VerifyWait& wait = {});

}  // namespace kvkeep::inspect
