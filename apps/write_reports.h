#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench_flags.h"

namespace kvkeep::cli {

struct NamedOutput {
  std::string flag;
  std::string path;  // empty: not wanted
};

std::vector<NamedOutput> outputs_of(const ReportFiles& files);

// Checks that each file can be written, before anything is measured; makes and changes no file. Errors name flag and
// path: a folder that does not exist or may not be written to, a path that is no file, one path for two flags.
Status check_outputs(const std::vector<NamedOutput>& outputs);

// Writes the wanted files, also after one that cannot be written. A file is either whole or as it was before; a link
// stays a link, and the file that it names is replaced. Returns the first error, with the path.
Status write_reports(const bench::Report& report, const ReportFiles& files);

}  // namespace kvkeep::cli
