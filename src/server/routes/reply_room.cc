#include "server/routes/reply_room.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvkeep::server {
namespace {

// A probability as text, in the two lists of a completion.
constexpr std::size_t kTextBytes = 160;

Error too_many(std::size_t bytes, std::string_view what) {
  return invalid(
      fmt::format("'logprobs': the probabilities of {} could take {} MiB, and {} are possible: ask for fewer likeliest "
                  "tokens, for fewer or shorter replies ('n', 'max_tokens'), or for a stream",
                  what, (bytes >> 20) + 1, kMostKeptBytes >> 20));
}

// Tokens that a step looks back, as the engine reads them.
std::size_t look_back(std::int32_t tokens, std::size_t context_tokens) {
  return tokens < 0 ? context_tokens : std::min(static_cast<std::size_t>(tokens), context_tokens);
}

}  // namespace

Status ReplyRoom::add(std::size_t prompt_tokens, std::size_t replies, std::size_t reply_tokens) {
  if (!scored_) return {};
  const std::size_t of_token = kept_bytes(*scored_);
  if (score_prompt_) {
    kept_ += prompt_tokens * of_token;
    // A stream begins with one event that has all of them.
    const std::size_t text = prompt_tokens * (*scored_ + 1) * kTextBytes;
    if (stream_ && text > kMostKeptBytes) return too_many(text, "the prompt, in the first event of a stream,");
  }
  if (!stream_) kept_ += replies * reply_tokens * of_token;
  if (kept_ > kMostKeptBytes) return too_many(kept_, "all tokens");
  return {};
}

Status check_samplers(const engine::SamplingParams& sampling, std::size_t replies, std::size_t context_tokens) {
  constexpr std::size_t kOfGrammarByte = 16;  // libllama's rules, and the text
  constexpr std::size_t kOfBias = 24;
  constexpr std::size_t kOfPenalty = 8;
  constexpr std::size_t kOfDry = 8;
  std::size_t bytes = sampling.grammar.text.size() * kOfGrammarByte + sampling.logit_bias.size() * kOfBias +
                      look_back(sampling.repeat_last_n, context_tokens) * kOfPenalty;
  if (sampling.dry_multiplier != 0) bytes += look_back(sampling.dry_penalty_last_n, context_tokens) * kOfDry;
  if (replies == 1 || bytes * replies <= kMostSamplerBytes) return {};
  return invalid(
      fmt::format("the samplers of {} replies would take {} MiB, and {} are possible: ask for fewer replies ('n'), a "
                  "smaller grammar or 'logit_bias', or set 'repeat_last_n' and 'dry_penalty_last_n'",
                  replies, (bytes * replies >> 20) + 1, kMostSamplerBytes >> 20));
}

}  // namespace kvkeep::server
