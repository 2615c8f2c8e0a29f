#pragma once

// The files that bench and replay write their reports to.

#include <string>
#include <vector>

#include "flag_set.h"

namespace kvkeep::cli {

// Paths; empty: not wanted.
struct ReportFiles {
  std::string json;
  std::string html;
};

// --json and --html, bound to `files`, which must outlive them.
std::vector<Flag> report_flags(ReportFiles& files);

}  // namespace kvkeep::cli
