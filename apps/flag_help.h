#pragma once

// The text of --help.

#include <string>
#include <vector>

#include "flag_set.h"

namespace kvkeep::cli {

// All spellings of a flag and its value: "-c, --ctx-size N", "--warmup, --no-warmup".
std::string spellings(const Flag& flag);

// Usage line, description, then the flags under their groups in order of first appearance, at most 100 columns.
std::string format_help(const std::string& command, const std::string& description, const std::vector<Flag>& flags);

}  // namespace kvkeep::cli
