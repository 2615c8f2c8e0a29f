#pragma once

// Replies of /v1/messages.
//
// Stream: message_start, ping, then for each part of the reply content_block_start, content_block_delta...,
// content_block_stop, then message_delta and message_stop; each with its `event:` line and its `type`. Clients drop a
// call whose block was not stopped, and repeat the whole request if the first event is missing.
//
// Three counts that do not overlap make up the prompt: cache_read_input_tokens were reused; of the rest, what is there
// for later requests is cache_creation_input_tokens where the request marked anything with cache_control, and
// input_tokens is what remains, at least the one token that is always computed for its logits. Without a mark all that
// was computed is input_tokens. `timings` is llama-server's, in message_delta or the whole message.

#include <string>
#include <string_view>

#include "base/hash.h"
#include "server/api/anthropic/cache_control.h"
#include "server/api/reply.h"

namespace kvkeep::server::api {

// Goes with reasoning that is returned, as clients expect one and send it back. It names the text and is never checked:
// reasoning of other servers, and reasoning that was shortened, is read like any text.
std::string thinking_signature(std::string_view thinking);

class AnthropicReplyWriter final : public ReplyWriter {
 public:
  AnthropicReplyWriter(ReplyHeader header, std::string request_id, const GenerationRequest& request,
                       CacheLifetime cache);
  std::string first(const ReplyStart& start) override;
  // A ping that carries prompt_progress.
  std::string progress(const PrefillProgress& progress) override;
  std::string delta(const Delta& delta) override;
  std::string finish(const GenerationResult& result) override;
  std::string whole(const GenerationResult& result) override;

  ErrorReply error(const Error& error) const override;
  ErrorReply context_exceeded(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens) const override;
  std::string stream_error(const ErrorReply& reply) const override;

 private:
  enum class Open { kNothing, kText, kThinking, kCall };

  Json message(Json content, Json stop_reason, Json stop_sequence, Json counts) const;
  Json usage(std::size_t prompt_tokens, std::size_t cached_tokens, std::size_t output_tokens) const;
  // content_block_start of a block that is not open yet, after the end of the one that is.
  std::string open(Open kind, Json block);
  std::string close();
  std::string block_delta(Json content, const Timings* timings) const;

  const ReplyHeader header_;
  const std::string request_id_;
  const CacheLifetime cache_;
  const bool timings_per_token_;
  Open open_ = Open::kNothing;
  std::size_t blocks_ = 0;  // opened so far
  ByteHasher thinking_;     // of the open block
};

}  // namespace kvkeep::server::api
