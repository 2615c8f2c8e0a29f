#include "os/environment.h"

#include <unistd.h>

#include <string_view>

namespace kvkeep::os {

Environment read_environment() {
  Environment environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    // A name may start with '=' nowhere but in broken environments; find() from 1 keeps such an entry whole.
    const auto equals = text.find('=', 1);
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace kvkeep::os
