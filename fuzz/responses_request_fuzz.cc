// Bodies of POST /v1/responses and /v1/responses/input_tokens.

#include "request_checks.h"
#include "server/api/responses/request.h"

KVKEEP_FUZZ_TARGET(responses_request)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  const std::string_view body = fuzz::text_of(fuzz::bytes_of(data, size));
  const auto parse = [](std::string_view text) {
    return server::api::parse_responses(std::string(text), fuzz::request_defaults());
  };
  fuzz::check_body(body, parse, [](const auto& request) { return request.generation; });
  const auto counted = server::api::parse_input_tokens(std::string(body), fuzz::request_defaults());
  KVKEEP_ASSERT(counted || !parse(body), "counting asks for less");
  if (!counted) fuzz::check_refusal(counted.error());
  return 0;
}
