#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::cli {

// A command line as a shell would split it: blanks separate, '...' and "..." join, a backslash takes the next
// character as it is (within "..." only before a quote or a backslash). Nothing is expanded. kInvalid: an open quote,
// or no word at all.
Result<std::vector<std::string>> command_words(std::string_view text);

}  // namespace kvkeep::cli
