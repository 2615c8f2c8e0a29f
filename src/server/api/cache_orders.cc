#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "server/api/cache_lookup.h"
#include "server/api/generation_fields.h"
#include "server/api/json_body.h"
#include "server/api/known_fields.h"

namespace kvkeep::server::api {
namespace {

constexpr std::int64_t kLongestUnusedS = 100LL * 366 * 86'400;
constexpr std::size_t kMostIdDigits = 64;
constexpr auto kPromptFields = std::to_array<std::string_view>(
    {"messages", "tools", "tool_choice", "chat_template_kwargs", "add_generation_prompt", "prompt", "tokens"});
constexpr auto kPrefixFields = std::to_array<std::string_view>({"id", "cache_salt", "lora"});
constexpr auto kClearFields = std::to_array<std::string_view>({"id", "cache_salt", "lora", "all", "unused_s"});

bool names_prompt(const Json& body, PromptApi of) {
  if (of == PromptApi::kMessages) return field(body, "messages") != nullptr;
  if (of == PromptApi::kResponses) return field(body, "input") != nullptr;
  return field(body, "messages") != nullptr || field(body, "prompt") != nullptr || field(body, "tokens") != nullptr;
}

// What may name a prompt, for messages: "'messages', 'prompt' and 'tokens'".
std::string prompt_names(PromptApi of, std::string_view last_join) {
  if (of == PromptApi::kMessages) return fmt::format("{}'messages'", last_join);
  if (of == PromptApi::kResponses) return fmt::format("{}'input'", last_join);
  return fmt::format(", 'messages', 'prompt'{}'tokens'", last_join);
}

std::vector<std::string> fields_of_request(const Json& body, PromptApi of) {
  if (!names_prompt(body, of)) return {};
  if (of != PromptApi::kChat) return known_fields(lookup_fields(of));
  return known_fields(field(body, "messages") != nullptr ? Dialect::kChat : Dialect::kCompletions);
}

// Names the field of which it may be a slip: one of a request or of `more`, or one that names a prompt.
Error unknown_field(std::string_view name, std::vector<std::string> known, std::span<const std::string_view> more,
                    PromptApi of) {
  constexpr std::size_t kMostNameBytes = 64;
  known.insert(known.end(), more.begin(), more.end());
  if (of == PromptApi::kChat) known.insert(known.end(), kPromptFields.begin(), kPromptFields.end());
  const std::string_view start = name.substr(0, kMostNameBytes);
  const std::string near = nearest_within(std::max<std::size_t>(start.size() / 3, 1), start, known);
  return invalid(
      fmt::format("unknown field '{}'{}", name, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

// A prompt may come as the whole request that sent it. Other fields than requests have are slips, after which something
// else would be forgotten. `more`: fields besides those of a prompt.
Status check_fields(const Json& body, std::span<const std::string_view> more, PromptApi of) {
  TRY(refuse_other_api(body, of));
  const std::vector<std::string> requests = fields_of_request(body, of);
  for (const auto& [name, value] : body.items()) {
    const bool of_prompt = of == PromptApi::kChat && std::ranges::count(kPromptFields, name) > 0;
    const bool known = of_prompt || std::ranges::count(more, name) > 0;
    if (!known && !std::ranges::binary_search(requests, name)) return unknown_field(name, requests, more, of);
  }
  return {};
}

Result<std::string> read_id(const Json& body) {
  std::string id;
  TRY(read_string(body, "id", id));
  const bool is_hex = id.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex || id.size() < kFewestIdDigits || id.size() > kMostIdDigits) {
    return invalid(fmt::format("'id' must be {} to {} lower-case hexadecimal digits", kFewestIdDigits, kMostIdDigits));
  }
  return id;
}

Result<std::optional<engine::AdapterScales>> read_scales(const Json& body, const RequestDefaults& defaults) {
  const Json* lora = field(body, "lora");
  if (lora == nullptr) return std::optional<engine::AdapterScales>();
  TRY_ASSIGN(engine::AdapterScales scales, read_adapter_scales(*lora, "lora", defaults.adapters));
  return std::optional(std::move(scales));
}

Result<NamedPrefix> read_prefix(Json& body, MediaReader media, const RequestDefaults& defaults, PromptApi of) {
  NamedPrefix named;
  TRY_ASSIGN(named.cache_salt, read_cache_salt(body));
  TRY_ASSIGN(named.adapters, read_scales(body, defaults));
  const bool by_id = field(body, "id") != nullptr;
  if (by_id == names_prompt(body, of)) {
    return invalid(fmt::format("exactly one of 'id'{} is required", prompt_names(of, " and ")));
  }
  if (by_id) {
    TRY_ASSIGN(named.id, read_id(body));
  } else {
    TRY_ASSIGN(named.prompt, read_lookup_prompt(body, std::move(media), defaults, of));
  }
  return named;
}

}  // namespace

Result<NamedPrefix> parse_named_prefix(std::string body, const RequestDefaults& defaults, PromptApi of) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(Json json, parse_body(std::move(body)));
  TRY(check_fields(json, kPrefixFields, of));
  return read_prefix(json, std::move(media), defaults, of);
}

Result<ClearRequest> parse_clear(std::string body, const RequestDefaults& defaults, PromptApi of) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(Json json, parse_body(std::move(body)));
  TRY(check_fields(json, kClearFields, of));
  ClearRequest asked;
  TRY_ASSIGN(asked.cache_salt, read_cache_salt(json));
  TRY_ASSIGN(asked.adapters, read_scales(json, defaults));
  bool all = false;
  TRY(read_bool(json, "all", all));
  if (field(json, "unused_s") != nullptr) {
    std::int64_t unused_s = 0;
    TRY(read_integer(json, "unused_s", unused_s, 0, kLongestUnusedS));
    asked.unused_s = unused_s;
  }
  const bool has_prefix = field(json, "id") != nullptr || names_prompt(json, of);
  if (all == (has_prefix || asked.unused_s)) {
    return invalid(
        fmt::format("exactly one of 'all': true, a prefix ('id'{}) and 'unused_s' is required; only a prefix and "
                    "'unused_s' may come together",
                    prompt_names(of, " or ")));
  }
  if (has_prefix) {
    TRY_ASSIGN(asked.prefix, read_prefix(json, std::move(media), defaults, of));
  }
  return asked;
}

}  // namespace kvkeep::server::api
