#pragma once

// What the machine is, for reports of measurements.

#include <cstdint>
#include <string>

#include "base/types.h"

namespace kvkeep::os {

struct MachineInfo {
  std::string processor;           // "AMD EPYC 7B13"; empty: not told
  std::uint32_t logical_cpus = 0;  // that this process may run on
  ByteCount memory;                // physical
  std::string system;              // "Debian GNU/Linux 12 (bookworm)"
};

MachineInfo machine_info();

// Whether somebody watches standard error, reads standard output, can answer on standard input.
bool errors_go_to_a_terminal();
bool output_goes_to_a_terminal();
bool input_comes_from_a_terminal();

}  // namespace kvkeep::os
