// A request as bytes on a connection. First number: where the bytes are cut in two when they come a second time.

#include "fuzz.h"
#include "server/http/request_parser.h"

namespace kvkeep::server {
namespace {

class Text final : public BodySink {
 public:
  std::size_t take(std::string_view bytes) override {
    text += bytes;
    return bytes.size();
  }
  std::string text;
};

struct Outcome {
  RequestParser::State state = RequestParser::State::kHead;
  int status = 0;
  std::string body;
  std::size_t used = 0;
  HttpRequest head;
  Framing framing;
};

bool goes_on(const RequestParser& parser) {
  return parser.state() == RequestParser::State::kHead || parser.state() == RequestParser::State::kBody;
}

// `cut`: bytes that come first; then all.
Outcome read(std::string_view bytes, std::size_t cut) {
  RequestParser parser;
  Text body;
  std::size_t used = 0;
  for (const std::size_t here : {cut, bytes.size()}) {
    if (parser.state() == RequestParser::State::kHead) used += parser.feed_head(bytes.substr(used, here - used));
    if (parser.state() == RequestParser::State::kBody) used += parser.feed_body(bytes.substr(used, here - used), body);
    if (!goes_on(parser)) break;
  }
  const bool refused = parser.state() == RequestParser::State::kRefused;
  return {parser.state(), refused ? parser.refusal().status : 0, body.text, used, parser.head(), parser.framing()};
}

void check_request(const Outcome& request) {
  KVKEEP_ASSERT(request.head.headers.size() <= kHeadFieldsMax, "fields are counted");
  for (const auto& [name, value] : request.head.headers) {
    KVKEEP_ASSERT(!name.empty() && name.find_first_of(" \t:\r\n") == std::string::npos, "a name is a token");
    KVKEEP_ASSERT(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos, "a value is one line");
    KVKEEP_ASSERT(value.empty() || (value.front() != ' ' && value.back() != ' '), "blanks around it are not of it");
  }
  const std::string_view length = request.head.header("content-length");
  const std::string_view encoding = request.head.header("transfer-encoding");
  KVKEEP_ASSERT(length.empty() || encoding.empty(), "a body's length is stated once");
  KVKEEP_ASSERT(length.find_first_not_of("0123456789") == std::string_view::npos, "a length is digits");
  KVKEEP_ASSERT(encoding.empty() || equals_ignoring_case(encoding, "chunked"), "chunks are the only encoding");
  if (request.framing.body == Framing::Body::kLength && request.state == RequestParser::State::kDone) {
    KVKEEP_ASSERT(request.body.size() == request.framing.length, "a body is as long as its head says");
  }
}

}  // namespace
}  // namespace kvkeep::server

KVKEEP_FUZZ_TARGET(http_request)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  using State = server::RequestParser::State;
  fuzz::Input input(data, size);
  const auto where = input.number<std::uint16_t>();
  const std::string_view bytes = fuzz::text_of(input.rest());
  const server::Outcome whole = server::read(bytes, bytes.size());
  const server::Outcome cut = server::read(bytes, bytes.empty() ? 0 : where % bytes.size());
  KVKEEP_ASSERT(whole.state == cut.state && whole.status == cut.status, "where bytes are cut does not matter");
  if (whole.state == State::kRefused || whole.state == State::kHead) return 0;
  KVKEEP_ASSERT(whole.body == cut.body && whole.used == cut.used, "where bytes are cut does not matter");
  server::check_request(whole);
  return 0;
}
