#include "server/api/reply.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.h"

namespace kvkeep::server::api {
namespace {

double ratio(double dividend, double divisor) { return divisor > 0 ? dividend / divisor : 0.0; }

}  // namespace

std::string sse(const Json& data) { return std::string("data: ").append(to_line(data)).append("\n\n"); }

std::string_view sse_done() { return "data: [DONE]\n\n"; }

std::string_view sse_keep_alive() { return ": keep-alive\n\n"; }

std::string_view to_string(FinishReason finish) {
  switch (finish) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kToolCalls: return "tool_calls";
  }
  return "stop";
}

void append_delta(std::vector<ReplyPart>& content, const Delta& delta) {
  switch (delta.kind) {
    case DeltaKind::kCallBegin:
      content.push_back({.kind = PartKind::kCall,
                         .text = {},
                         .call_id = std::string(delta.call_id),
                         .call_name = std::string(delta.call_name)});
      return;
    case DeltaKind::kCallArguments: content.back().text += delta.text; return;
    case DeltaKind::kCallEnd: content.back().is_whole = delta.call_is_whole; return;
    case DeltaKind::kText:
    case DeltaKind::kReasoning: break;
  }
  if (delta.text.empty()) return;
  const PartKind kind = delta.kind == DeltaKind::kText ? PartKind::kText : PartKind::kReasoning;
  if (content.empty() || content.back().kind != kind) content.push_back({.kind = kind});
  content.back().text += delta.text;
}

std::string joined_text(std::span<const ReplyPart> content, PartKind kind) {
  std::string text;
  for (const ReplyPart& part : content) {
    if (part.kind == kind) text += part.text;
  }
  return text;
}

std::string ReplyWriter::keep_alive() { return std::string(sse_keep_alive()); }

std::string ReplyWriter::end_choice(const GenerationResult& /*result*/) {
  KVKEEP_ASSERT(false, "this dialect has one choice");
  return {};
}

JsonPieces ReplyWriter::whole_of_all(std::vector<GenerationResult> results) {
  KVKEEP_ASSERT(results.size() == 1, "this dialect has one choice");
  JsonPieces pieces;
  pieces.add(whole(results.front()));
  return pieces;
}

ErrorReply ReplyWriter::error(const Error& error) const { return error_reply(error); }

ErrorReply ReplyWriter::context_exceeded(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens) const {
  return context_exceeded_reply(prompt_tokens, is_counted, context_tokens);
}

std::string ReplyWriter::stream_error(const ErrorReply& reply) const { return api::stream_error(reply); }

Json timings_json(const Timings& timings) {
  const auto prompt_n = static_cast<double>(timings.prompt_n);
  // predicted_ms begins with the first token, so that it counts one token less.
  const double steps = timings.predicted_n > 1 ? static_cast<double>(timings.predicted_n - 1) : 0.0;
  Json json = {
      {"cache_n", timings.cache_n},
      {"prompt_n", timings.prompt_n},
      {"prompt_ms", timings.prompt_ms},
      {"prompt_per_token_ms", ratio(timings.prompt_ms, prompt_n)},
      {"prompt_per_second", ratio(1e3 * prompt_n, timings.prompt_ms)},
      {"predicted_n", timings.predicted_n},
      {"predicted_ms", timings.predicted_ms},
      {"predicted_per_token_ms", ratio(timings.predicted_ms, steps)},
      {"predicted_per_second", ratio(1e3 * steps, timings.predicted_ms)},
      {"cache_source", timings.cache_source},
      {"cache_tokens",
       {{"memory", timings.memory_tokens},
        {"ram", timings.ram_tokens},
        {"disk", timings.disk_tokens},
        {"shared", timings.shared_tokens}}},
      {"cache_point", timings.cache_point},
  };
  if (!timings.cache_miss_reason.empty()) json["cache_miss_reason"] = timings.cache_miss_reason;
  if (timings.cache_break) json["cache_break"] = *timings.cache_break;
  if (timings.slot) json["id_slot"] = *timings.slot;
  return json;
}

Json usage_json(const GenerationResult& result) {
  const Usage usage = result.usage_of_all.value_or(Usage{.prompt_tokens = result.prompt_tokens,
                                                         .cached_tokens = result.timings.cache_n,
                                                         .completion_tokens = result.timings.predicted_n,
                                                         .reasoning_tokens = result.reasoning_tokens});
  return {
      {"completion_tokens", usage.completion_tokens},
      {"prompt_tokens", usage.prompt_tokens},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
      {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
      {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
  };
}

Json progress_json(const PrefillProgress& progress) {
  return {{"total", progress.total},
          {"cache", progress.cached},
          {"processed", progress.processed},
          {"time_ms", static_cast<std::int64_t>(progress.time_ms)}};
}

ScoreKind score_kind(const GenerationRequest& request) {
  return request.sampling.keeps_candidates ? ScoreKind::kDrawn : ScoreKind::kLogprobs;
}

float shown_logprob(float logprob) { return std::max(logprob, -9999.0F); }

Json score_json(const TokenScore& score, ScoreKind kind) {
  const bool drawn = kind == ScoreKind::kDrawn;
  const auto one = [drawn](const TokenScore& token) {
    Json bytes = Json::array();
    for (const char byte : token.text) bytes.push_back(static_cast<unsigned char>(byte));
    Json json = {{"id", token.id}, {"token", token.text}, {"bytes", std::move(bytes)}};
    drawn ? json["prob"] = std::exp(token.logprob) : json["logprob"] = shown_logprob(token.logprob);
    return json;
  };
  Json json = one(score);
  Json& likeliest = json[drawn ? "top_probs" : "top_logprobs"] = Json::array();
  for (const TokenScore& other : score.likeliest) likeliest.push_back(one(other));
  return json;
}

void add_scores(JsonPieces& pieces, ScoreList scores, ScoreKind kind) {
  pieces.add_list(scores.size,
                  [at = std::move(scores.at), kind](std::size_t number) { return score_json(at(number), kind); });
}

}  // namespace kvkeep::server::api
