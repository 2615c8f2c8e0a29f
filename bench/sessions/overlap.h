#pragma once

// Which requests of a recording were under way together.

#include <cstddef>
#include <vector>

#include "bench/sessions/session.h"

namespace kvkeep::bench {

// For each request, those before it that had ended when it was sent and had not when its predecessor was, by their
// place in session.requests. A recording says how many were under way (in_flight), not which: a request whose
// conversation goes on in this one has ended; of the others, the ones sent last are taken to be under way.
std::vector<std::vector<std::size_t>> ended_before(const Session& session);

}  // namespace kvkeep::bench
