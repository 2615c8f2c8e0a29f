#include "os/paths.h"

#include <cstdlib>

namespace kvkeep::os {

Result<std::string> user_cache_home() {
  // The XDG base directory specification: a relative value is invalid and ignored.
  const char* named = std::getenv("XDG_CACHE_HOME");
  if (named != nullptr && named[0] == '/') return std::string(named);
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache";
  return unsupported("no cache directory: neither XDG_CACHE_HOME nor HOME is set; name one with --kv-disk-dir");
}

}  // namespace kvkeep::os
