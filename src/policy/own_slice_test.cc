// The length of slices that nobody waits for: on machines whose times are known, where a token takes more time the
// longer the context is.

#include "policy/own_slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kvkeep::policy {
namespace {

// A machine that takes `call_ms` for each call, and `token_ms` for each token, twice as much at a depth of
// `doubles_at`.
struct Machine {
  double call_ms = 0;
  double token_ms = 1;
  double doubles_at = 1e12;
  double noise = 0;  // up to this share is added to a call's time, at random

  double takes(std::size_t begin, std::size_t tokens) {
    const double mean = static_cast<double>(begin) + static_cast<double>(tokens) / 2;
    const double ms = call_ms + static_cast<double>(tokens) * token_ms * (1 + mean / doubles_at);
    return ms * (1 + noise * std::uniform_real_distribution(0.0, 1.0)(random));
  }
  std::mt19937 random{20261127};
};

// Prefills a prompt from `begin` to `end`, as the scheduler does. Returns the time. `fixed`: the length of all slices.
class Prefill {
 public:
  explicit Prefill(const Machine& machine, std::size_t fixed = 0) : machine_(machine), fixed_(fixed) {}
  double prompt(std::size_t begin, std::size_t end) {
    ++number_;
    double sum = 0;
    while (begin < end) {
      const std::size_t most = fixed_ > 0 ? fixed_ : slices.tokens();
      const std::size_t left = end - begin;
      std::size_t tokens = std::min(most, left);
      if (left > most) tokens -= (64 - (left - most) % 64) % 64;
      const double ms = machine_.takes(begin, tokens);
      slices.note({.prompt = number_, .begin = Position{static_cast<std::uint32_t>(begin)}}, tokens, ms);
      sum += ms;
      begin += tokens;
    }
    return sum;
  }

  OwnSlice slices;

 private:
  Machine machine_;
  const std::size_t fixed_;
  std::uint64_t number_ = 0;
};

// The length that is used most in a long prompt, after others.
std::size_t settled(const Machine& machine, std::size_t depth = 0) {
  Prefill prefill(machine);
  (void)prefill.prompt(depth, depth + 30'000);
  std::vector<std::size_t> lengths;
  std::size_t at = 0;
  for (int i = 0; i < 64; ++i) {
    lengths.push_back(prefill.slices.tokens());
    prefill.slices.note({.prompt = 99, .begin = Position{static_cast<std::uint32_t>(at)}}, 64, 100);  // tells nothing
    at += 64;
  }
  std::ranges::sort(lengths);
  return lengths[32];
}

TEST(OwnSlice, IsLongerOnlyWhereThatIsFaster) {
  EXPECT_EQ(settled({.call_ms = 5}), 128U);
  EXPECT_EQ(settled({.call_ms = 100}), 1'024U) << "where each call reads all weights for long";
  EXPECT_EQ(settled({.call_ms = 100, .noise = 0.01}), 1'024U);
}

// The context grows while lengths are compared: without a call's own cost, no length is faster.
TEST(OwnSlice, AGrowingContextMakesNoDifference) {
  EXPECT_EQ(settled({.call_ms = 0, .doubles_at = 1'000}), 128U);
  EXPECT_EQ(settled({.call_ms = 5, .doubles_at = 300}), 128U);
  EXPECT_GE(settled({.call_ms = 100, .doubles_at = 10'000}), 512U);
}

TEST(OwnSlice, ShortPromptsAndLongOnesAreNotCompared) {
  // The first prompts teach little at no depth, and the next ones the wrong thing at a depth of 20,000.
  const Machine machine{.call_ms = 100, .doubles_at = 10'000};
  const auto all = [&](std::size_t fixed) {
    Prefill prefill(machine, fixed);
    double ms = 0;
    for (int i = 0; i < 4; ++i) ms += prefill.prompt(0, 600);
    for (int i = 0; i < 4; ++i) ms += prefill.prompt(20'000, 21'500);
    for (int i = 0; i < 20; ++i) ms += prefill.prompt(0, 4'000);
    return ms;
  };
  EXPECT_GT(all(128), 1.3 * all(1'024)) << "the lengths make a difference";
  EXPECT_LT(all(0), 1.15 * all(1'024));
}

TEST(OwnSlice, SlicesOfOtherPromptsAreNoNeighbours) {
  OwnSlice slices;
  for (std::uint64_t i = 0; i < 20; ++i) {  // shorter ones deep in a prompt, longer ones at another's beginning
    const std::size_t tokens = slices.tokens();
    const bool is_longer = tokens > kLeastOwnSlice;
    slices.note({.prompt = i, .begin = Position{is_longer ? 0U : 20'000U}}, tokens,
                static_cast<double>(tokens) * (is_longer ? 1 : 3));
    ASSERT_LE(slices.tokens(), 256U);
  }
}

TEST(OwnSlice, OneColdPromptIsEnough) {
  Prefill prefill({.call_ms = 100, .doubles_at = 10'000});
  (void)prefill.prompt(0, 8'000);
  EXPECT_GE(prefill.slices.tokens(), 512U);
}

TEST(OwnSlice, ABadMomentIsForgotten) {
  Prefill prefill({.call_ms = 100});
  std::size_t at = 0;
  for (int i = 0; i < 10; ++i) {  // longer slices happen to take ten times as long
    const std::size_t tokens = prefill.slices.tokens();
    prefill.slices.note({.prompt = 7, .begin = Position{static_cast<std::uint32_t>(at)}}, tokens,
                        tokens > kLeastOwnSlice ? 10'000 : 100);
    at += tokens;
  }
  EXPECT_EQ(prefill.slices.tokens(), kLeastOwnSlice);
  (void)prefill.prompt(0, 30'000);
  EXPECT_GE(prefill.slices.tokens(), 512U);
}

TEST(OwnSlice, BecomesShorterWhereLongerOnesPayNoMore) {
  Prefill prefill({.call_ms = 100});
  (void)prefill.prompt(0, 30'000);
  Prefill other({.call_ms = 1});
  other.slices = prefill.slices;
  for (int i = 0; i < 40; ++i) (void)other.prompt(0, 8'000);
  std::size_t longest = 0;
  for (int i = 0; i < 3; ++i) {
    (void)other.prompt(0, 2'000);
    longest = std::max(longest, other.slices.tokens());
  }
  EXPECT_LE(longest, 256U);
}

// The remainder of each prompt, and slices as long as others may wait, tell nothing of the two lengths.
TEST(OwnSlice, ATrialEndsThoughPromptsAreTooShort) {
  OwnSlice slices;
  for (std::uint64_t i = 0; i < 200; ++i) {
    slices.note({.prompt = i, .begin = {}}, 128, 228);
    ASSERT_LE(slices.tokens(), 256U);
  }
}

TEST(OwnSlice, IsTriedFromTheLengthThatOthersMayWaitFor) {
  OwnSlice slices;
  Machine machine{.call_ms = 100, .token_ms = 0.25};
  std::size_t at = 0;
  for (int i = 0; i < 60; ++i) {
    const std::size_t tokens = std::max<std::size_t>(192, slices.tokens());
    slices.note({.prompt = 1, .begin = Position{static_cast<std::uint32_t>(at)}}, tokens, machine.takes(at, tokens));
    at += tokens;
  }
  EXPECT_GE(slices.tokens(), 1'024U);
}

}  // namespace
}  // namespace kvkeep::policy
