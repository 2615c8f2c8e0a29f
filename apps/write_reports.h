#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "report_files.h"

namespace kvkeep::cli {

struct NamedOutput {
  std::string flag;
  std::string path;  // empty: not wanted
};

std::vector<NamedOutput> outputs_of(const ReportFiles& files);

// Whether each file can be written, asked before anything is measured; no file is made or changed. Errors name flag and
// path: a folder that is not there or may not be written to, something else than a file, one path for two flags.
Status check_outputs(const std::vector<NamedOutput>& outputs);

// Writes the forms that are wanted, also behind one that cannot be written. A file is either whole or what it was
// before; a link stays one, and the file behind it is replaced. The first error, naming the path.
Status write_reports(const bench::Report& report, const ReportFiles& files);

}  // namespace kvkeep::cli
