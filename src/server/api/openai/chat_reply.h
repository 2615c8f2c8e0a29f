#pragma once

// Replies of /v1/chat/completions, field for field as llama-server writes them.
//
// Stream: a chunk with the role, a chunk per piece of content, reasoning_content or tool_calls, a chunk with
// finish_reason, a chunk with usage if it was asked for, [DONE]. Clients loop for ever without a finish_reason, so that
// finish() always sends one; they fail on a call without index, or without an id in its first chunk.

#include "server/api/reply.h"

namespace kvkeep::server::api {

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
};

}  // namespace kvkeep::server::api
