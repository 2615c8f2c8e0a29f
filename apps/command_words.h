#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::cli {

// Splits a command line as a shell would: blanks separate words, '...' and "..." quote, a backslash takes the next
// character as it is (within "..." only before a quote or a backslash). Nothing is expanded. kInvalid if a quote is
// open or there is no word at all.
Result<std::vector<std::string>> command_words(std::string_view text);

}  // namespace kvkeep::cli
