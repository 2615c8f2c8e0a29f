#pragma once

// Replies of /v1/chat/completions, field for field as llama-server writes them.
//
// Stream: a chunk with the role, a chunk per text, a chunk with finish_reason, a chunk with usage if asked for, [DONE].
// Clients loop for ever without a finish_reason, so finish() always sends one.

#include "server/api/reply.h"

namespace kvkeep::server::api {

class ChatReplyWriter : public ReplyWriter {
 public:
  ChatReplyWriter(ReplyHeader header, const GenerationRequest& request);
  std::string first() const override;
  std::string progress(const PrefillProgress& progress) const override;
  std::string delta(const Delta& delta) const override;
  std::string finish(const GenerationResult& result) const override;
  std::string whole(const GenerationResult& result) const override;

 private:
  Json chunk(Json choices) const;

  const ReplyHeader header_;
  const bool include_usage_;
  const bool timings_per_token_;
  const bool return_tokens_;
};

}  // namespace kvkeep::server::api
