#include "server/api/openai/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "server/api/generation_fields.h"
#include "server/api/json_body.h"
#include "server/api/known_fields.h"

namespace kvkeep::server::api {

namespace {

constexpr std::string_view kForms = "a string, an array of token ids and strings, or an array of prompts";

bool is_part(const Json& value) { return value.is_string() || value.is_number(); }

// One prompt of ids and strings in turn.
Result<PromptSource> read_mixed(const Json& parts, std::size_t vocabulary_size) {
  MixedPrompt mixed;
  for (const Json& part : parts) {
    if (part.is_string()) {
      mixed.emplace_back(part.get<std::string>());
      continue;
    }
    TRY_ASSIGN(const std::vector<TokenId> id, read_token_ids(Json::array({part}), "prompt", vocabulary_size));
    auto* ids = mixed.empty() ? nullptr : std::get_if<std::vector<TokenId>>(&mixed.back());
    if (ids == nullptr) ids = &std::get<std::vector<TokenId>>(mixed.emplace_back(std::vector<TokenId>()));
    ids->push_back(id.front());
  }
  return PromptSource(std::move(mixed));
}

// llama-server's form of a prompt that may have pictures.
Result<PromptSource> read_prompt_object(const Json& prompt, MediaReader& media) {
  for (const auto& [name, value] : prompt.items()) {
    if (name != "multimodal_data" && name != "prompt_string")
      return invalid(fmt::format("'prompt.{}' is unknown", name));
  }
  const Json* text = field(prompt, "prompt_string");
  if (text == nullptr || !text->is_string() || text->get_ref<const std::string&>().empty()) {
    return invalid("'prompt.prompt_string' must be a text");
  }
  const Json* data = field(prompt, "multimodal_data");
  // An empty list counts, so that a marker whose file was forgotten is an error.
  if (data == nullptr || (data->empty() && !media.any())) return PromptSource(text->get<std::string>());
  TRY_ASSIGN(MixedPrompt mixed,
             media.prompt_with_files(text->get_ref<const std::string&>(), *data, "prompt.multimodal_data"));
  if (data->empty()) return PromptSource(text->get<std::string>());
  return PromptSource(std::move(mixed));
}

Result<PromptSource> read_one_prompt(const Json& prompt, MediaReader& media, std::size_t vocabulary_size) {
  if (prompt.is_object()) return read_prompt_object(prompt, media);
  if (prompt.is_string()) {
    if (prompt.get_ref<const std::string&>().empty()) return invalid("'prompt' must not be empty");
    return PromptSource(prompt.get<std::string>());
  }
  if (!prompt.is_array()) return wrong_type("prompt", kForms, prompt);
  if (prompt.empty()) return invalid("'prompt' must not be empty");
  if (std::ranges::all_of(prompt, &Json::is_number)) {
    TRY_ASSIGN(std::vector<TokenId> ids, read_token_ids(prompt, "prompt", vocabulary_size));
    return PromptSource(std::move(ids));
  }
  if (!std::ranges::all_of(prompt, is_part)) return wrong_type("prompt", kForms, prompt);
  return read_mixed(prompt, vocabulary_size);
}

// Strings, or ids, or both in one array are one prompt, except that strings only are several.
bool is_list_of_prompts(const Json& prompt) {
  if (!prompt.is_array() || prompt.empty()) return false;
  return std::ranges::none_of(prompt, &Json::is_number) || !std::ranges::all_of(prompt, is_part);
}

}  // namespace

Result<std::vector<PromptSource>> read_prompts(const Json& prompt, MediaReader& media, std::size_t vocabulary_size) {
  std::vector<PromptSource> prompts;
  if (!is_list_of_prompts(prompt)) {
    TRY_ASSIGN(PromptSource one, read_one_prompt(prompt, media, vocabulary_size));
    prompts.push_back(std::move(one));
    return prompts;
  }
  if (prompt.size() > kMostChoices) return invalid(fmt::format("'prompt' may hold at most {} prompts", kMostChoices));
  for (const Json& element : prompt) {
    TRY_ASSIGN(PromptSource one, read_one_prompt(element, media, vocabulary_size));
    prompts.push_back(std::move(one));
  }
  return prompts;
}

Result<PromptSource> read_prompt_field(const Json& prompt, MediaReader& media, std::size_t vocabulary_size) {
  TRY_ASSIGN(std::vector<PromptSource> prompts, read_prompts(prompt, media, vocabulary_size));
  if (prompts.size() > 1) return invalid("'prompt' must be one prompt");
  return std::move(prompts.front());
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

constexpr std::array<std::string_view, 4> kByOpenAi = {"n", "n_cmpl", "echo", "suffix"};
constexpr std::array<std::string_view, 3> kByNative = {"n", "n_cmpl", "response_fields"};

Status read_response_fields(const Json& body, std::vector<std::string>& names) {
  constexpr std::size_t kMostFields = 256;
  const Json* list = field(body, "response_fields");
  if (list == nullptr) return {};
  if (!list->is_array()) return wrong_type("response_fields", "an array of strings", *list);
  if (list->size() > kMostFields)
    return invalid(fmt::format("'response_fields' may hold at most {} names", kMostFields));
  for (const Json& name : *list) {
    if (!name.is_string()) return wrong_type("response_fields", "an array of strings", name);
    names.push_back(name.get<std::string>());
  }
  return {};
}

Status make_gap(PromptSource& prompt, const std::string& suffix) {
  auto* text = std::get_if<std::string>(&prompt);
  if (text == nullptr) return invalid("'suffix' needs a 'prompt' that is a string");
  prompt = FillIn{.prefix = std::move(*text), .suffix = suffix};
  return {};
}

// OpenAI's way to fill a gap: between the prompt and the suffix.
Status read_suffix(const Json& body, GenerationRequest& request) {
  std::string suffix;
  TRY(read_string(body, "suffix", suffix));
  if (suffix.empty()) return {};
  TRY(make_gap(request.prompt, suffix));
  for (PromptSource& prompt : request.more_prompts) TRY(make_gap(prompt, suffix));
  return {};
}

}  // namespace

Status read_native_fields(const Json& json, const RequestDefaults& defaults, GenerationRequest& request) {
  TRY(read_generation_fields(json, defaults, request, kByNative));
  TRY(read_choices(json, request));
  TRY(read_completion_scores(json, request.scored_tokens));
  return read_response_fields(json, request.response_fields);
}

Result<GenerationRequest> parse_completion(std::string body, const RequestDefaults& defaults, CompletionShape shape) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  GenerationRequest request;
  TRY_ASSIGN(request.unknown_fields, unknown_fields(json, Dialect::kCompletions, defaults.strict_fields));
  const Json* prompt = field(json, "prompt");
  if (prompt == nullptr) return missing_field(json, "prompt");
  TRY_ASSIGN(std::vector<PromptSource> prompts, read_prompts(*prompt, media, defaults.vocabulary_size));
  request.prompt = std::move(prompts.front());
  request.more_prompts.assign(std::move_iterator(prompts.begin() + 1), std::move_iterator(prompts.end()));
  if (shape == CompletionShape::kNative) {
    TRY(read_native_fields(json, defaults, request));
    return request;
  }
  TRY(read_suffix(json, request));
  TRY(read_generation_fields(json, defaults, request, kByOpenAi));
  TRY(read_choices(json, request));
  TRY(read_completion_scores(json, request.scored_tokens));
  TRY(read_bool(json, "echo", request.echo));
  request.score_prompt = request.echo && request.scored_tokens;
  if (request.score_prompt && !media.take().files.empty()) {
    return invalid(
        "'echo' with 'logprobs' is not supported with 'multimodal_data': pictures and sounds have no scores");
  }
  if (request.score_prompt && request.sampling.keeps_candidates) {
    return invalid("'post_sampling_probs' is not supported with 'echo' and 'logprobs': a prompt is not sampled");
  }
  if (request.score_prompt && *request.scored_tokens > kMostPromptScores) {
    return invalid(fmt::format("'logprobs' may be at most {} with 'echo'", kMostPromptScores));
  }
  return request;
}

}  // namespace kvkeep::server::api
