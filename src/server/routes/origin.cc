#include "server/routes/origin.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace kvkeep::server {

namespace {

constexpr std::size_t kMostHeaders = 32;
constexpr std::size_t kMostBytes = 512;  // kept of a header or a model's name

constexpr std::array<std::string_view, 5> kTold = {"session-id", "thread-id", "anthropic-version", "anthropic-beta",
                                                   "openai-beta"};
constexpr std::array<std::string_view, 4> kToldPrefixes = {"x-session-", "x-parent-session-", "x-claude-code-",
                                                           "x-codex-"};

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return out;
}

bool is_told(std::string_view name) {
  return std::ranges::find(kTold, name) != kTold.end() ||
         std::ranges::any_of(kToldPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::shared_ptr<const RequestOrigin> origin_of(const HttpRequest& http, const api::GenerationRequest& request,
                                               bool with_prompt) {
  auto origin = std::make_shared<RequestOrigin>();
  origin->method = http.method;
  origin->path = http.path;
  origin->model = request.model.substr(0, kMostBytes);
  for (const auto& [name, value] : http.headers) {
    std::string known = lower_case(name);
    if (!is_told(known) || origin->headers.size() == kMostHeaders) continue;
    origin->headers.emplace_back(known.substr(0, kMostBytes), value.substr(0, kMostBytes));
  }
  origin->user = request.user;
  origin->prompt_cache_key = request.prompt_cache_key;
  origin->ignored_fields = request.unknown_fields;
  origin->with_prompt = with_prompt;
  if (!with_prompt) return origin;
  origin->body = http.body;
  origin->stop = request.stop;
  return origin;
}

}  // namespace kvkeep::server
