#pragma once

// Replies of /v1/messages.
//
// Stream: message_start, ping, then for each part of the reply content_block_start, content_block_delta...,
// content_block_stop, then message_delta and message_stop; each with its `event:` line and its `type`. Clients drop a
// call whose block was not stopped, and repeat the whole request if the first event is missing.
//
// Three counts that do not overlap add up to the prompt: cache_read_input_tokens were reused; if the request marked
// anything with cache_control, cache_creation_input_tokens are those that were computed and are kept for later
// requests; input_tokens is the rest, at least the one token that is always computed for its logits. Without a mark,
// input_tokens has all computed tokens. `timings` is llama-server's, in message_delta or the whole message.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "server/api/anthropic/request.h"
#include "server/api/errors.h"
#include "server/api/reply.h"

namespace kvkeep::server::api {

// Goes with returned reasoning, because clients expect a signature and send it back. It is a hash of the text and is
// never checked: reasoning of other servers, and shortened reasoning, is read like any text.
std::string thinking_signature(std::string_view thinking);

class AnthropicReplyWriter final : public ReplyWriter {
 public:
  AnthropicReplyWriter(ReplyHeader header, std::string request_id, const GenerationRequest& request,
                       CacheLifetime cache);
  std::string first(const ReplyStart& start) override;
  // A ping with prompt_progress.
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
  // Ends the open block, if there is one, and begins a block with content_block_start.
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

// Errors in the shape of the Messages API:
// {"type":"error","error":{"type":"invalid_request_error","message":"..."},"request_id":"req_..."}.

// Makes the error for a status of HTTP: 503 becomes 529 and 501 becomes 400, since the API has neither, and its clients
// decide by status whether to try again.
ErrorReply anthropic_error(int status, std::string_view message, std::string_view request_id);

// Status by kind: kInvalid and kUnsupported 400, kNotFound 404, kNoSpace 413, kBusy and kAborted 529, else 500.
ErrorReply anthropic_error_reply(const Error& error, std::string_view request_id);

// A 400 in the words that clients look for: from both numbers they know how much to leave out. `prompt_tokens` may be a
// lower bound, as long as it is at least context_tokens.
ErrorReply prompt_too_long_reply(std::size_t prompt_tokens, std::size_t context_tokens, std::string_view request_id);

// The same error inside a stream that has begun.
std::string anthropic_stream_error(const ErrorReply& reply);

}  // namespace kvkeep::server::api
