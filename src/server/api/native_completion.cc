#include "server/api/native_completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "server/api/generation_fields.h"
#include "server/api/known_fields.h"
#include "server/api/openai/completions.h"

namespace kvkeep::server::api {
namespace {

constexpr std::uint32_t kAnySeed = UINT32_MAX;

// As llama-server shows them: null forbids a token.
Json biases_json(const GenerationRequest& request) {
  Json biases = Json::array();
  for (const auto& [token, bias] : request.sampling.logit_bias) biases.push_back({{"bias", bias}, {"token", token}});
  for (const TokenId token : request.withheld) biases.push_back({{"bias", nullptr}, {"token", token}});
  return biases;
}

}  // namespace

Json sampling_json(const engine::SamplingParams& sampling, std::optional<std::int64_t> max_tokens) {
  const std::int64_t most = max_tokens.value_or(-1);
  Json settings = {
      {"seed", sampling.seed.value_or(kAnySeed)},
      {"ignore_eos", sampling.ignore_eos},
      {"max_tokens", most},
      {"n_predict", most},
  };
  settings.update(sampling_json(sampling));
  return settings;
}

namespace {

Json settings_json(const GenerationRequest& request) {
  Json settings = sampling_json(request.sampling, request.max_tokens);
  const Json rest = {
      {"n_keep", request.kept_tokens},
      {"n_discard", request.discarded_tokens},
      {"logit_bias", biases_json(request)},
      {"stop", request.stop},
      {"stream", request.stream},
      {"timings_per_token", request.timings_per_token},
      {"post_sampling_probs", request.sampling.keeps_candidates},
      {"n_probs", request.scored_tokens.value_or(0)},
      {"t_max_predict_ms", request.lines.longest_ms},
      {"n_indent", request.lines.least_indent},
  };
  settings.update(rest);
  return settings;
}

// Returns the named fields of a reply, under these names. Slashes lead into objects: "timings/prompt_n". A field that
// is not there is left out.
Json chosen_fields(const Json& reply, std::span<const std::string> names) {
  if (names.empty()) return reply;
  Json chosen = Json::object();
  for (const std::string& name : names) {
    const Json* at = &reply;
    for (std::size_t begin = 0; at != nullptr && begin <= name.size();) {
      const std::size_t end = std::min(name.find('/', begin), name.size());
      const auto found = at->is_object() ? at->find(name.substr(begin, end - begin)) : at->end();
      at = found == at->end() ? nullptr : &*found;
      begin = end + 1;
    }
    if (at != nullptr) chosen[name] = *at;
  }
  return chosen;
}

// As llama-server: -1 for a reply that has no slot yet.
Json slot_json(std::optional<std::size_t> slot) { return slot ? Json(*slot) : Json(-1); }

std::string_view stop_type(const GenerationResult& result) {
  if (result.finish == FinishReason::kLength) return "limit";
  return result.stop_string.empty() ? "eos" : "word";
}

}  // namespace

NativeCompletionWriter::NativeCompletionWriter(ReplyHeader header, const GenerationRequest& request,
                                               std::vector<std::string> prompts)
    : header_(std::move(header)),
      prompts_(std::move(prompts)),
      choices_per_prompt_(request.choices_per_prompt),
      settings_(settings_json(request)),
      response_fields_(request.response_fields),
      max_tokens_(request.max_tokens),
      timings_per_token_(request.timings_per_token),
      shows_scores_(request.scored_tokens.has_value()),
      score_kind_(score_kind(request)),
      choices_(request.choices()) {}

Json NativeCompletionWriter::piece(std::size_t choice, std::optional<std::size_t> slot, std::string_view text,
                                   std::span<const TokenId> tokens) const {
  return {
      {"index", choice},
      {"content", text},
      {"tokens", tokens},
      {"stop", false},
      {"id_slot", slot_json(slot)},
      {"tokens_predicted", choices_.at(choice).predicted},
      {"tokens_evaluated", choices_.at(choice).prompt_tokens},
  };
}

std::string NativeCompletionWriter::first(const ReplyStart& start) {
  choices_.at(start.choice).prompt_tokens = start.prompt_tokens;
  return {};
}

std::string NativeCompletionWriter::progress(const PrefillProgress& progress) {
  Json json = piece(progress.choice, progress.slot, "", {});
  json["prompt_progress"] = progress_json(progress);
  return sse(json);
}

std::string NativeCompletionWriter::delta(const Delta& delta) {
  Progress& choice = choices_.at(delta.choice);
  choice.predicted += delta.tokens.size();
  choice.has_new_line |= delta.text.find('\n') != std::string_view::npos;
  Json json = piece(delta.choice, delta.slot, delta.text, delta.tokens);
  if (delta.score != nullptr) json["completion_probabilities"] = Json::array({score_json(*delta.score, score_kind_)});
  if (timings_per_token_ && delta.timings != nullptr) json["timings"] = timings_json(*delta.timings);
  return sse(json);
}

Json NativeCompletionWriter::last(std::string_view text, const GenerationResult& result) const {
  const std::size_t predicted = result.timings.predicted_n;
  const bool asked_for_more = !max_tokens_ || predicted < static_cast<std::size_t>(*max_tokens_);
  // A prompt that fits has a reply of one token at least, unless its prefill took too long.
  const bool context_full = result.finish == FinishReason::kLength && !result.by_line_limit && predicted > 0;
  const bool has_new_line = choices_.at(result.choice).has_new_line || text.find('\n') != std::string_view::npos;
  Json json = {
      {"index", result.choice},
      {"content", text},
      {"tokens", result.tokens},
      {"id_slot", slot_json(result.slot)},
      {"stop", true},
      {"model", header_.model},
      {"tokens_predicted", predicted},
      {"tokens_evaluated", result.prompt_tokens},
      {"generation_settings", settings_},
      {"prompt", prompts_.at(result.choice / choices_per_prompt_)},
      {"has_new_line", has_new_line},
      {"truncated", result.truncated || (context_full && asked_for_more)},
      {"stop_type", stop_type(result)},
      {"stopping_word", result.stop_string},
      {"tokens_cached", result.prompt_tokens + (predicted > 0 ? predicted - 1 : 0)},
      {"timings", timings_json(result.timings)},
  };
  return chosen_fields(json, response_fields_);
}

std::string NativeCompletionWriter::finish(const GenerationResult& result) { return sse(last("", result)); }

// Each reply is made in its turn, because it repeats the prompt and the settings.
JsonPieces NativeCompletionWriter::whole_of_all(std::vector<GenerationResult> results) {
  constexpr std::string_view kScores = "completion_probabilities";
  const auto all = std::make_shared<const std::vector<GenerationResult>>(std::move(results));
  const bool shows_scores = shows_scores_ && (response_fields_.empty() ||
                                              std::ranges::find(response_fields_, kScores) != response_fields_.end());
  JsonPieces pieces;
  if (all->size() > 1) pieces.add("[");
  for (const GenerationResult& result : *all) {
    const bool is_first = &result == &all->front();
    pieces.add([this, all, &result, is_first, shows_scores] {
      const Json one = last(joined_text(result.content, PartKind::kText), result);
      const char* const comma = shows_scores && !one.empty() ? "," : "";
      return (is_first ? "{" : ",{") + members(one) + comma;
    });
    if (shows_scores) {
      pieces.add(fmt::format("\"{}\":", kScores));
      add_scores(pieces, result.scores, score_kind_);
    }
    pieces.add("}");
  }
  if (all->size() > 1) pieces.add("]");
  return pieces;
}

namespace {

Result<FillIn::File> read_file(const Json& chunk) {
  FillIn::File file{.name = "tmp", .text = {}};
  if (!chunk.is_object()) return wrong_type("input_extra", "an array of objects with 'text' and 'filename'", chunk);
  if (field(chunk, "text") == nullptr) return invalid("each element of 'input_extra' must have a 'text'");
  TRY(read_string(chunk, "text", file.text));
  TRY(read_string(chunk, "filename", file.name));
  return file;
}

Result<std::vector<FillIn::File>> read_files(const Json& body) {
  std::vector<FillIn::File> files;
  const Json* list = field(body, "input_extra");
  if (list == nullptr) return files;
  if (!list->is_array()) return wrong_type("input_extra", "an array of objects with 'text' and 'filename'", *list);
  if (list->size() > kMostExtraFiles) {
    return invalid(fmt::format("'input_extra' may hold at most {} texts", kMostExtraFiles));
  }
  for (const Json& chunk : *list) {
    TRY_ASSIGN(FillIn::File file, read_file(chunk));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

Result<FillIn> read_fill_in(const Json& body) {
  for (const char* name : {"input_prefix", "input_suffix"}) {
    if (field(body, name) == nullptr) return invalid(fmt::format("'{}' is required", name));
  }
  FillIn fill{.names_files = true};
  TRY(read_string(body, "input_prefix", fill.prefix));
  TRY(read_string(body, "input_suffix", fill.suffix));
  TRY(read_string(body, "prompt", fill.typed));
  TRY_ASSIGN(fill.files, read_files(body));
  return fill;
}

Result<GenerationRequest> parse_infill(std::string body, const RequestDefaults& defaults) {
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  GenerationRequest request;
  TRY_ASSIGN(request.unknown_fields, unknown_fields(json, Dialect::kInfill, defaults.strict_fields));
  TRY_ASSIGN(request.prompt, read_fill_in(json));
  TRY(read_native_fields(json, defaults, request));
  return request;
}

std::string props_reply(const ServerProps& props, const RequestDefaults& defaults) {
  const std::string marker = defaults.media ? defaults.media->marker : std::string();
  GenerationRequest request;
  request.sampling = defaults.sampling;
  request.max_tokens = defaults.max_tokens;
  const bool sees = defaults.media && defaults.media->pictures;
  const bool hears = defaults.media && defaults.media->sound;
  return to_line({
      {"default_generation_settings", {{"params", settings_json(request)}, {"n_ctx", props.context_tokens}}},
      {"total_slots", props.parallel},
      {"model_alias", props.model_name},
      {"model_ftype", props.file_type},
      {"model_path", props.model_path},
      {"modalities", {{"vision", sees}, {"video", false}, {"audio", hears}}},
      {"media_marker", marker},
      {"endpoint_slots", props.endpoints.slots},
      {"endpoint_props", props.endpoints.props},
      {"endpoint_metrics", props.endpoints.metrics},
      {"chat_template", props.chat_template},
      {"chat_template_caps", props.chat_template_caps},
      {"bos_token", props.bos_token},
      {"eos_token", props.eos_token},
      {"build_info", props.build},
      {"is_sleeping", false},
      {"ui", false},
      {"ui_settings", Json::object()},
      {"cors_proxy_enabled", false},
  });
}

}  // namespace kvkeep::server::api
