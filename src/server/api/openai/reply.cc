#include "server/api/openai/reply.h"

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
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

// Scores of a prompt, if the reply repeats it, and of the tokens after it.
struct TextScores {
  ScoreList of_prompt = {};
  ScoreList of_reply = {};
  std::size_t reply_offset = 0;  // bytes of text before the reply's first token

  std::size_t size() const { return of_prompt.size + of_reply.size; }
  TokenScore at(std::size_t number) const {
    return number < of_prompt.size ? of_prompt.at(number) : of_reply.at(number - of_prompt.size);
  }
};

Json likeliest_by_text(const TokenScore& score) {
  if (std::isnan(score.logprob)) return nullptr;
  Json by_token = Json::object();
  for (const TokenScore& one : score.likeliest) by_token[one.text] = shown_logprob(one.logprob);
  return by_token;
}

// llama-server's list as "content", and OpenAI's lists.
void add_logprobs(JsonPieces& pieces, TextScores given, ScoreKind kind) {
  const auto scores = std::make_shared<const TextScores>(std::move(given));
  const auto add = [&](std::string before, auto element) {
    pieces.add(std::move(before));
    pieces.add_list(scores->size(), [scores, element](std::size_t number) mutable {
      return Json(element(scores->at(number), number));
    });
  };
  add("{\"content\":", [kind](const TokenScore& score, std::size_t) { return score_json(score, kind); });
  add(",\"tokens\":", [](const TokenScore& score, std::size_t) { return score.text; });
  add(",\"token_logprobs\":", [](const TokenScore& score, std::size_t) { return shown_logprob(score.logprob); });
  add(",\"top_logprobs\":", [](const TokenScore& score, std::size_t) { return likeliest_by_text(score); });
  add(",\"text_offset\":", [next = std::size_t{0}, at = scores->of_prompt.size, offset = scores->reply_offset](
                               const TokenScore& score, std::size_t number) mutable {
    if (number == at) next = offset;
    return std::exchange(next, next + score.text.size());
  });
  pieces.add("}");
}

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
    json["choices"][0]["logprobs"] = {{"content", Json::array({score_json(*delta.score, score_kind_)})}};
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

JsonPieces ChatReplyWriter::whole_of_all(std::vector<GenerationResult> results) {
  const auto all = std::make_shared<const std::vector<GenerationResult>>(std::move(results));
  JsonPieces pieces;
  for (const GenerationResult& result : *all) {
    const bool is_first = &result == &all->front();
    pieces.add([all, &result, is_first] {
      const Json one = {
          {"finish_reason", to_string(result.finish)}, {"index", result.choice}, {"message", message_json(result)}};
      return members(one, is_first ? "{\"choices\":[{" : ",{");
    });
    if (shows_scores_) {
      pieces.add(",\"logprobs\":{\"content\":");
      add_scores(pieces, result.scores, score_kind_);
      pieces.add("}");
    }
    if (return_tokens_ && all->size() > 1)
      pieces.add([all, &result] { return members({{"tokens", result.tokens}}, ","); });
    pieces.add("}");
  }
  pieces.add([this, all] {
    const GenerationResult& first = all->front();
    Json rest = {
        {"created", header_.created_s},
        {"model", header_.model},
        {"system_fingerprint", header_.system_fingerprint},
        {"object", "chat.completion"},
        {"usage", usage_json(first)},
        {"id", header_.id},
        {"timings", timings_json(first.timings)},
    };
    if (return_tokens_ && all->size() == 1) rest["tokens"] = first.tokens;
    return members(rest, "],", "}");
  });
  return pieces;
}

// A choice as a reply, or one of its events, shows it.
struct CompletionReplyWriter::Choice {
  std::size_t index = 0;
  std::function<std::string()> text = {};  // null: none
  Json finish_reason = nullptr;
  std::optional<TextScores> scores = {};
  Json rest = Json::object();  // more members
};

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

Json CompletionReplyWriter::body() const {
  return {
      {"created", header_.created_s}, {"model", header_.model}, {"system_fingerprint", header_.system_fingerprint},
      {"object", "text_completion"},  {"id", header_.id},
  };
}

void CompletionReplyWriter::add_choice(JsonPieces& pieces, Choice choice) const {
  pieces.add([index = choice.index, text = std::move(choice.text)] {
    return members({{"text", text ? text() : ""}, {"index", index}}, "{", ",\"logprobs\":");
  });
  choice.scores ? add_logprobs(pieces, *std::move(choice.scores), score_kind_) : pieces.add("null");
  Json last = {{"finish_reason", std::move(choice.finish_reason)}};
  last.update(choice.rest);
  pieces.add([last = std::move(last)] { return members(last, ",", "}"); });
}

std::string CompletionReplyWriter::event(Choice choice, const Json& rest) const {
  JsonPieces pieces;
  pieces.add("data: {\"choices\":[");
  add_choice(pieces, std::move(choice));
  Json last = body();
  last.update(rest);
  pieces.add(members(last, "],", "}\n\n"));
  return pieces.rest();
}

// A chunk opens the reply only if the prompt is repeated.
std::string CompletionReplyWriter::first(const ReplyStart& start) {
  const std::string& prompt = echoed(start.choice);
  if (prompt.empty()) return {};
  Choice choice{.index = start.choice, .text = [&prompt] { return prompt; }};
  if (start.prompt_scores.size > 0) choice.scores = {.of_prompt = start.prompt_scores};
  return event(std::move(choice), Json::object());
}

std::string CompletionReplyWriter::progress(const PrefillProgress& progress) {
  return event({.index = progress.choice}, {{"prompt_progress", progress_json(progress)}});
}

std::string CompletionReplyWriter::delta(const Delta& delta) {
  Choice choice{.index = delta.choice, .text = [&delta] { return std::string(delta.text); }};
  if (delta.score != nullptr) {
    std::size_t& text_bytes = text_bytes_.at(delta.choice);
    choice.scores = {.of_reply = {.size = 1, .at = [&delta](std::size_t) { return *delta.score; }},
                     .reply_offset = text_bytes};
    text_bytes += delta.score->text.size();
  }
  Json rest = Json::object();
  if (return_tokens_) rest["tokens"] = delta.tokens;
  if (timings_per_token_ && delta.timings != nullptr) rest["timings"] = timings_json(*delta.timings);
  return event(std::move(choice), rest);
}

std::string CompletionReplyWriter::end_choice(const GenerationResult& result) {
  return event({.index = result.choice, .finish_reason = to_string(result.finish)},
               {{"timings", timings_json(result.timings)}});
}

std::string CompletionReplyWriter::finish(const GenerationResult& result) {
  return event({.index = result.choice, .finish_reason = to_string(result.finish)},
               {{"usage", usage_json(result)}, {"timings", timings_json(result.timings)}})
      .append(sse_done());
}

JsonPieces CompletionReplyWriter::whole_of_all(std::vector<GenerationResult> results) {
  const auto all = std::make_shared<const std::vector<GenerationResult>>(std::move(results));
  JsonPieces pieces;
  for (const GenerationResult& result : *all) {
    const std::string& prompt = echoed(result.choice);
    Choice choice{.index = result.choice,
                  .text = [all, &result, &prompt] { return prompt + joined_text(result.content, PartKind::kText); },
                  .finish_reason = to_string(result.finish)};
    if (shows_scores_) {
      choice.scores = {.of_prompt = result.prompt_scores, .of_reply = result.scores, .reply_offset = prompt.size()};
    }
    if (return_tokens_ && all->size() > 1) choice.rest["tokens"] = result.tokens;
    pieces.add(&result == &all->front() ? "{\"choices\":[" : ",");
    add_choice(pieces, std::move(choice));
  }
  pieces.add([this, all] {
    const GenerationResult& first = all->front();
    Json rest = body();
    rest["usage"] = usage_json(first);
    rest["timings"] = timings_json(first.timings);
    if (return_tokens_ && all->size() == 1) rest["tokens"] = first.tokens;
    return members(rest, "],", "}");
  });
  return pieces;
}

}  // namespace kvkeep::server::api
