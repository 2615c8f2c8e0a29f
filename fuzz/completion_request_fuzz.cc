// Bodies of POST /v1/completions, /completion and /infill.

#include "request_checks.h"
#include "server/api/native_completion.h"
#include "server/api/openai/completions.h"

KVKEEP_FUZZ_TARGET(completion_request)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  const std::string_view text = fuzz::text_of(fuzz::bytes_of(data, size));
  for (const auto shape : {server::api::CompletionShape::kOpenAi, server::api::CompletionShape::kNative}) {
    const auto parse = [shape](std::string_view body) {
      return server::api::parse_completion(std::string(body), fuzz::request_defaults(), shape);
    };
    fuzz::check_body(text, parse, [](const auto& request) { return request; });
  }
  const auto parse_gap = [](std::string_view body) {
    return server::api::parse_infill(std::string(body), fuzz::request_defaults());
  };
  fuzz::check_body(text, parse_gap, [](const auto& request) { return request; });
  return 0;
}
