#include "server/api/cache_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "server/api/anthropic/request.h"
#include "server/api/generation_fields.h"
#include "server/api/json_body.h"
#include "server/api/known_fields.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"
#include "server/api/responses/request.h"

namespace kvkeep::server::api {
namespace {

Result<PromptSource> read_tokens(const Json& tokens, std::size_t vocabulary_size) {
  if (!tokens.is_array()) return wrong_type("tokens", "an array of token ids", tokens);
  if (tokens.empty()) return invalid("'tokens' must not be empty");
  TRY_ASSIGN(std::vector<TokenId> ids, read_token_ids(tokens, "tokens", vocabulary_size));
  return PromptSource(std::move(ids));
}

// Fields that, of the APIs of conversations, only this one has.
struct ApiSigns {
  std::string_view title;
  std::string_view dialect;
  std::span<const std::string_view> fields;
};
constexpr std::array<std::string_view, 5> kMessagesFields{"system", "stop_sequences", "anthropic_version",
                                                          "anthropic_beta", "betas"};
constexpr std::array<std::string_view, 2> kResponsesFields{"input", "instructions"};
constexpr ApiSigns kMessagesSigns{"Messages", "messages", kMessagesFields};
constexpr ApiSigns kResponsesSigns{"Responses", "responses", kResponsesFields};

bool has_type(const Json& block, std::string_view type) {
  const auto found = block.is_object() ? block.find("type") : block.end();
  return block.is_object() && found != block.end() && found->is_string() &&
         found->get_ref<const std::string&>() == type;
}

// Returns the sign of the Messages API in tools or messages; "" if there is none.
std::string_view messages_sign_below(const Json& body) {
  static constexpr std::array<std::string_view, 3> kBlocks{"tool_use", "tool_result", "redacted_thinking"};
  const auto array_of = [](const Json& object, const char* name) {
    static const Json kNone = Json::array();
    const Json* found = object.is_object() ? field(object, name) : nullptr;
    return found != nullptr && found->is_array() ? found : &kNone;
  };
  for (const Json& tool : *array_of(body, "tools")) {
    if (tool.is_object() && tool.contains("input_schema")) return "input_schema";
  }
  for (const Json& message : *array_of(body, "messages")) {
    for (const Json& block : *array_of(message, "content")) {
      const auto type = std::ranges::find_if(kBlocks, [&](std::string_view name) { return has_type(block, name); });
      if (type != kBlocks.end()) return *type;
    }
  }
  return "";
}

Error of_other_api(const ApiSigns& api, std::string_view sign) {
  return invalid(fmt::format("this looks like a request of the {} API, for it has '{}': add ?dialect={} to the path",
                             api.title, sign, api.dialect));
}

std::string_view sign_of(const ApiSigns& api, const Json& body) {
  const auto sign = std::ranges::find_if(api.fields, [&](std::string_view name) {
    const auto found = body.find(name);
    return found != body.end() && !found->is_null();
  });
  return sign == api.fields.end() ? std::string_view() : *sign;
}

}  // namespace

Result<PromptApi> prompt_api_of(std::string_view dialect) {
  if (dialect.empty() || dialect == "chat") return PromptApi::kChat;
  if (dialect == kMessagesSigns.dialect) return PromptApi::kMessages;
  if (dialect == kResponsesSigns.dialect) return PromptApi::kResponses;
  return invalid("'dialect' must be chat, messages or responses");
}

Dialect lookup_fields(PromptApi of) {
  switch (of) {
    case PromptApi::kMessages: return Dialect::kMessages;
    case PromptApi::kResponses: return Dialect::kResponses;
    case PromptApi::kChat: break;
  }
  return Dialect::kLookup;
}

Status refuse_other_api(const Json& body, PromptApi of) {
  if (of != PromptApi::kChat || field(body, "prompt") != nullptr || field(body, "tokens") != nullptr) return {};
  std::string_view sign = field(body, "messages") == nullptr ? sign_of(kResponsesSigns, body) : std::string_view();
  if (!sign.empty()) return of_other_api(kResponsesSigns, sign);
  sign = sign_of(kMessagesSigns, body);
  if (sign.empty()) sign = messages_sign_below(body);
  return sign.empty() ? Status() : of_other_api(kMessagesSigns, sign);
}

Result<PromptSource> read_lookup_prompt(Json& json, MediaReader media, const RequestDefaults& defaults, PromptApi of) {
  TRY(refuse_other_api(json, of));
  if (of == PromptApi::kMessages) {
    TRY_ASSIGN(chat::RenderInput input, read_messages_prompt(json, std::move(media), defaults));
    return PromptSource(std::move(input));
  }
  if (of == PromptApi::kResponses) {
    TRY_ASSIGN(chat::RenderInput input, read_responses_prompt(json, std::move(media), defaults));
    return PromptSource(std::move(input));
  }
  const Json* tokens = field(json, "tokens");
  const Json* prompt = field(json, "prompt");
  const Json* messages = field(json, "messages");
  const int named = (tokens != nullptr ? 1 : 0) + (prompt != nullptr ? 1 : 0) + (messages != nullptr ? 1 : 0);
  if (named != 1) return invalid("exactly one of 'messages', 'prompt' and 'tokens' is required");
  if (tokens != nullptr) return read_tokens(*tokens, defaults.vocabulary_size);
  if (prompt != nullptr) return read_prompt_field(*prompt, media, defaults.vocabulary_size);
  TRY_ASSIGN(chat::RenderInput input, read_chat_prompt(json, std::move(media), defaults.template_kwargs));
  return PromptSource(std::move(input));
}

Result<LookupRequest> parse_lookup(std::string body, const RequestDefaults& defaults, PromptApi of) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(Json json, parse_body(std::move(body)));
  bool index_only = false;
  TRY(read_bool(json, "index_only", index_only));
  if (of != PromptApi::kChat) json.erase("index_only");  // a lookup's own, no slip
  TRY_ASSIGN(std::vector<std::string> unknown, unknown_fields(json, lookup_fields(of), defaults.strict_fields));
  bool cache_prompt = defaults.cache_prompt;
  TRY(read_bool(json, "cache_prompt", cache_prompt));
  TRY_ASSIGN(PromptSource prompt, read_lookup_prompt(json, std::move(media), defaults, of));
  TRY_ASSIGN(std::string salt, read_cache_salt(json));
  LookupRequest request{std::move(prompt), cache_prompt, std::move(salt), std::move(unknown)};
  request.index_only = index_only;
  if (const Json* lora = field(json, "lora")) {
    TRY_ASSIGN(request.adapters, read_adapter_scales(*lora, "lora", defaults.adapters));
  }
  return request;
}

}  // namespace kvkeep::server::api
