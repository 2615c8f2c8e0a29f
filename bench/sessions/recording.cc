#include "bench/sessions/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <queue>
#include <set>

#include "bench/sessions/dialect.h"

namespace kvkeep::bench {
namespace {

// Names in lower case. Keys (Authorization, X-Api-Key, Cookie) must never be in this list: reports and replays would
// repeat them.
constexpr std::array kKept = {"content-type", "anthropic-version", "anthropic-beta",
                              "openai-beta",  "session-id",        "thread-id"};
constexpr std::array kKeptPrefixes = {"x-claude-code-", "x-codex-", "x-session-", "x-parent-session-"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return out;
}

}  // namespace

void keep_header(RecordedRequest& request, std::string_view name, std::string_view value) {
  const std::string known = lower(name);
  const bool kept = std::ranges::find(kKept, known) != kKept.end() ||
                    std::ranges::any_of(kKeptPrefixes, [&](const char* prefix) { return known.starts_with(prefix); });
  if (kept) request.headers.emplace_back(known, value);
}

Json body_of_text(std::string_view text) {
  if (text.empty()) return nullptr;
  Result<Json> body = parse_json(text);
  return body ? std::move(body).value() : Json(std::string(text));
}

std::optional<Json> message_of_reply(const RecordedRequest& request, std::string_view reply) {
  ReplyReader reader(dialect_of(request.method, request.path), request.recorded_status.value_or(200));
  reader.feed(reply);
  ReplyFacts facts = reader.finish();
  if (!facts.error.empty() || facts.message.is_null()) return std::nullopt;
  return std::optional<Json>(std::in_place, std::move(facts.message));
}

std::string path_of_url(std::string_view url) {
  if (url.starts_with('/')) return std::string(url);
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return "";
  const std::size_t path = url.find_first_of("/?", scheme + 3);
  if (path == std::string_view::npos) return "/";
  std::string out(url[path] == '/' ? "" : "/");
  return out.append(url.substr(path));
}

void put_in_order(Session& session) {
  auto& requests = session.requests;
  sort_by_time(requests, [](const RecordedRequest& request) { return request.sent_s; });
  const double first_s = requests.empty() ? 0 : requests.front().sent_s;
  std::size_t number = 0;
  for (RecordedRequest& request : requests) {
    request.sent_s -= first_s;
    ++number;
    if (!request.label.empty()) continue;
    const bool known = dialect_of(request.method, request.path) != Dialect::kOther;
    request.label = known ? fmt::format("request {}", number) : request.method + " " + shortened(request.path, 60);
  }
}

namespace {

struct Entry {
  std::string host;  // with scheme and port
  double duration_s = 0;
  RecordedRequest request;
};

std::string host_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return "";
  return std::string(url.substr(0, url.find_first_of("/?", scheme + 3)));
}

// Returns the number of `width` digits at `place`; a negative number if there are none.
int digits(std::string_view text, std::size_t place, std::size_t width) {
  int value = -1;
  if (place + width > text.size()) return -1;
  const char* begin = text.data() + place;
  const auto [end, error] = std::from_chars(begin, begin + width, value);
  return error == std::errc{} && end == begin + width ? value : -1;
}

// Returns the seconds of "Z", "+01:00" or "-0130".
std::optional<double> zone_s(std::string_view zone) {
  if (zone == "Z" || zone == "z" || zone.empty()) return 0;
  const int hours = digits(zone, 1, 2);
  const int minutes = digits(zone, zone.size() > 5 ? 4 : 3, 2);
  if ((zone[0] != '+' && zone[0] != '-') || hours < 0 || minutes < 0) return std::nullopt;
  return (zone[0] == '-' ? -1 : 1) * (hours * 3600.0 + minutes * 60.0);
}

// Returns the seconds since the epoch of "2026-01-31T23:59:58.125+01:00".
std::optional<double> time_of(std::string_view text) {
  const int year = digits(text, 0, 4);
  const int month = digits(text, 5, 2);
  const int day = digits(text, 8, 2);
  const int hour = digits(text, 11, 2);
  const int minute = digits(text, 14, 2);
  const int second = digits(text, 17, 2);
  if (std::min({year, month, day, hour, minute, second}) < 0) return std::nullopt;
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(unsigned(month)),
                            std::chrono::day(unsigned(day))};
  if (!date.ok()) return std::nullopt;
  double fraction = 0;
  std::size_t place = 19;
  if (place < text.size() && text[place] == '.') {
    double unit = 0.1;
    for (++place; place < text.size() && text[place] >= '0' && text[place] <= '9'; ++place, unit /= 10) {
      fraction += unit * (text[place] - '0');
    }
  }
  const auto zone = zone_s(text.substr(place));
  if (!zone) return std::nullopt;
  const auto days = static_cast<double>(sys_days(date).time_since_epoch().count());
  return days * 86400 + hour * 3600 + minute * 60 + second + fraction - *zone;
}

// Skips characters outside the alphabet (line breaks, padding).
std::string decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) continue;
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xFFFFFF;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return bytes;
}

void read_response(const Json& entry, RecordedRequest& request) {
  const Json* response = field(entry, "response");
  if (response == nullptr) return;
  if (const auto status = count_field(*response, "status"); status && *status >= 100 && *status < 1000) {
    request.recorded_status = static_cast<int>(*status);
  }
  const Json* content = field(*response, "content");
  if (content == nullptr) return;
  const std::string text = text_field(*content, "text");
  if (text.empty()) return;
  const bool packed = text_field(*content, "encoding") == "base64";
  request.recorded_reply = message_of_reply(request, packed ? decode_base64(text) : text);
}

Result<Entry> read_entry(const Json& json) {
  const Json* sent = field(json, "request");
  if (sent == nullptr) return invalid("no \"request\"");
  Entry entry;
  const std::string url = text_field(*sent, "url");
  entry.host = host_of(url);
  RecordedRequest& request = entry.request;
  request.method = text_field(*sent, "method");
  request.path = path_of_url(url);
  if (request.method.empty() || request.path.empty()) return invalid("a request without method or URL");
  const auto time = time_of(text_field(json, "startedDateTime"));
  if (!time) return invalid("no \"startedDateTime\" in ISO 8601");
  request.sent_s = *time;
  const Json* duration = field(json, "time");
  if (duration != nullptr && duration->is_number()) entry.duration_s = std::max(0.0, duration->get<double>() / 1e3);
  if (const Json* headers = field(*sent, "headers"); headers != nullptr && headers->is_array()) {
    for (const Json& header : *headers) keep_header(request, text_field(header, "name"), text_field(header, "value"));
  }
  if (const Json* posted = field(*sent, "postData")) request.body = body_of_text(text_field(*posted, "text"));
  read_response(json, request);
  return entry;
}

bool is_chat(const Entry& entry) { return dialect_of(entry.request.method, entry.request.path) != Dialect::kOther; }

void keep_chat_hosts(std::vector<Entry>& entries) {
  std::set<std::string> hosts;
  for (const Entry& entry : entries) {
    if (is_chat(entry)) hosts.insert(entry.host);
  }
  std::erase_if(entries, [&](const Entry& entry) { return !hosts.contains(entry.host); });
}

// `entries` are sorted by time.
void count_in_flight(std::vector<Entry>& entries) {
  std::priority_queue<double, std::vector<double>, std::greater<>> ends_s;
  for (Entry& entry : entries) {
    const double sent_s = entry.request.sent_s;
    while (!ends_s.empty() && ends_s.top() <= sent_s) ends_s.pop();
    ends_s.push(sent_s + entry.duration_s);
    entry.request.in_flight = static_cast<std::uint32_t>(ends_s.size());
  }
}

std::size_t line_of(std::string_view text, std::string_view message) {
  // "parse error at line 3, column 7: ..."
  const std::size_t place = message.find("line ");
  std::size_t line = 1;
  if (place != std::string_view::npos && place + 5 < message.size()) {
    std::from_chars(message.data() + place + 5, message.data() + message.size(), line);
  }
  return std::min(line, 1 + static_cast<std::size_t>(std::ranges::count(text, '\n')));
}

Result<std::vector<Entry>> read_entries(const std::string& file_name, const Json& archive) {
  const Json* log = field(archive, "log");
  const Json* list = log == nullptr ? nullptr : field(*log, "entries");
  if (list == nullptr || !list->is_array()) return invalid(file_name + ":1: an archive without log.entries");
  if (list->size() > kMaxRecordedRequests) return invalid(file_name + ":1: more than 100,000 requests");
  std::vector<Entry> entries;
  for (const Json& json : *list) {
    Result<Entry> entry = read_entry(json);
    if (!entry) return invalid(fmt::format("{}: entry {}: {}", file_name, entries.size() + 1, entry.error().message));
    entries.push_back(std::move(entry).value());
  }
  return entries;
}

}  // namespace

Result<Session> parse_har(const std::string& file_name, std::string_view text) {
  const Result<Json> archive = parse_json(text);
  if (!archive) {
    const std::string& reason = archive.error().message;
    return invalid(fmt::format("{}:{}: {}", file_name, line_of(text, reason), reason));
  }
  TRY_ASSIGN(std::vector<Entry> entries, read_entries(file_name, *archive));
  keep_chat_hosts(entries);
  if (entries.empty()) return invalid(file_name + ":1: an archive without a request for a chat reply");
  sort_by_time(entries, [](const Entry& entry) { return entry.request.sent_s; });
  count_in_flight(entries);
  Session session{.name = file_name.substr(file_name.rfind('/') + 1), .client = "", .requests = {}};
  for (Entry& entry : entries) session.requests.push_back(std::move(entry.request));
  put_in_order(session);
  return session;
}

}  // namespace kvkeep::bench
