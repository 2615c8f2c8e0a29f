#pragma once

// Replies of /v1/chat/completions and /v1/completions, field for field as llama-server writes them.

#include <string>
#include <vector>

#include "server/api/reply.h"

namespace kvkeep::server::api {

// Stream: a chunk with the role, a chunk per piece of content, reasoning_content or tool_calls, a chunk with
// finish_reason, a chunk with usage if it was asked for, [DONE]. Clients loop for ever without a finish_reason, so that
// finish() always sends one; they fail on a call without index, or without an id in its first chunk.
class ChatReplyWriter : public ReplyWriter {
 public:
  ChatReplyWriter(ReplyHeader header, const GenerationRequest& request);
  std::string first(const ReplyStart& start) override;
  std::string progress(const PrefillProgress& progress) override;
  std::string delta(const Delta& delta) override;
  std::string finish(const GenerationResult& result) override;
  std::string end_choice(const GenerationResult& result) override;
  std::string whole(const GenerationResult& result) override { return whole_of_all({result}).rest(); }
  JsonPieces whole_of_all(std::vector<GenerationResult> results) override;

 private:
  Json chunk(Json choices) const;

  const ReplyHeader header_;
  const bool include_usage_;
  const bool timings_per_token_;
  const bool return_tokens_;
  const bool shows_scores_;
  const ScoreKind score_kind_;
};

// The last chunk always has usage; with `echo` the prompts' texts come first. Deltas and parts are text only:
// completions are not searched for calls or thinking. "logprobs" have llama-server's list and OpenAI's fields.
class CompletionReplyWriter : public ReplyWriter {
 public:
  // `echoed`: the text of each prompt; empty: the reply repeats none.
  CompletionReplyWriter(ReplyHeader header, const GenerationRequest& request, std::vector<std::string> echoed = {});
  std::string first(const ReplyStart& start) override;
  std::string progress(const PrefillProgress& progress) override;
  std::string delta(const Delta& delta) override;
  std::string finish(const GenerationResult& result) override;
  std::string end_choice(const GenerationResult& result) override;
  std::string whole(const GenerationResult& result) override { return whole_of_all({result}).rest(); }
  JsonPieces whole_of_all(std::vector<GenerationResult> results) override;

 private:
  const std::string& echoed(std::size_t choice) const;
  Json body() const;
  struct Choice;
  void add_choice(JsonPieces& pieces, Choice choice) const;
  std::string event(Choice choice, const Json& rest) const;

  const ReplyHeader header_;
  const bool timings_per_token_;
  const bool return_tokens_;
  const bool shows_scores_;
  const ScoreKind score_kind_;
  const std::size_t choices_per_prompt_;
  const std::vector<std::string> echoed_;
  std::vector<std::size_t> text_bytes_;  // of each choice: of the prompt and the scored tokens so far
};

}  // namespace kvkeep::server::api
