// Workloads: refused with the line, or within all limits.

#include "bench/workloads/workload.h"
#include "fuzz.h"

KVKEEP_FUZZ_TARGET(workload)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  const std::string_view text = fuzz::text_of(fuzz::bytes_of(data, size));
  const auto workload = bench::parse_workload("w", text);
  if (!workload) {
    KVKEEP_ASSERT(workload.error().message.starts_with("w:"), "a refusal says where");
    return 0;
  }
  KVKEEP_ASSERT(workload->requests() > 0 && workload->requests() <= workload->steps.size(), "some requests");
  KVKEEP_ASSERT(workload->small_context_tokens <= workload->context_tokens, "a small context is no larger");
  KVKEEP_ASSERT(workload->context_tokens > 0 && workload->reply_tokens > 0, "settings are given");
  KVKEEP_ASSERT(workload->title.find_first_of("\n\x1b") == std::string::npos, "a title is one line");
  return 0;
}
