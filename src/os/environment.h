#pragma once

// The process's environment variables and the programs that they lead to. Variables are read once at start and passed
// on as a value, so that parsing them is a pure function.

#include <map>
#include <string>

#include "base/result.h"

namespace kvkeep::os {

// Name to value.
using Environment = std::map<std::string, std::string, std::less<>>;

// Returns a copy of the environment as it is now. Call it before threads that change the environment could run.
Environment read_environment();

// Returns the file that a shell would run for this name: looked up in PATH if it has no slash. kNotFound if there is
// none, or it may not be executed.
Result<std::string> find_program(const std::string& name);

}  // namespace kvkeep::os
