#pragma once

// Replies of /v1/completions, field for field as llama-server writes them. The last chunk always has usage. Deltas and
// parts are text only: completions are not searched for calls or thinking.

#include "server/api/reply.h"

namespace kvkeep::server::api {

class CompletionReplyWriter : public ReplyWriter {
 public:
  CompletionReplyWriter(ReplyHeader header, const GenerationRequest& request);
  std::string first(const ReplyStart& /*start*/) override { return {}; }  // this dialect has no opening chunk
  std::string progress(const PrefillProgress& progress) override;
  std::string delta(const Delta& delta) override;
  std::string finish(const GenerationResult& result) override;
  std::string whole(const GenerationResult& result) override;

 private:
  Json body(std::string_view text, Json finish_reason) const;
  Json final_body(std::string_view text, const GenerationResult& result) const;

  const ReplyHeader header_;
  const bool timings_per_token_;
  const bool return_tokens_;
};

}  // namespace kvkeep::server::api
