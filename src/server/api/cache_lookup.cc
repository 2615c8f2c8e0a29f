#include "server/api/cache_lookup.h"

#include <utility>

#include "server/api/generation_fields.h"
#include "server/api/json_body.h"
#include "server/api/known_fields.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"

namespace kvkeep::server::api {
namespace {

Result<PromptSource> read_tokens(const Json& tokens, std::size_t vocabulary_size) {
  if (!tokens.is_array()) return wrong_type("tokens", "an array of token ids", tokens);
  if (tokens.empty()) return invalid("'tokens' must not be empty");
  TRY_ASSIGN(std::vector<TokenId> ids, read_token_ids(tokens, "tokens", vocabulary_size));
  return PromptSource(std::move(ids));
}

}  // namespace

Result<PromptSource> read_lookup_prompt(Json& json, MediaReader media, const RequestDefaults& defaults) {
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

Result<LookupRequest> parse_lookup(std::string body, const RequestDefaults& defaults) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(Json json, parse_body(std::move(body)));
  TRY_ASSIGN(std::vector<std::string> unknown, unknown_fields(json, Dialect::kLookup, defaults.strict_fields));
  bool cache_prompt = defaults.cache_prompt;
  TRY(read_bool(json, "cache_prompt", cache_prompt));
  TRY_ASSIGN(PromptSource prompt, read_lookup_prompt(json, std::move(media), defaults));
  TRY_ASSIGN(std::string salt, read_cache_salt(json));
  bool index_only = false;
  TRY(read_bool(json, "index_only", index_only));
  LookupRequest request{std::move(prompt), cache_prompt, std::move(salt), std::move(unknown)};
  request.index_only = index_only;
  if (const Json* lora = field(json, "lora")) {
    TRY_ASSIGN(request.adapters, read_adapter_scales(*lora, "lora", defaults.adapters));
  }
  return request;
}

}  // namespace kvkeep::server::api
