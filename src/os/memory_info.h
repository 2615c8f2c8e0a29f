#pragma once

// What the machine's memory looks like, for default budgets.

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::os {

// Physical memory that can be used without swapping (MemAvailable of /proc/meminfo). kUnsupported: not told.
Result<ByteCount> available_memory();
// The same from the text of a meminfo file.
Result<ByteCount> parse_available_memory(std::string_view meminfo);

std::size_t page_size();

}  // namespace kvkeep::os
