#include "server/api/openai/completions.h"

#include <optional>
#include <utility>

#include "server/api/generation_fields.h"
#include "server/api/json_body.h"
#include "server/api/known_fields.h"

namespace kvkeep::server::api {

Result<PromptSource> read_prompt_field(const Json& prompt, std::size_t vocabulary_size) {
  if (prompt.is_string()) {
    if (prompt.get_ref<const std::string&>().empty()) return invalid("'prompt' must not be empty");
    return PromptSource(prompt.get<std::string>());
  }
  if (!prompt.is_array()) return wrong_type("prompt", "a string or an array of token ids", prompt);
  if (prompt.empty()) return invalid("'prompt' must not be empty");
  if (prompt.size() == 1 && !prompt[0].is_number()) return read_prompt_field(prompt[0], vocabulary_size);
  for (const Json& element : prompt) {
    if (element.is_number()) continue;
    return invalid(
        "'prompt' must be one string or one array of token ids: several prompts, or both mixed, are not supported");
  }
  TRY_ASSIGN(std::vector<TokenId> ids, read_token_ids(prompt, "prompt", vocabulary_size));
  return PromptSource(std::move(ids));
}

namespace {

// OpenAI's `logprobs` is a number here, also 0: the sampled tokens without others. llama-server's `n_probs` 0 asks for
// nothing.
Status read_completion_scores(const Json& body, std::optional<std::size_t>& count) {
  if (const Json* logprobs = field(body, "logprobs"); logprobs != nullptr && *logprobs != false) {
    count = 0;
    if (*logprobs != true) TRY(read_scored_count(body, "logprobs", count));
  }
  return read_scored_count(body, "n_probs", count);
}

}  // namespace

Result<GenerationRequest> parse_completion(std::string body, const RequestDefaults& defaults) {
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  GenerationRequest request;
  TRY_ASSIGN(request.unknown_fields, unknown_fields(json, Dialect::kCompletions, defaults.strict_fields));
  const Json* prompt = field(json, "prompt");
  if (prompt == nullptr) return invalid("'prompt' is required");
  TRY_ASSIGN(request.prompt, read_prompt_field(*prompt, defaults.vocabulary_size));
  TRY(read_generation_fields(json, defaults, request));
  TRY(read_completion_scores(json, request.scored_tokens));
  return request;
}

}  // namespace kvkeep::server::api
