#pragma once

// Where users keep things.

#include <string>

#include "base/result.h"

namespace kvkeep::os {

// The user's cache home: $XDG_CACHE_HOME if absolute, else $HOME/.cache. kUnsupported: neither is set; name a
// directory instead.
Result<std::string> user_cache_home();

}  // namespace kvkeep::os
