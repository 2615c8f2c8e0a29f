#pragma once

// Chooses what `kvkeep cache gc` removes: useless files, and down to a size the least valuable ones. Pure but for the
// lists it is given.

#include "inspect/removal.h"

namespace kvkeep::inspect {

// A younger file that seems to be left over may be one that a server is busy with.
inline constexpr std::int64_t kGraceNs = 60LL * 1'000'000'000;

struct CollectOptions {
  std::int64_t now_ns = 0;
  bool alone = false;                  // no server runs on the directory, and none can start
  bool quarantine = false;             // remove quarantined files, too
  std::optional<ByteCount> most = {};  // for the whole directory; above it files leave by value, as servers choose
};

// Children before parents. Next to a server, temporaries stay (they may be its own), and so do redundant files.
std::vector<Removal> collect(const Forest& forest, const CollectOptions& options);

}  // namespace kvkeep::inspect
