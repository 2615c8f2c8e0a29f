#pragma once

// What a program says of itself when it is asked for --version.

#include <string>
#include <string_view>

#include "bench/run/interrupt.h"

namespace kvkeep::bench {

// In what a program of that name printed: what stands behind "version: " (llama-server, behind lines about its
// devices), or behind the program's own name ("kvkeep 0.1.0"). Empty: neither is there; an interpreter's or a wrapper's
// version is not that of the server it runs.
std::string version_in(std::string_view output, std::string_view program_name);

// Runs `program --version`, at most for some seconds. Empty: it did not say. An empty `program` is this one.
std::string version_of_program(const std::string& program, Interrupt& interrupt);

}  // namespace kvkeep::bench
