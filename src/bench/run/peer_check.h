#pragma once

// Whether the peer can be played at all, asked before anything is measured: minutes of kvkeep's own runs should not end
// at a mistyped name.

#include "base/result.h"
#include "bench/run/bench.h"
#include "bench/run/interrupt.h"

namespace kvkeep::bench {

// A program must exist; a running server must turn a chat into ids. No peer: nothing to check. Takes seconds at most
// from a server that does not answer. kNotFound: no such program. kInvalid, kIo, kUnsupported: the URL, or whoever
// answers there. kAborted: interrupted. The message begins with the flag.
Status check_peer(const BenchOptions& options, Interrupt& interrupt);

}  // namespace kvkeep::bench
