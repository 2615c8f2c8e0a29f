#pragma once

#include <string>

#include "base/result.h"

namespace kvkeep::os {

// The file that a shell would run for this name: looked up in PATH if it has no slash. kNotFound: there is none, or it
// may not be executed.
Result<std::string> find_program(const std::string& name);

}  // namespace kvkeep::os
