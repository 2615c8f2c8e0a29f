// The page: a fixed text (page.html) that draws the report from the JSON inside it.

#include "bench/report/page_text.h"
#include "bench/report/report.h"

namespace kvkeep::bench {

std::string to_html(const Report& report) {
  constexpr std::string_view kPlace = "@report@";
  const std::string_view page = page_text();
  const std::size_t place = page.find(kPlace);
  std::string out(page.substr(0, place));
  for (const char byte : to_json(report)) {
    // "</script>" in a name would end the element with the JSON; only its strings contain this byte.
    if (byte == '<')
      out += "\\u003c";
    else
      out += byte;
  }
  return out.append(page.substr(place + kPlace.size()));
}

}  // namespace kvkeep::bench
