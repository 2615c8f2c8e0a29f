#pragma once

// What mutations() says in the room's test program.

#include "store/mutations.h"

namespace kvkeep::store {

extern Mutations active_mutations;

}  // namespace kvkeep::store
