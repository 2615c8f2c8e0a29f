#include "report_files.h"

#include "flag_values.h"

namespace kvkeep::cli {

std::vector<Flag> report_flags(ReportFiles& files) {
  return {
      {.group = "Report",
       .spelling = "--json FILE",
       .effect = "Write everything that was found, for programs.",
       .assign = text_into(files.json)},
      {.spelling = "--csv FILE", .effect = "Write one line per request.", .assign = text_into(files.csv)},
      {.spelling = "--html FILE",
       .effect = "Write one page with plots that needs nothing else.",
       .assign = text_into(files.html)},
      {.spelling = "--markdown FILE", .effect = "Write the tables as Markdown.", .assign = text_into(files.markdown)},
  };
}

}  // namespace kvkeep::cli
