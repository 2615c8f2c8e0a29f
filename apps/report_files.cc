#include "report_files.h"

#include "flag_values.h"

namespace kvkeep::cli {

std::vector<Flag> report_flags(ReportFiles& files) {
  return {
      {.group = "Report",
       .spelling = "--json FILE",
       .effect = "Write everything that was found, for programs.",
       .assign = text_into(files.json)},
      {.spelling = "--html FILE",
       .effect = "Write one page that draws the same, and needs nothing else.",
       .assign = text_into(files.html)},
  };
}

}  // namespace kvkeep::cli
