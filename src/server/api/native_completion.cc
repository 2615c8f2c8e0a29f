#include "server/api/native_completion.h"

#include <utility>

namespace kvkeep::server::api {
namespace {

constexpr std::uint32_t kAnySeed = UINT32_MAX;

Json settings_json(const GenerationRequest& request) {
  const engine::SamplingParams& sampling = request.sampling;
  const std::int64_t most = request.max_tokens.value_or(-1);
  return {
      {"seed", sampling.seed.value_or(kAnySeed)},
      {"temperature", sampling.temperature},
      {"top_k", sampling.top_k},
      {"top_p", sampling.top_p},
      {"min_p", sampling.min_p},
      {"repeat_last_n", sampling.repeat_last_n},
      {"repeat_penalty", sampling.repeat_penalty},
      {"presence_penalty", sampling.presence_penalty},
      {"frequency_penalty", sampling.frequency_penalty},
      {"ignore_eos", sampling.ignore_eos},
      {"stop", request.stop},
      {"max_tokens", most},
      {"n_predict", most},
      {"stream", request.stream},
      {"timings_per_token", request.timings_per_token},
  };
}

std::string_view stop_type(const GenerationResult& result) {
  if (result.finish == FinishReason::kLength) return "limit";
  return result.stop_string.empty() ? "eos" : "word";
}

}  // namespace

NativeCompletionWriter::NativeCompletionWriter(ReplyHeader header, const GenerationRequest& request, std::string prompt)
    : header_(std::move(header)),
      prompt_(std::move(prompt)),
      settings_(settings_json(request)),
      max_tokens_(request.max_tokens),
      timings_per_token_(request.timings_per_token),
      shows_scores_(request.scored_tokens.has_value()) {}

// Requests have no slot: "id_slot" is there because clients read it.
Json NativeCompletionWriter::piece(std::string_view text, std::span<const TokenId> tokens) const {
  return {
      {"index", 0},
      {"content", text},
      {"tokens", tokens},
      {"stop", false},
      {"id_slot", 0},
      {"tokens_predicted", predicted_},
      {"tokens_evaluated", prompt_tokens_},
  };
}

std::string NativeCompletionWriter::first(const ReplyStart& start) {
  prompt_tokens_ = start.prompt_tokens;
  return {};
}

std::string NativeCompletionWriter::progress(const PrefillProgress& progress) {
  Json json = piece("", {});
  json["prompt_progress"] = progress_json(progress);
  return sse(json);
}

std::string NativeCompletionWriter::delta(const Delta& delta) {
  predicted_ += delta.tokens.size();
  has_new_line_ |= delta.text.find('\n') != std::string_view::npos;
  Json json = piece(delta.text, delta.tokens);
  if (delta.score != nullptr) json["completion_probabilities"] = scores_json({delta.score, 1});
  if (timings_per_token_ && delta.timings != nullptr) json["timings"] = timings_json(*delta.timings);
  return sse(json);
}

Json NativeCompletionWriter::last(std::string_view text, const GenerationResult& result) const {
  const std::size_t predicted = result.timings.predicted_n;
  const bool asked_for_more = !max_tokens_ || predicted < static_cast<std::size_t>(*max_tokens_);
  return {
      {"index", 0},
      {"content", text},
      {"tokens", result.tokens},
      {"id_slot", 0},
      {"stop", true},
      {"model", header_.model},
      {"tokens_predicted", predicted},
      {"tokens_evaluated", result.prompt_tokens},
      {"generation_settings", settings_},
      {"prompt", prompt_},
      {"has_new_line", has_new_line_ || text.find('\n') != std::string_view::npos},
      {"truncated", result.finish == FinishReason::kLength && asked_for_more},  // the context is full
      {"stop_type", stop_type(result)},
      {"stopping_word", result.stop_string},
      {"tokens_cached", result.prompt_tokens + (predicted > 0 ? predicted - 1 : 0)},
      {"timings", timings_json(result.timings)},
  };
}

std::string NativeCompletionWriter::finish(const GenerationResult& result) { return sse(last("", result)); }

std::string NativeCompletionWriter::whole(const GenerationResult& result) {
  Json json = last(joined_text(result.content, PartKind::kText), result);
  if (shows_scores_) json["completion_probabilities"] = scores_json(result.scores);
  return to_line(json);
}

std::string props_reply(const ServerProps& props, const RequestDefaults& defaults) {
  GenerationRequest request;
  request.sampling = defaults.sampling;
  request.max_tokens = defaults.max_tokens;
  return to_line({
      {"default_generation_settings", {{"params", settings_json(request)}, {"n_ctx", props.context_tokens}}},
      {"total_slots", props.parallel},
      {"model_alias", props.model_name},
      {"model_path", props.model_path},
      {"modalities", {{"vision", false}, {"audio", false}}},
      {"endpoint_slots", false},
      {"endpoint_props", false},
      {"endpoint_metrics", false},
      {"chat_template", props.chat_template},
      {"bos_token", props.bos_token},
      {"eos_token", props.eos_token},
      {"build_info", props.build},
      {"is_sleeping", false},
  });
}

}  // namespace kvkeep::server::api
