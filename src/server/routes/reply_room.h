#pragma once

// How much memory the replies to a request may take, which is settled before it runs: some fields multiply. Pure.
//
// The probabilities of a reply that is not streamed are kept until its end, as numbers, and count in the budget of
// replies (ResponseWriter::note_kept); those of a prompt are kept until its reply begins. Each reply has a sampler, and
// all replies to a prompt draw their first token at once, so that all samplers are there at a time.

#include <cstddef>
#include <optional>

#include "base/result.h"
#include "engine/sampling.h"

namespace kvkeep::server {

// Of probabilities that one reply may keep, as of bytes that it may have unread.
inline constexpr std::size_t kMostKeptBytes = 64 << 20;
// Of the samplers of one request.
inline constexpr std::size_t kMostSamplerBytes = 256 << 20;

// The bytes that the probabilities of one token take, with so many of the likeliest.
constexpr std::size_t kept_bytes(std::size_t likeliest) { return 64 + 8 * likeliest; }

// The prompts of a request that answers them in one reply.
class ReplyRoom {
 public:
  // `scored`: the likeliest tokens that are named with each; empty: no probabilities.
  ReplyRoom(std::optional<std::size_t> scored, bool score_prompt, bool stream)
      : scored_(scored), score_prompt_(score_prompt), stream_(stream) {}

  // A prompt, and `replies` to it of so many tokens at most. kInvalid if that is too much with the prompts before.
  Status add(std::size_t prompt_tokens, std::size_t replies, std::size_t reply_tokens);

 private:
  const std::optional<std::size_t> scored_;
  const bool score_prompt_;
  const bool stream_;
  std::size_t kept_ = 0;
};

// kInvalid if so many samplers with these settings take too much.
Status check_samplers(const engine::SamplingParams& sampling, std::size_t replies, std::size_t context_tokens);

}  // namespace kvkeep::server
