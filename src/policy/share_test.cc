// Ends that can be guessed: every small prompt against a naive twin, and the limits on long ones; then the other
// decisions about the shared tier, as tables.

#include "policy/share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "policy/numbers_fixture.h"

namespace kvkeep::policy {
namespace {

using Guess = std::function<std::vector<Position>(std::size_t, Position, const PromptMarkers&)>;

// Asks of each position by itself whether a publisher can have chosen it.
bool is_probable(std::size_t where, std::size_t prompt_tokens, const PromptMarkers& markers) {
  if (where % 128 == 0 || where == 32 || where == 256) return true;
  if (where == prompt_tokens || where + 1 == prompt_tokens) return true;
  const std::size_t reply = markers.generation_prompt ? markers.generation_prompt->value() : prompt_tokens;
  if (where == reply) return true;
  const auto is_turn = [&](Position turn) { return turn.value() == where; };
  if (std::ranges::any_of(markers.user_turns, is_turn)) return true;
  for (const Position turn : markers.assistant_turns) {
    if (where == turn.value() || where == turn.value() + (prompt_tokens - reply)) return true;
  }
  return std::ranges::any_of(markers.message_ends, [&](Position end) {
    return where <= end.value() && end.value() <= where + 3 && where > 0;
  });
}

std::vector<Position> naive_ends(std::size_t prompt_tokens, Position known, const PromptMarkers& markers) {
  std::vector<Position> ends;
  for (std::size_t where = known.value() + 1; where <= prompt_tokens; ++where) {
    if (is_probable(where, prompt_tokens, markers)) ends.push_back(at(where));
  }
  return ends;
}

std::vector<Position> subset(std::size_t bits, std::size_t step) {
  std::vector<Position> chosen;
  for (std::size_t bit = 0; bit < 4; ++bit) {
    if ((bits >> bit & 1U) != 0) chosen.push_back(at(1 + bit * step));
  }
  return chosen;
}

// Empty if the guess keeps to the twin for all small prompts, and around the first ends of the grid.
std::string explore(const Guess& guess) {
  for (const std::size_t prompt_tokens : {1, 2, 7, 20, 31, 32, 33, 127, 128, 129, 260, 300}) {
    for (std::size_t bits = 0; bits < 256; ++bits) {
      PromptMarkers markers;
      markers.user_turns = subset(bits & 15U, 5);
      markers.message_ends = subset(bits >> 4U, 6);
      markers.assistant_turns = subset(bits >> 2U & 15U, 4);
      for (Position& place : markers.user_turns) place = std::min(place, at(prompt_tokens));
      for (Position& place : markers.message_ends) place = std::min(place, at(prompt_tokens));
      for (Position& place : markers.assistant_turns) place = std::min(place, at(prompt_tokens));
      if (bits % 3 == 0) markers.generation_prompt = at(prompt_tokens - prompt_tokens / 4);
      for (const std::size_t known : {std::size_t{0}, prompt_tokens / 3, prompt_tokens - 1, prompt_tokens}) {
        if (guess(prompt_tokens, at(known), markers) == naive_ends(prompt_tokens, at(known), markers)) continue;
        return "n " + std::to_string(prompt_tokens) + ", known " + std::to_string(known) + ", " + std::to_string(bits);
      }
    }
  }
  return "";
}

TEST(ProbableEnds, AreThoseOfTheTwin) { EXPECT_EQ(explore(probable_ends), ""); }

TEST(ProbableEnds, TheTwinCatchesMutants) {
  const auto changed = [](std::function<void(PromptMarkers&)> change) {
    return [change](std::size_t prompt_tokens, Position known, PromptMarkers markers) {
      change(markers);
      return probable_ends(prompt_tokens, known, markers);
    };
  };
  const std::vector<Guess> mutants{
      changed([](PromptMarkers& markers) { markers.user_turns.clear(); }),
      changed([](PromptMarkers& markers) { markers.assistant_turns.clear(); }),
      changed([](PromptMarkers& markers) { markers.message_ends.clear(); }),
      changed([](PromptMarkers& markers) { markers.generation_prompt.reset(); }),
      [](std::size_t prompt_tokens, Position, const PromptMarkers& markers) {
        return probable_ends(prompt_tokens, Position{}, markers);
      },
      [](std::size_t prompt_tokens, Position known, const PromptMarkers& markers) {
        auto ends = probable_ends(prompt_tokens, known, markers);
        if (!ends.empty()) ends.pop_back();
        return ends;
      },
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) EXPECT_NE(explore(mutants[i]), "") << "mutant " << i;
}

PromptMarkers many_turns(std::size_t prompt_tokens, std::size_t count) {
  PromptMarkers markers;
  for (std::size_t i = 1; i <= count; ++i) markers.message_ends.push_back(at(i * prompt_tokens / (count + 1)));
  return markers;
}

// The deepest ends say most: what they lead to names all that comes before.
TEST(ProbableEnds, AreBoundedForTheLongestPrompts) {
  for (const std::size_t prompt_tokens : {10'000, 32'768, 100'000, 1'000'000}) {
    for (const std::size_t known : {std::size_t{0}, prompt_tokens / 2}) {
      const PromptMarkers markers = many_turns(prompt_tokens, 2'000);
      const std::vector<Position> ends = probable_ends(prompt_tokens, at(known), markers);
      EXPECT_LE(ends.size(), kMostProbableEnds);
      EXPECT_TRUE(std::ranges::is_sorted(ends));
      EXPECT_EQ(std::ranges::adjacent_find(ends), ends.end());
      EXPECT_GT(ends.front(), at(known));
      EXPECT_EQ(ends.back(), at(prompt_tokens));
      EXPECT_TRUE(std::ranges::binary_search(ends, markers.message_ends.back()));
    }
  }
}

// Grids of servers with other limits are nested, so that a coarser guess still finds ends of a finer grid.
TEST(ProbableEnds, TheGridReachesTheEndInPowersOfTwo) {
  for (std::size_t prompt_tokens = 1; prompt_tokens < 300'000; prompt_tokens = prompt_tokens * 3 + 1) {
    const std::vector<Position> ends = probable_ends(prompt_tokens, {}, {});
    std::size_t step = 128;
    while (prompt_tokens / step >= kMostGridEnds) step *= 2;
    for (std::size_t where = step; where <= prompt_tokens; where += step) {
      ASSERT_TRUE(std::ranges::binary_search(ends, at(where))) << where << " of " << prompt_tokens;
    }
    ASSERT_LE(ends.size(), kMostGridEnds + 4);
  }
}

TEST(ShareGrid, IsTheLargestPowerOfTwoThatFits) {
  EXPECT_EQ(share_grid(2048), 2048U);
  EXPECT_EQ(share_grid(2047), 1024U);
  EXPECT_EQ(share_grid(513), 512U);
  EXPECT_EQ(share_grid(1), 1U);
  EXPECT_EQ(next_on_grid(at(0), 512), at(512));
  EXPECT_EQ(next_on_grid(at(511), 512), at(512));
  EXPECT_EQ(next_on_grid(at(512), 512), at(1024));
}

TEST(WorthSearching, OnlyWhereEnoughIsUnknown) {
  EXPECT_FALSE(worth_searching(255, {}));
  EXPECT_TRUE(worth_searching(256, {}));
  EXPECT_TRUE(worth_searching(256, at(192)));
  EXPECT_FALSE(worth_searching(1000, at(937)));
  EXPECT_TRUE(worth_searching(1000, at(936)));
}

TEST(Patience, GrowsWithThePrefillThatIsSaved) {
  EXPECT_DOUBLE_EQ(search_patience_ms(1000, {}), 400) << "no rate is known";
  EXPECT_DOUBLE_EQ(search_patience_ms(1000, {.prefill_tokens_per_s = 500}), 100);
  EXPECT_DOUBLE_EQ(search_patience_ms(256, {.prefill_tokens_per_s = 1e6}), 5);
  EXPECT_DOUBLE_EQ(search_patience_ms(100'000, {.prefill_tokens_per_s = 10}), 400);
  EXPECT_DOUBLE_EQ(read_patience_ms(1000, {}), 2'000);
  EXPECT_DOUBLE_EQ(read_patience_ms(1000, {.prefill_tokens_per_s = 500}), 1'000);
  EXPECT_DOUBLE_EQ(read_patience_ms(10, {.prefill_tokens_per_s = 500}), 50);
}

TEST(Patience, IsMeasuredInWholeLookUps) {
  EXPECT_DOUBLE_EQ(search_ms(0), 0) << "nothing is known yet";
  EXPECT_DOUBLE_EQ(search_ms(20), 60);
}

TEST(WorthPublishing, DeepOrWantedStateThatIsReadFasterThanPrefilled) {
  const ShareOffer deep{.end = at(256), .tokens = 100, .bytes = ByteCount{1000}};
  EXPECT_TRUE(worth_publishing(deep, 0, 0)) << "unknown rates speak for it";
  EXPECT_TRUE(worth_publishing(deep, 0, 1));
  EXPECT_TRUE(worth_publishing(deep, 1e9, 0));
  EXPECT_TRUE(worth_publishing(deep, 100, 1000)) << "a second either way";
  EXPECT_FALSE(worth_publishing(deep, 101, 1000));
  EXPECT_FALSE(worth_publishing(deep, 100, 999));
  ShareOffer shallow = deep;
  shallow.end = at(255);
  EXPECT_FALSE(worth_publishing(shallow, 0, 0));
  shallow.wanted_again = true;
  EXPECT_TRUE(worth_publishing(shallow, 0, 0));
}

}  // namespace
}  // namespace kvkeep::policy
