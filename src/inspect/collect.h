#pragma once

// What `kvkeep cache gc` takes away: what nobody can use, and down to a size what is worth least. Pure but for the
// lists it is given.

#include "inspect/removal.h"

namespace kvkeep::inspect {

// Younger than this, a file that seems to be left over may be one that a server is busy with.
inline constexpr std::int64_t kGraceNs = 60LL * 1'000'000'000;

struct CollectOptions {
  std::int64_t now_ns = 0;
  bool alone = false;                  // no server runs on the directory, and none can start
  bool quarantine = false;             // what was set aside, too
  std::optional<ByteCount> most = {};  // of the whole directory; more goes by value, as servers choose it
};

// Children before parents. Next to a server, temporaries stay (they may be its own), and so does what is redundant.
std::vector<Removal> collect(const Forest& forest, const CollectOptions& options);

}  // namespace kvkeep::inspect
