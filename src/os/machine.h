#pragma once

// The machine that this process runs on: processors, memory, and their names in reports.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::os {

struct MachineInfo {
  std::string processor;           // "AMD EPYC 7B13"; empty: unknown
  std::uint32_t logical_cpus = 0;  // that this process may run on
  ByteCount memory;                // physical
  std::string system;              // "Debian GNU/Linux 12 (bookworm)"
};

MachineInfo machine_info();

// Returns the physical cores that this process may run on, at least 1. Two hyper-threads of a core count once: matrix
// products gain nothing from the second.
unsigned core_count();

// Returns the memory that can be used without swapping (MemAvailable of /proc/meminfo). kUnsupported if unknown.
Result<ByteCount> available_memory();
// Returns the same from the text of a meminfo file.
Result<ByteCount> parse_available_memory(std::string_view meminfo);

std::size_t page_size();

}  // namespace kvkeep::os
