#pragma once

// Replies of /v1/chat/completions and /v1/completions, field for field as llama-server writes them.

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
  std::string whole(const GenerationResult& result) override;

 private:
  Json chunk(Json choices) const;

  const ReplyHeader header_;
  const bool include_usage_;
  const bool timings_per_token_;
  const bool return_tokens_;
  const bool shows_scores_;
};

// The last chunk always has usage. Deltas and parts are text only: completions are not searched for calls or thinking.
// "logprobs" have llama-server's list and OpenAI's fields.
class CompletionReplyWriter : public ReplyWriter {
 public:
  CompletionReplyWriter(ReplyHeader header, const GenerationRequest& request);
  std::string first(const ReplyStart& /*start*/) override { return {}; }  // this dialect has no opening chunk
  std::string progress(const PrefillProgress& progress) override;
  std::string delta(const Delta& delta) override;
  std::string finish(const GenerationResult& result) override;
  std::string whole(const GenerationResult& result) override;

 private:
  Json body(std::string_view text, Json finish_reason, Json logprobs = nullptr) const;
  Json final_body(std::string_view text, const GenerationResult& result, Json logprobs = nullptr) const;

  const ReplyHeader header_;
  const bool timings_per_token_;
  const bool return_tokens_;
  const bool shows_scores_;
  std::size_t text_bytes_ = 0;  // of the scored tokens so far
};

}  // namespace kvkeep::server::api
