#pragma once

// Which requests of a recording overlapped.

#include <cstddef>
#include <vector>

#include "bench/sessions/session.h"

namespace kvkeep::bench {

// Returns, for each request, the earlier ones that had ended when it was sent but not when its predecessor was, by
// their place in session.requests. A recording says how many requests were under way (in_flight), not which: a request
// whose conversation this one continues has ended; of the others, the ones sent last are taken to be under way.
std::vector<std::vector<std::size_t>> ended_before(const Session& session);

}  // namespace kvkeep::bench
