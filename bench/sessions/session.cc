#include "bench/sessions/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <list>
#include <set>
#include <string>
#include <utility>

#include "bench/sessions/canonical.h"
#include "bench/sessions/recording.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

struct Packing {
  std::string_view magic;
  const char* name;
  const char* unpack;
};
constexpr std::array kPackings = {
    Packing{"\xFD"
            "7zXZ",
            "xz", "xz -dc"},
    Packing{"\x1F\x8B", "gzip", "gzip -dc"},
    Packing{"\x28\xB5\x2F\xFD", "zstd", "zstd -dc"},
};

Status refuse_packed(const std::string& file_name, std::string_view text) {
  for (const Packing& packing : kPackings) {
    if (!text.starts_with(packing.magic)) continue;
    return invalid(fmt::format("{}: packed with {}; unpack it first: {} {} | kvkeep replay -", file_name, packing.name,
                               packing.unpack, file_name));
  }
  return {};
}

std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// A HAR file is one object whose only field is "log".
bool is_har(std::string_view text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t brace = text.find_first_not_of(kSpace);
  if (brace == std::string_view::npos || text[brace] != '{') return false;
  const std::size_t name = text.find_first_not_of(kSpace, brace + 1);
  return name != std::string_view::npos && text.substr(name).starts_with("\"log\"");
}

// Returns the path that takes such a body of a request; "" if it is none.
std::string_view path_of_body(const Json& body) {
  if (!body.is_object() || field(body, "t") != nullptr || field(body, "path") != nullptr) return "";
  if (field(body, "input") != nullptr) return "/v1/responses";
  if (field(body, "messages") == nullptr) return field(body, "prompt") != nullptr ? "/v1/completions" : "";
  const Json* tools = field(body, "tools");
  const bool has_schema = tools != nullptr && tools->is_array() && std::ranges::any_of(*tools, [](const Json& tool) {
                            return tool.is_object() && field(tool, "input_schema") != nullptr;
                          });
  return field(body, "system") != nullptr || has_schema ? "/v1/messages" : "/v1/chat/completions";
}

Status read_time(const Json& line, RecordedRequest& request) {
  const Json* time = field(line, "t");
  if (time == nullptr || !time->is_number() || !std::isfinite(time->get<double>())) {
    return invalid("no \"t\", the time in seconds: neither a recording's line nor the body of a request");
  }
  request.sent_s = time->get<double>();
  return {};
}

Status read_headers(const Json& line, RecordedRequest& request) {
  const Json* headers = field(line, "headers");
  if (headers == nullptr) return {};
  if (!headers->is_object()) return invalid("\"headers\" is not an object");
  for (const auto& [name, value] : headers->items()) {
    if (value.is_string()) keep_header(request, name, value.get_ref<const std::string&>());
  }
  return {};
}

// The reply as one message, or as the whole body (an object) or stream (text) that the server sent.
void read_reply(const Json& line, RecordedRequest& request) {
  if (const auto status = count_field(line, "reply_status"); status && *status < 1000) {
    request.recorded_status = static_cast<int>(*status);
  }
  const Json* reply = field(line, "reply");
  if (reply == nullptr) return;
  if (reply->is_string()) {
    request.recorded_reply = message_of_reply(request, reply->get_ref<const std::string&>());
  } else if (field(*reply, "choices") != nullptr || field(*reply, "usage") != nullptr) {
    request.recorded_reply = message_of_reply(request, to_line(*reply));
  } else {
    request.recorded_reply.emplace(*reply);
  }
}

std::string label_of(const Json& line) {
  const std::string kind = text_field(line, "kind");
  const auto turn = count_field(line, "turn");
  if (kind.empty()) return turn ? fmt::format("turn {}", *turn) : "";
  return turn ? fmt::format("{} turn {}", shortened(kind, 40), *turn) : shortened(kind, 40);
}

Result<RecordedRequest> read_request(const Json& line) {
  if (!line.is_object()) return invalid("not a JSON object");
  RecordedRequest request;
  TRY(read_time(line, request));
  const std::string method = text_field(line, "method");
  request.method = method.empty() ? "POST" : method;
  request.path = path_of_url(text_field(line, "path"));
  if (request.path.empty()) return invalid("no \"path\" that begins with '/'");
  if (field(line, "trace") != nullptr && field(line, "body") == nullptr) {
    return invalid("a trace without the requests: only one of --trace FILE --trace-prompts can be played");
  }
  TRY(read_headers(line, request));
  if (const Json* body = field(line, "body")) {
    request.body = body->is_string() ? body_of_text(body->get_ref<const std::string&>()) : *body;
  }
  const auto in_flight = count_field(line, "inflight");
  request.in_flight = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(in_flight.value_or(1), 1, 10'000));
  request.label = label_of(line);
  read_reply(line, request);
  return request;
}

// A trace also has lines that are no request for a reply: they name no path.
constexpr std::array<std::string_view, 4> kNotPlayed = {"ahead", "audit", "warm", "restore"};
bool is_request(const Json& line) {
  if (!line.is_object() || field(line, "trace") == nullptr) return true;
  return std::ranges::find(kNotPlayed, text_field(line, "route")) == kNotPlayed.end();
}

// Makes requests of one session from lines.
class LineReader {
 public:
  explicit LineReader(const std::string& file_name) { session_.name = file_name.substr(file_name.rfind('/') + 1); }

  Status take(std::string_view text) {
    TRY_ASSIGN(const Json line, parse_json(text));
    if (const std::string_view path = path_of_body(line); !path.empty()) return take_body(line, path);
    if (!is_request(line)) return {};
    TRY_ASSIGN(RecordedRequest request, read_request(line));
    if (session_.requests.size() == kMaxRecordedRequests) return invalid("more than 100,000 requests");
    follow(line, request.sent_s);
    request.sent_s += begin_s_;
    last_s_ = std::max(last_s_, request.sent_s);
    session_.requests.push_back(std::move(request));
    return {};
  }

  // Bodies alone have no times: each counts as sent a second after what came before.
  Status take_body(const Json& body, std::string_view path) {
    if (session_.requests.size() == kMaxRecordedRequests) return invalid("more than 100,000 requests");
    RecordedRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    request.sent_s = session_.requests.empty() ? 0 : last_s_ + 1;
    last_s_ = request.sent_s;
    session_.requests.push_back(std::move(request));
    return {};
  }

  bool empty() const { return session_.requests.empty(); }

  Session finish() {
    put_in_order(session_);
    return std::move(session_);
  }

 private:
  // Times that go back, with a new session, are those of a recording that was appended to another one. A trace is one
  // recording of many clients, in the order in which requests ended.
  void follow(const Json& line, double sent_s) {
    if (field(line, "trace") != nullptr) return;
    const std::string client = text_field(line, "client");
    const std::string name = text_field(line, "session");
    if (!seen_.insert({client, name}).second) return;
    if (seen_.size() == 1) {
      session_.client = client;
      if (!name.empty()) session_.name = client.empty() ? name : client + " " + name;
    } else if (begin_s_ + sent_s < last_s_) {
      begin_s_ = last_s_ - sent_s;
    }
  }

  Session session_;
  std::set<std::pair<std::string, std::string>> seen_;  // client and session
  double begin_s_ = 0;                                  // added to the times of the recording being read
  double last_s_ = 0;
};

Result<Session> parse_lines(const std::string& file_name, std::string_view text) {
  LineReader reader(file_name);
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (is_blank(line)) continue;
    const Status taken = reader.take(line);
    if (!taken) return invalid(fmt::format("{}:{}: {}", file_name, number, taken.error().message));
  }
  if (reader.empty()) return invalid(fmt::format("{}:1: no request in it", file_name));
  return reader.finish();
}

}  // namespace

Result<Session> parse_session(const std::string& file_name, std::string_view text) {
  TRY(refuse_packed(file_name, text));
  if (text.size() > kMaxTextBytes) return invalid(fmt::format("{}:1: more than 1 GiB of text", file_name));
  const std::string_view bare = without_byte_order_mark(text);
  if (is_har(bare)) return parse_har(file_name, bare);
  // One body may be written over many lines.
  const Result<Json> whole = parse_json(bare);
  if (const std::string_view path = whole ? path_of_body(*whole) : ""; !path.empty()) {
    LineReader reader(file_name);
    TRY(reader.take_body(*whole, path));
    return reader.finish();
  }
  return parse_lines(file_name, bare);
}

namespace {

struct UnderWay {
  std::size_t place;
  std::string text;  // canonical
};

bool goes_on(const std::string& earlier, const std::string& later) {
  return !earlier.empty() && later.size() > earlier.size() && later.starts_with(earlier);
}

}  // namespace

std::vector<std::vector<std::size_t>> ended_before(const Session& session) {
  std::vector<std::vector<std::size_t>> ended(session.requests.size());
  std::list<UnderWay> under_way;  // in the order sent
  for (std::size_t place = 0; place < session.requests.size(); ++place) {
    const RecordedRequest& request = session.requests[place];
    std::string text = canonical_text(dialect_of(request.method, request.path), request.body);
    std::size_t too_many = under_way.size() - std::min<std::size_t>(under_way.size(), request.in_flight - 1);
    const auto end = [&](std::list<UnderWay>::iterator one) {
      ended[place].push_back(one->place);
      if (too_many > 0) --too_many;
      return under_way.erase(one);
    };
    for (auto one = under_way.begin(); one != under_way.end();)
      one = goes_on(one->text, text) ? end(one) : std::next(one);
    while (too_many > 0) end(under_way.begin());
    std::ranges::sort(ended[place]);
    under_way.push_back({place, std::move(text)});
  }
  return ended;
}

}  // namespace kvkeep::bench
