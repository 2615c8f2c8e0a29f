#pragma once

// The time to the first token of a turn before which six known pictures stand, next to the same turn where text of as
// many tokens stands in their place: to know a picture again, its file has to be read, decoded from base64 and hashed.
// On one server of kvkeep, both conversations in turn; wall time.

#include <cstddef>
#include <functional>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/bench.h"
#include "bench/run/interrupt.h"

namespace kvkeep::bench {

struct KnownPicturesOptions {
  std::size_t pairs = 15;
  bool has_goal = true;  // false: the times of a tiny model mean nothing
};

// Steps are requests. Precondition: `bench` names a projector. kAborted if interrupted, kUnsupported if a reply is not
// what was asked for. Otherwise errors of starting a server.
Result<std::vector<PartFigures>> measure_known_pictures(
    const BenchOptions& bench, const KnownPicturesOptions& options,
    const std::function<void(std::size_t done, std::size_t of)>& progress, Interrupt& interrupt);

}  // namespace kvkeep::bench
