// Recorded sessions (JSONL, traces, HTTP archives): refused with the place, or requests in order that can be sent.

#include "bench/sessions/dialect.h"
#include "bench/sessions/json_fields.h"
#include "bench/sessions/recording.h"
#include "bench/sessions/session.h"
#include "fuzz.h"

namespace kvkeep::bench {
namespace {

void check_request(const RecordedRequest& request) {
  KVKEEP_ASSERT(!request.label.empty() && !request.method.empty(), "a request can be told and sent");
  KVKEEP_ASSERT(request.path.starts_with('/'), "a path is one");
  KVKEEP_ASSERT(request.in_flight >= 1, "it is in flight itself");
  for (const auto& [name, value] : request.headers) {
    KVKEEP_ASSERT((name + value).find_first_of("\r\n") == std::string::npos, "a header is one line");
  }
  const Dialect dialect = dialect_of(request.method, request.path);
  (void)path_on_server(dialect, request.path);
  const auto adapted = adapt_request(dialect, request.body, {.model = "m", .reply_tokens = 4, .stream = true});
  KVKEEP_ASSERT(Json::accept(to_line(adapted)), "what is sent is JSON");
}

}  // namespace
}  // namespace kvkeep::bench

KVKEEP_FUZZ_TARGET(session)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  const auto session = bench::parse_session("f.jsonl", fuzz::text_of(fuzz::bytes_of(data, size)));
  if (!session) {
    KVKEEP_ASSERT(session.error().kind == ErrorKind::kInvalid && session.error().message.starts_with("f.jsonl"),
                  "a refusal says where");
    return 0;
  }
  KVKEEP_ASSERT(!session->requests.empty() && session->requests.size() <= bench::kMaxRecordedRequests, "some requests");
  double last_s = 0;
  for (const bench::RecordedRequest& request : session->requests) {
    KVKEEP_ASSERT(request.sent_s >= last_s, "in the order of time");
    last_s = request.sent_s;
    bench::check_request(request);
  }
  return 0;
}
