#pragma once

// The process's environment variables, read once at start and passed on as a value, so that parsing them is a pure
// function.

#include <map>
#include <string>

namespace kvkeep::os {

// Name to value.
using Environment = std::map<std::string, std::string, std::less<>>;

// A copy of the environment as it is now. Call it before threads that change the environment could run.
Environment read_environment();

}  // namespace kvkeep::os
