#pragma once

// Finds the stretches that two token runs share after their first difference.
//
// Rows after a difference cannot be reused, however much of the text is the same: this counts how much is, and finds
// where. Only the first kCompared tokens of each side are searched; a common run goes on beyond them. Cost: some
// nanoseconds for each searched token, and less for those in common runs.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace kvkeep::explain {

inline constexpr std::size_t kCompared = 1 << 15;
// Shorter runs are chance.
inline constexpr std::size_t kLeastRun = 8;
inline constexpr std::size_t kMostRuns = 64;

// Tokens that both sides have, by their offsets there.
struct CommonRun {
  std::uint32_t here = 0;
  std::uint32_t there = 0;
  std::uint32_t size = 0;
  bool moved = false;  // it does not belong to the longest text that comes in the same order on both sides
  bool operator==(const CommonRun&) const = default;
};

struct Comparison {
  std::vector<CommonRun> runs = {};  // ascending in `here`, apart; at least kLeastRun long
  std::size_t common = 0;            // tokens in the runs
  std::size_t moved = 0;             // of them, those in runs that moved
  // Tokens of each side before the first run, or all of them if there is no run.
  std::size_t here_gap = 0;
  std::size_t there_gap = 0;
};

// Both sides begin at a difference.
Comparison compare(TokenSpan here, TokenSpan there);

// At most so many known runs are compared with a prompt, and so many of their tokens together.
inline constexpr std::size_t kMostAlike = 8;
inline constexpr std::size_t kAlikeTokens = 2 * kCompared;

// Returns the number of the known run that has most in common with the prompt, both from their first difference on: the
// one that has most of the prompt's stretches of kLeastRun tokens, wherever they are; of a long prompt those are
// samples. Of equal ones the first. Preconditions: 1 to kMostAlike known runs. Cost: about a nanosecond for each token
// of kAlikeTokens at most; nothing for one known run.
std::size_t most_alike(TokenSpan here, std::span<const TokenSpan> known);
// So many tokens of each known run count.
constexpr std::size_t alike_tokens(std::size_t runs) {
  return runs * kCompared <= kAlikeTokens ? kCompared : kAlikeTokens / runs;
}

// Counts the texts that other prompts have where a prompt differs from a known one. A prompt counts if it has the same
// tokens just before that place; texts are told apart by their first tokens. Cost: some nanoseconds for each prompt.
class OtherValues {
 public:
  OtherValues(TokenSpan prompt, Position at);

  void add(TokenSpan other);
  std::size_t count() const { return values_.size(); }  // different ones, without the prompt's own

 private:
  const TokenSpan before_;
  const TokenSpan own_;
  const Position at_;
  std::vector<TokenSpan> values_;
};

}  // namespace kvkeep::explain
