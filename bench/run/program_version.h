#pragma once

// The version that a program prints for --version.

#include <string>
#include <string_view>

#include "bench/run/interrupt.h"

namespace kvkeep::bench {

// Returns, from the output of a program of that name, the text after "version: " (llama-server prints it after lines
// about its devices), or after the program's own name ("kvkeep 0.1.0"). "" if neither is there: an interpreter's or a
// wrapper's version is not that of the server it runs.
std::string version_in(std::string_view output, std::string_view program_name);

// Runs `program --version`, for some seconds at most. "" if it printed none. An empty `program` is this one.
std::string version_of_program(const std::string& program, Interrupt& interrupt);

}  // namespace kvkeep::bench
