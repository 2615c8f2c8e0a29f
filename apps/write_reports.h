#pragma once

#include "base/result.h"
#include "bench/figures.h"
#include "report_files.h"

namespace kvkeep::cli {

// Writes the forms that are wanted. A file is either whole or what it was before. Errors name the path.
Status write_reports(const bench::Report& report, const ReportFiles& files);

}  // namespace kvkeep::cli
