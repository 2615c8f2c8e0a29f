// Kept reports: refused with the key, or printed in every form, and kept again as the same.

#include "bench/report/regression.h"
#include "bench/report/report.h"
#include "fuzz.h"

KVKEEP_FUZZ_TARGET(report)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  const auto report = bench::read_json(fuzz::text_of(fuzz::bytes_of(data, size)));
  if (!report) {
    KVKEEP_ASSERT(!report.error().message.empty(), "a refusal has a reason");
    return 0;
  }
  const std::string kept = bench::to_json(*report);
  const auto again = bench::read_json(kept);
  KVKEEP_ASSERT(again && bench::to_json(*again) == kept, "what is kept is read as it was");
  const std::string table = bench::to_table(*report);
  KVKEEP_ASSERT(table.find('\x1b') == std::string::npos, "no text controls a terminal");
  const std::string page = bench::to_html(*report);
  const std::size_t json = page.find("id=\"report\">");
  KVKEEP_ASSERT(page.find('<', json) == page.find("</script>", json), "no text ends the element that holds it");
  KVKEEP_ASSERT(bench::regressions(*again, *again, bench::Scope::kAll).empty(), "nothing is worse than itself");
  return 0;
}
