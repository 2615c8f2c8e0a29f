#pragma once

#include <string>

#include "base/result.h"

namespace kvkeep::os {

// The absolute path behind all links: what a user names may be a link (download caches are made of them), while
// FileSystem::open follows none. kNotFound: nothing is there.
Result<std::string> resolve_links(const std::string& path);

}  // namespace kvkeep::os
