// Kept reports: refused with the key, or printed in every form, and kept again as the same.

#include "bench/regression.h"
#include "bench/report.h"
#include "chat/utf8_stream.h"
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
  KVKEEP_ASSERT(bench::to_html(*report).size() <= bench::kMostPageBytes, "a page keeps to its limit");
  for (const std::string& text : {bench::to_table(*report), bench::to_csv(*report), bench::to_markdown(*report)}) {
    KVKEEP_ASSERT(text.find('\x1b') == std::string::npos, "no text controls a terminal");
  }
  KVKEEP_ASSERT(bench::regressions(*again, *again, bench::Scope::kAll).empty(), "nothing is worse than itself");
  return 0;
}
