#include "server/api/openai/reply.h"

#include <cmath>
#include <span>
#include <string>
#include <utility>

namespace kvkeep::server::api {
namespace {

Json choice(std::size_t index, Json delta, Json finish_reason = nullptr) {
  Json one = {{"finish_reason", std::move(finish_reason)}, {"index", index}, {"delta", std::move(delta)}};
  return Json::array({std::move(one)});
}

Json role_delta() { return {{"role", "assistant"}, {"content", nullptr}}; }

Json call_delta(const Delta& delta) {
  Json call = {{"index", delta.call_index}};
  if (delta.kind == DeltaKind::kCallBegin) {
    call["id"] = delta.call_id;
    call["type"] = "function";
    call["function"] = {{"name", delta.call_name}, {"arguments", ""}};
  } else {
    call["function"] = {{"arguments", delta.text}};
    if (delta.kind == DeltaKind::kCallEnd) call["incomplete"] = true;
  }
  return {{"tool_calls", Json::array({std::move(call)})}};
}

Json content_delta(const Delta& delta) {
  switch (delta.kind) {
    case DeltaKind::kText: return {{"content", delta.text}};
    case DeltaKind::kReasoning: return {{"reasoning_content", delta.text}};
    default: return call_delta(delta);
  }
}

Json message_json(const GenerationResult& result) {
  Json message = {{"role", "assistant"}, {"content", joined_text(result.content, PartKind::kText)}};
  const std::string reasoning = joined_text(result.content, PartKind::kReasoning);
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  for (const ReplyPart& part : result.content) {
    if (part.kind != PartKind::kCall) continue;
    message["tool_calls"].push_back({{"type", "function"},
                                     {"id", part.call_id},
                                     {"function", {{"name", part.call_name}, {"arguments", part.text}}}});
    if (!part.is_whole) message["tool_calls"].back()["incomplete"] = true;
  }
  if (message.contains("tool_calls") && message["content"] == "") message["content"] = nullptr;
  return message;
}

// llama-server's list as "content", and OpenAI's lists.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(ScoreKind kind) : kind_(kind) {}

  // `offset`: bytes of text before the first of these tokens.
  void add(std::span<const TokenScore> scores, std::size_t offset) {
    for (const TokenScore& score : scores) {
      const Json one = scores_json({&score, 1}, ScoreKind::kLogprobs).front();
      json_["tokens"].push_back(one["token"]);
      json_["token_logprobs"].push_back(one["logprob"]);
      json_["top_logprobs"].push_back(std::isnan(score.logprob) ? Json() : likeliest(one["top_logprobs"]));
      json_["text_offset"].push_back(offset);
      json_["content"].push_back(kind_ == ScoreKind::kLogprobs ? one : scores_json({&score, 1}, kind_).front());
      offset += score.text.size();
    }
  }
  Json take() { return std::move(json_); }

 private:
  static Json likeliest(const Json& scores) {
    Json by_token = Json::object();
    for (const Json& one : scores) by_token[one["token"].get_ref<const std::string&>()] = one["logprob"];
    return by_token;
  }

  const ScoreKind kind_;
  Json json_ = {{"content", Json::array()},
                {"tokens", Json::array()},
                {"token_logprobs", Json::array()},
                {"top_logprobs", Json::array()},
                {"text_offset", Json::array()}};
};

}  // namespace

ChatReplyWriter::ChatReplyWriter(ReplyHeader header, const GenerationRequest& request)
    : header_(std::move(header)),
      include_usage_(request.include_usage),
      timings_per_token_(request.timings_per_token),
      return_tokens_(request.return_tokens),
      shows_scores_(request.scored_tokens.has_value()),
      score_kind_(score_kind(request)) {}

Json ChatReplyWriter::chunk(Json choices) const {
  return {
      {"choices", std::move(choices)},
      {"created", header_.created_s},
      {"id", header_.id},
      {"model", header_.model},
      {"system_fingerprint", header_.system_fingerprint},
      {"object", "chat.completion.chunk"},
  };
}

std::string ChatReplyWriter::first(const ReplyStart& start) { return sse(chunk(choice(start.choice, role_delta()))); }

std::string ChatReplyWriter::progress(const PrefillProgress& progress) {
  Json json = chunk(choice(progress.choice, role_delta()));
  json["prompt_progress"] = progress_json(progress);
  return sse(json);
}

std::string ChatReplyWriter::delta(const Delta& delta) {
  const bool is_end = delta.kind == DeltaKind::kCallEnd && delta.call_is_whole;
  if (is_end && delta.tokens.empty() && delta.score == nullptr) return {};  // the next chunk says so
  Json json = chunk(choice(delta.choice, is_end ? Json::object() : content_delta(delta)));
  if (delta.score != nullptr)
    json["choices"][0]["logprobs"] = {{"content", scores_json({delta.score, 1}, score_kind_)}};
  if (return_tokens_) json["tokens"] = delta.tokens;
  if (timings_per_token_ && delta.timings != nullptr) json["timings"] = timings_json(*delta.timings);
  return sse(json);
}

std::string ChatReplyWriter::end_choice(const GenerationResult& result) {
  Json last = chunk(choice(result.choice, Json::object(), to_string(result.finish)));
  if (!include_usage_) last["timings"] = timings_json(result.timings);
  return sse(last);
}

std::string ChatReplyWriter::finish(const GenerationResult& result) {
  std::string bytes = end_choice(result);
  if (include_usage_) {
    Json last = chunk(Json::array());
    last["usage"] = usage_json(result);
    last["timings"] = timings_json(result.timings);
    bytes += sse(last);
  }
  return bytes.append(sse_done());
}

std::string ChatReplyWriter::whole_of_all(std::span<const GenerationResult> results) {
  Json choices = Json::array();
  for (const GenerationResult& result : results) {
    Json one = {
        {"finish_reason", to_string(result.finish)}, {"index", result.choice}, {"message", message_json(result)}};
    if (shows_scores_) one["logprobs"] = {{"content", scores_json(result.scores, score_kind_)}};
    if (return_tokens_ && results.size() > 1) one["tokens"] = result.tokens;
    choices.push_back(std::move(one));
  }
  Json json = {
      {"choices", std::move(choices)},
      {"created", header_.created_s},
      {"model", header_.model},
      {"system_fingerprint", header_.system_fingerprint},
      {"object", "chat.completion"},
      {"usage", usage_json(results.front())},
      {"id", header_.id},
      {"timings", timings_json(results.front().timings)},
  };
  if (return_tokens_ && results.size() == 1) json["tokens"] = results.front().tokens;
  return to_line(json);
}

namespace {

Json completion_choice(std::size_t index, std::string_view text, Json finish_reason, Json logprobs) {
  return {
      {"text", text}, {"index", index}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(finish_reason)}};
}

}  // namespace

CompletionReplyWriter::CompletionReplyWriter(ReplyHeader header, const GenerationRequest& request,
                                             std::vector<std::string> echoed)
    : header_(std::move(header)),
      timings_per_token_(request.timings_per_token),
      return_tokens_(request.return_tokens),
      shows_scores_(request.scored_tokens.has_value()),
      score_kind_(score_kind(request)),
      choices_per_prompt_(request.choices_per_prompt),
      echoed_(std::move(echoed)) {
  for (std::size_t i = 0; i < request.choices(); ++i) text_bytes_.push_back(this->echoed(i).size());
}

const std::string& CompletionReplyWriter::echoed(std::size_t choice) const {
  static const std::string kNothing;
  return echoed_.empty() ? kNothing : echoed_.at(choice / choices_per_prompt_);
}

Json CompletionReplyWriter::body(Json choices) const {
  return {
      {"choices", std::move(choices)}, {"created", header_.created_s},
      {"model", header_.model},        {"system_fingerprint", header_.system_fingerprint},
      {"object", "text_completion"},   {"id", header_.id},
  };
}

// A chunk opens the reply only if the prompt is repeated.
std::string CompletionReplyWriter::first(const ReplyStart& start) {
  const std::string& prompt = echoed(start.choice);
  if (prompt.empty()) return {};
  Json logprobs;
  if (!start.prompt_scores.empty()) {
    CompletionLogprobs scores(score_kind_);
    scores.add(start.prompt_scores, 0);
    logprobs = scores.take();
  }
  return sse(body(Json::array({completion_choice(start.choice, prompt, nullptr, std::move(logprobs))})));
}

std::string CompletionReplyWriter::progress(const PrefillProgress& progress) {
  Json json = body(Json::array({completion_choice(progress.choice, "", nullptr, nullptr)}));
  json["prompt_progress"] = progress_json(progress);
  return sse(json);
}

std::string CompletionReplyWriter::delta(const Delta& delta) {
  Json logprobs;
  if (delta.score != nullptr) {
    std::size_t& text_bytes = text_bytes_.at(delta.choice);
    CompletionLogprobs scores(score_kind_);
    scores.add({delta.score, 1}, text_bytes);
    logprobs = scores.take();
    text_bytes += delta.score->text.size();
  }
  Json json = body(Json::array({completion_choice(delta.choice, delta.text, nullptr, std::move(logprobs))}));
  if (return_tokens_) json["tokens"] = delta.tokens;
  if (timings_per_token_ && delta.timings != nullptr) json["timings"] = timings_json(*delta.timings);
  return sse(json);
}

std::string CompletionReplyWriter::end_choice(const GenerationResult& result) {
  Json json = body(Json::array({completion_choice(result.choice, "", to_string(result.finish), nullptr)}));
  json["timings"] = timings_json(result.timings);
  return sse(json);
}

std::string CompletionReplyWriter::finish(const GenerationResult& result) {
  Json json = body(Json::array({completion_choice(result.choice, "", to_string(result.finish), nullptr)}));
  json["usage"] = usage_json(result);
  json["timings"] = timings_json(result.timings);
  return sse(json).append(sse_done());
}

std::string CompletionReplyWriter::whole_of_all(std::span<const GenerationResult> results) {
  Json choices = Json::array();
  for (const GenerationResult& result : results) {
    const std::string& prompt = echoed(result.choice);
    Json logprobs;
    if (shows_scores_) {
      CompletionLogprobs scores(score_kind_);
      scores.add(result.prompt_scores, 0);
      scores.add(result.scores, prompt.size());
      logprobs = scores.take();
    }
    choices.push_back(completion_choice(result.choice, prompt + joined_text(result.content, PartKind::kText),
                                        to_string(result.finish), std::move(logprobs)));
    if (return_tokens_ && results.size() > 1) choices.back()["tokens"] = result.tokens;
  }
  Json json = body(std::move(choices));
  json["usage"] = usage_json(results.front());
  json["timings"] = timings_json(results.front().timings);
  if (return_tokens_ && results.size() == 1) json["tokens"] = results.front().tokens;
  return to_line(json);
}

}  // namespace kvkeep::server::api
