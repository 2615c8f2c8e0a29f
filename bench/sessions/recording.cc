#include "bench/sessions/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

}  // namespace kvkeep::bench
