#pragma once

// Checks for the body of every dialect: it is refused with a printable reason, or it becomes a request within all
// limits; and how its JSON is spelt makes no difference.

#include <cmath>
#include <optional>
#include <string>

#include "chat/text_streams.h"
#include "fuzz.h"
#include "server/api/errors.h"
#include "server/api/generation_fields.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::fuzz {

using server::api::Json;

inline constexpr std::size_t kVocabularySize = 300;

inline server::api::RequestDefaults request_defaults() {
  server::api::RequestDefaults defaults;
  defaults.vocabulary_size = kVocabularySize;
  return defaults;
}

inline void check_refusal(const Error& error) {
  KVKEEP_ASSERT(!error.message.empty(), "a refusal has a reason");
  const Json reply = Json::parse(server::api::error_reply(error).body, nullptr, false);
  KVKEEP_ASSERT(reply.is_object() && reply["error"]["message"].is_string(), "which can be told");
}

inline void check_known(const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) KVKEEP_ASSERT(id >= 0 && static_cast<std::size_t>(id) < kVocabularySize, "known ids");
}

inline void check_ids(const server::api::PromptSource& prompt) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) check_known(*ids);
  const auto* mixed = std::get_if<server::api::MixedPrompt>(&prompt);
  if (mixed == nullptr) return;
  for (const auto& part : *mixed) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&part)) check_known(*ids);
  }
}

inline void check_limits(const server::api::GenerationRequest& request) {
  const engine::SamplingParams& sampling = request.sampling;
  for (const float number : {sampling.temperature, sampling.top_p, sampling.min_p, sampling.repeat_penalty,
                             sampling.presence_penalty, sampling.frequency_penalty}) {
    KVKEEP_ASSERT(std::isfinite(number), "numbers are numbers");
  }
  for (const auto& [token, bias] : sampling.logit_bias) {
    KVKEEP_ASSERT(token >= 0 && static_cast<std::size_t>(token) < kVocabularySize, "tokens are the vocabulary's");
    KVKEEP_ASSERT(!std::isnan(bias), "a bias is a number");
  }
  KVKEEP_ASSERT(request.max_tokens.value_or(0) >= 0 && request.keep_s >= 0, "counts are counts");
  KVKEEP_ASSERT(request.choices() >= 1 && request.choices() <= server::api::kMostChoices, "replies are limited");
  check_ids(request.prompt);
  for (const server::api::PromptSource& prompt : request.more_prompts) check_ids(prompt);
  if (const auto* chat = std::get_if<chat::RenderInput>(&request.prompt)) {
    KVKEEP_ASSERT(chat->messages.is_array(), "messages are a list");
    KVKEEP_ASSERT(chat->tools.is_null() || chat->tools.is_array(), "tools are a list");
    KVKEEP_ASSERT(chat::is_valid_utf8(chat->assistant_prefix), "text is UTF-8");
  }
}

// Checks that two spellings of one body agree.
inline std::string meaning_of(const server::api::GenerationRequest& request) {
  Json told = {{"max", request.max_tokens.value_or(-1)},
               {"stop", request.stop},
               {"stream", request.stream},
               {"model", request.model},
               {"keep", request.keep_s},
               {"cache", request.cache_prompt},
               {"replies", request.choices()},
               {"fields", request.response_fields}};
  told["temperature"] = request.sampling.temperature;
  told["seed"] = request.sampling.seed.value_or(UINT32_MAX);
  told["output"] = request.output.index();
  told["choice"] = static_cast<int>(request.tools.choice);
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) told["prompt"] = *ids;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) told["prompt"] = *text;
  if (const auto* chat = std::get_if<chat::RenderInput>(&request.prompt)) {
    told["prompt"] = {chat->messages, chat->tools, chat->template_kwargs, chat->assistant_prefix};
  }
  return told.dump();
}

// `parse(body)`: a Result; `request_of(*it)`: the GenerationRequest in it.
template <typename Parse, typename RequestOf>
void check_body(std::string_view body, Parse parse, RequestOf request_of) {
  const auto request = parse(body);
  if (!request) return check_refusal(request.error());
  check_limits(request_of(*request));
  const auto json = server::api::parse_body(std::string(body));
  KVKEEP_ASSERT(json, "what was read is JSON");
  const auto again = parse(json->dump(1, '\t', /*ensure_ascii=*/true));
  KVKEEP_ASSERT(again, "another spelling is read as well");
  KVKEEP_ASSERT(meaning_of(request_of(*request)) == meaning_of(request_of(*again)), "and means the same");
}

}  // namespace kvkeep::fuzz
