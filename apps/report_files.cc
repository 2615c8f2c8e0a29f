#include "report_files.h"

#include "flag_values.h"

namespace kvkeep::cli {

std::vector<Flag> report_flags(ReportFiles& files) {
  return {
      {.group = "Report",
       .spelling = "--json FILE",
       .effect = "Write all results as JSON, for programs.",
       .assign = text_into(files.json)},
      {.spelling = "--html FILE",
       .effect = "Write one self-contained HTML page that draws the results.",
       .assign = text_into(files.html)},
  };
}

}  // namespace kvkeep::cli
