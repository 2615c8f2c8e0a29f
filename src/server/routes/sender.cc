#include "server/routes/sender.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "base/edit_distance.h"
#include "server/api/json_body.h"
#include "server/http/api_keys.h"

namespace kvkeep::server {

namespace {

Tenant tenant_of_sender(const Service& service, const HttpRequest& http, std::string_view cache_salt) {
  if (!service.tenant_by_key) return kvkeep::tenant_of(service.fingerprint, cache_salt);
  ByteHasher both;
  both.append_field(presented_key(http.header("authorization"), http.header("x-api-key")));
  both.append_field(cache_salt);
  return kvkeep::tenant_of(service.fingerprint, both.finish<Hash256<struct KeyAndSaltTag>>().hex());
}

}  // namespace

Tenant tenant_of(const Service& service, const HttpRequest& http, std::string_view cache_salt,
                 const engine::AdapterScales& adapters) {
  const Tenant tenant = tenant_of_sender(service, http, cache_salt);
  return adapters.empty() ? tenant : with_adapters(service.fingerprint, tenant, adapters);
}

namespace {

std::string_view agent_of(const HttpRequest& http) {
  const std::string_view agent = http.header("user-agent");
  return agent.substr(0, agent.find_first_of("/ "));
}

std::string_view key_of(const HttpRequest& http) {
  return presented_key(http.header("authorization"), http.header("x-api-key"));
}

}  // namespace

std::string_view salt_of_query(const HttpRequest& http) {
  const std::string_view header = http.header("x-cache-salt");
  return header.empty() ? http.parameter("cache_salt") : header;
}

Status check_parameters(const HttpRequest& http, const std::vector<std::string>& known) {
  constexpr std::size_t kMostBytes = 64;  // of a name: longer ones are no slips
  for (std::string_view rest = http.query; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::string_view name = pair.substr(0, pair.find('='));
    if (pair.empty() || std::ranges::find(known, name) != known.end()) continue;
    const std::string near =
        name.size() > kMostBytes ? "" : nearest_within(std::max<std::size_t>(name.size() / 3, 1), name, known);
    const std::string question =
        near.empty() ? fmt::format("; it has {}", fmt::join(known, ", ")) : fmt::format(" (did you mean '{}'?)", near);
    return invalid(fmt::format("'{}' is not a parameter of {}{}", name.substr(0, kMostBytes), http.path, question));
  }
  return {};
}

std::uint64_t client_of(const HttpRequest& http, const Tenant& tenant) {
  ByteHasher hasher;
  hasher.append_field(agent_of(http));
  hasher.append_field(tenant.hex());
  return std::hash<std::string>()(hasher.finish<Hash256<struct ClientTag>>().hex());
}

std::uint64_t key_of(const Service& service, const HttpRequest& http) {
  if (!service.has_keys) return 0;
  ByteHasher hasher;
  hasher.append_field(presented_key(http.header("authorization"), http.header("x-api-key")));
  const std::uint64_t key = std::hash<std::string>()(hasher.finish<Hash256<struct KeyTag>>().hex());
  return key == 0 ? 1 : key;
}

namespace {

// The first that is there counts. A sub-agent of opencode names its parent, one of Claude Code has its session.
constexpr std::array<std::string_view, 6> kSessionHeaders = {
    "x-parent-session-id", "x-claude-code-session-id", "x-session-affinity", "x-session-id", "session-id", "thread-id"};

std::string_view session_header(const HttpRequest& http) {
  for (const std::string_view name : kSessionHeaders) {
    if (const std::string_view value = http.header(name); !value.empty()) return value;
  }
  return {};
}

std::string_view session_name(const HttpRequest& http, const api::GenerationRequest& request) {
  if (const std::string_view value = session_header(http); !value.empty()) return value;
  return request.prompt_cache_key.empty() ? request.user : request.prompt_cache_key;
}

}  // namespace

std::uint64_t sender_of(const Service& service, const HttpRequest& http) {
  ByteHasher hasher;
  hasher.append_field(service.has_keys ? key_of(http) : std::string_view(http.remote_address));
  return std::hash<std::string>()(hasher.finish<Hash256<struct SenderTag>>().hex());
}

std::uint64_t session_of(const Service& service, const HttpRequest& http, const api::GenerationRequest& request,
                         const Tenant& tenant) {
  const std::string_view name = session_name(http, request);
  ByteHasher hasher;
  hasher.append_field(name);
  if (name.empty()) {
    hasher.append_field(sender_of(service, http));
    hasher.append_field(agent_of(http));
  } else {
    hasher.append_field(tenant.hex());
  }
  const std::uint64_t session = std::hash<std::string>()(hasher.finish<Hash256<struct SessionTag>>().hex());
  return session == 0 ? 1 : session;
}

std::uint64_t owner_of(const Service& service, const HttpRequest& http, const Tenant& tenant) {
  ByteHasher hasher;
  hasher.append_field(service.has_keys ? key_of(http) : std::string_view(http.remote_address));
  hasher.append_field(tenant.hex());
  return std::hash<std::string>()(hasher.finish<Hash256<struct OwnerTag>>().hex());
}

std::uint64_t named_session_of(const HttpRequest& http) {
  const std::string_view name = session_header(http);
  if (name.empty()) return 0;
  ByteHasher hasher;
  hasher.append_field(name);
  hasher.append_field(key_of(http));
  const std::uint64_t session = std::hash<std::string>()(hasher.finish<Hash256<struct NamedSessionTag>>().hex());
  return session == 0 ? 1 : session;
}

std::uint64_t conversation_of(const HttpRequest& http) {
  // The first that is there counts. Agents of Claude Code share a session.
  constexpr std::array<std::string_view, 6> kHeaders = {"x-claude-code-agent-id",
                                                        "x-claude-code-session-id",
                                                        "x-session-id",
                                                        "x-session-affinity",
                                                        "session-id",
                                                        "thread-id"};
  for (const std::string_view name : kHeaders) {
    if (const std::string_view value = http.header(name); !value.empty())
      return std::hash<std::string_view>()(value) | 1;
  }
  return 0;
}

std::string program_of(const HttpRequest& http) {
  constexpr std::size_t kMostBytesOfName = 64;
  std::string name;
  for (const char c : agent_of(http).substr(0, kMostBytesOfName)) name += c > ' ' && c < 127 ? c : '?';
  return name;
}

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
                                               const TracedParts& parts) {
  auto origin = std::make_shared<RequestOrigin>();
  origin->method = http.method;
  origin->path = http.path;
  origin->client = program_of(http);
  origin->model = request.model.substr(0, kMostBytes);
  for (const auto& [name, value] : http.headers) {
    std::string known = lower_case(name);
    if (!is_told(known) || origin->headers.size() == kMostHeaders) continue;
    origin->headers.emplace_back(known.substr(0, kMostBytes), value.substr(0, kMostBytes));
  }
  origin->user = request.user;
  origin->prompt_cache_key = request.prompt_cache_key;
  origin->ignored_fields = request.unknown_fields;
  origin->with_prompt = parts.prompt;
  origin->with_media = parts.media;
  if (!parts.prompt) return origin;
  origin->body = http.body;
  origin->stop = request.stop;
  return origin;
}

namespace {

constexpr std::string_view kHeader = "x-kvkeep-ignored-fields";
constexpr std::size_t kMostAgentBytes = 80;

// "messages[3].contnet" and "messages[5].contnet" are the same mistake.
std::string without_indexes(std::string_view field) {
  std::string kind;
  bool within = false;
  for (const char c : field) {
    within = within ? c != ']' : c == '[';
    if (!within || c == '[') kind += c;
  }
  return kind;
}

void log_once(const Service& service, const HttpRequest& http, api::Dialect dialect, const std::string& field) {
  const std::string_view agent = http.header("user-agent").substr(0, kMostAgentBytes);
  const SaidOnce::Say say =
      service.unknown_fields->first(fmt::format("{} {} {}", without_indexes(field), http.remote_address, agent));
  if (say == SaidOnce::Say::kNot) return;
  spdlog::warn("{} sends '{}' to {}, which knows no such field and ignores it{} client={}{}", http.remote_address,
               field, http.path, api::meant_field(dialect, field), api::to_line(std::string(agent)),
               say == SaidOnce::Say::kNowAndNoMore ? "; further ones are not logged" : "");
}

}  // namespace

HeaderList tell_of_unknown_fields(const Service& service, const HttpRequest& http, api::Dialect dialect,
                                  const std::vector<std::string>& unknown) {
  if (unknown.empty()) return {};
  for (const std::string& field : unknown) log_once(service, http, dialect, field);
  return {{std::string(kHeader), fmt::format("{}", fmt::join(unknown, ", "))}};
}

}  // namespace kvkeep::server
