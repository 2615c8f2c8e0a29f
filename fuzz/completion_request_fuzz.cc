// Bodies of POST /v1/completions.

#include "request_checks.h"
#include "server/api/openai/completions.h"

KVKEEP_FUZZ_TARGET(completion_request)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  const auto parse = [](std::string_view body) {
    return server::api::parse_completion(std::string(body), fuzz::request_defaults());
  };
  fuzz::check_body(fuzz::text_of(fuzz::bytes_of(data, size)), parse, [](const auto& request) { return request; });
  return 0;
}
