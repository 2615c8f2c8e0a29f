#include "report_files.h"

#include "flag_binding.h"

namespace kvkeep::cli {

std::vector<Flag> report_flags(ReportFiles& files) {
  const char* group = "Report";
  return {
      row(group, "--json", {}, {}, "FILE", "", "none", "Write everything that was found, for programs.",
          text_into(files.json)),
      row(group, "--csv", {}, {}, "FILE", "", "none", "Write one line per request.", text_into(files.csv)),
      row(group, "--html", {}, {}, "FILE", "", "none", "Write one page with plots that needs nothing else.",
          text_into(files.html)),
      row(group, "--markdown", {}, {}, "FILE", "", "none", "Write the tables as Markdown.", text_into(files.markdown))};
}

}  // namespace kvkeep::cli
