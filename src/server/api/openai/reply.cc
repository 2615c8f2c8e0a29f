#include "server/api/openai/reply.h"

#include <span>
#include <string>
#include <utility>

namespace kvkeep::server::api {
namespace {

Json choice(Json delta, Json finish_reason = nullptr) {
  Json one = {{"finish_reason", std::move(finish_reason)}, {"index", 0}, {"delta", std::move(delta)}};
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

// llama-server's list as "content", and OpenAI's lists. `offset`: bytes of text before the first token.
Json completion_logprobs(std::span<const TokenScore> scores, std::size_t offset) {
  Json json = {{"content", scores_json(scores)},
               {"tokens", Json::array()},
               {"token_logprobs", Json::array()},
               {"top_logprobs", Json::array()},
               {"text_offset", Json::array()}};
  for (const Json& one : json["content"]) {
    json["tokens"].push_back(one["token"]);
    json["token_logprobs"].push_back(one["logprob"]);
    Json likeliest = Json::object();
    for (const Json& other : one["top_logprobs"])
      likeliest[other["token"].get_ref<const std::string&>()] = other["logprob"];
    json["top_logprobs"].push_back(std::move(likeliest));
    json["text_offset"].push_back(offset);
    offset += one["bytes"].size();
  }
  return json;
}

}  // namespace

ChatReplyWriter::ChatReplyWriter(ReplyHeader header, const GenerationRequest& request)
    : header_(std::move(header)),
      include_usage_(request.include_usage),
      timings_per_token_(request.timings_per_token),
      return_tokens_(request.return_tokens),
      shows_scores_(request.scored_tokens.has_value()) {}

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

std::string ChatReplyWriter::first(const ReplyStart& /*start*/) { return sse(chunk(choice(role_delta()))); }

std::string ChatReplyWriter::progress(const PrefillProgress& progress) {
  Json json = chunk(choice(role_delta()));
  json["prompt_progress"] = progress_json(progress);
  return sse(json);
}

std::string ChatReplyWriter::delta(const Delta& delta) {
  const bool is_end = delta.kind == DeltaKind::kCallEnd && delta.call_is_whole;
  if (is_end && delta.tokens.empty() && delta.score == nullptr) return {};  // the next chunk says so
  Json json = chunk(choice(is_end ? Json::object() : content_delta(delta)));
  if (delta.score != nullptr) json["choices"][0]["logprobs"] = {{"content", scores_json({delta.score, 1})}};
  if (return_tokens_) json["tokens"] = delta.tokens;
  if (timings_per_token_ && delta.timings != nullptr) json["timings"] = timings_json(*delta.timings);
  return sse(json);
}

std::string ChatReplyWriter::finish(const GenerationResult& result) {
  Json last = chunk(choice(Json::object(), to_string(result.finish)));
  std::string bytes;
  if (include_usage_) {
    bytes = sse(last);
    last = chunk(Json::array());
    last["usage"] = usage_json(result);
  }
  last["timings"] = timings_json(result.timings);
  return bytes.append(sse(last)).append(sse_done());
}

std::string ChatReplyWriter::whole(const GenerationResult& result) {
  Json one = {{"finish_reason", to_string(result.finish)}, {"index", 0}, {"message", message_json(result)}};
  if (shows_scores_) one["logprobs"] = {{"content", scores_json(result.scores)}};
  Json json = {
      {"choices", Json::array({std::move(one)})},
      {"created", header_.created_s},
      {"model", header_.model},
      {"system_fingerprint", header_.system_fingerprint},
      {"object", "chat.completion"},
      {"usage", usage_json(result)},
      {"id", header_.id},
      {"timings", timings_json(result.timings)},
  };
  if (return_tokens_) json["tokens"] = result.tokens;
  return to_line(json);
}

CompletionReplyWriter::CompletionReplyWriter(ReplyHeader header, const GenerationRequest& request)
    : header_(std::move(header)),
      timings_per_token_(request.timings_per_token),
      return_tokens_(request.return_tokens),
      shows_scores_(request.scored_tokens.has_value()) {}

Json CompletionReplyWriter::body(std::string_view text, Json finish_reason, Json logprobs) const {
  Json choice = {
      {"text", text}, {"index", 0}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(finish_reason)}};
  return {
      {"choices", Json::array({std::move(choice)})},      {"created", header_.created_s}, {"model", header_.model},
      {"system_fingerprint", header_.system_fingerprint}, {"object", "text_completion"},  {"id", header_.id},
  };
}

Json CompletionReplyWriter::final_body(std::string_view text, const GenerationResult& result, Json logprobs) const {
  Json json = body(text, to_string(result.finish), std::move(logprobs));
  json["usage"] = usage_json(result);
  json["timings"] = timings_json(result.timings);
  return json;
}

std::string CompletionReplyWriter::progress(const PrefillProgress& progress) {
  Json json = body("", nullptr);
  json["prompt_progress"] = progress_json(progress);
  return sse(json);
}

std::string CompletionReplyWriter::delta(const Delta& delta) {
  Json logprobs;
  if (delta.score != nullptr) {
    logprobs = completion_logprobs({delta.score, 1}, text_bytes_);
    text_bytes_ += delta.score->text.size();
  }
  Json json = body(delta.text, nullptr, std::move(logprobs));
  if (return_tokens_) json["tokens"] = delta.tokens;
  if (timings_per_token_ && delta.timings != nullptr) json["timings"] = timings_json(*delta.timings);
  return sse(json);
}

std::string CompletionReplyWriter::finish(const GenerationResult& result) {
  return sse(final_body("", result)).append(sse_done());
}

std::string CompletionReplyWriter::whole(const GenerationResult& result) {
  Json logprobs;
  if (shows_scores_) logprobs = completion_logprobs(result.scores, 0);
  Json json = final_body(joined_text(result.content, PartKind::kText), result, std::move(logprobs));
  if (return_tokens_) json["tokens"] = result.tokens;
  return to_line(json);
}

}  // namespace kvkeep::server::api
