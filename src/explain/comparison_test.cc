#include "explain/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/test_seed.h"

namespace kvkeep::explain {
namespace {

using Tokens = std::vector<TokenId>;

Tokens fresh_tokens(std::size_t count, TokenId from) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = from + static_cast<TokenId>(i);
  return tokens;
}

Tokens joined(std::initializer_list<Tokens> parts) {
  Tokens all;
  for (const Tokens& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// True of every comparison: the runs are there, apart, ascending and as long as they can be.
void expect_true_runs(const Tokens& here, const Tokens& there, const Comparison& found) {
  std::size_t end = 0;
  std::size_t sum = 0;
  for (const CommonRun& run : found.runs) {
    ASSERT_GE(run.here, end);
    ASSERT_GE(run.size, kLeastRun);
    ASSERT_LE(run.here + run.size, here.size());
    ASSERT_LE(run.there + run.size, there.size());
    for (std::size_t i = 0; i < run.size; ++i) ASSERT_EQ(here[run.here + i], there[run.there + i]);
    const std::size_t after = run.here + run.size;
    const std::size_t known_after = run.there + run.size;
    ASSERT_TRUE(after == here.size() || known_after == there.size() || here[after] != there[known_after]);
    end = after;
    sum += run.size;
  }
  EXPECT_EQ(found.common, sum);
  EXPECT_LE(found.runs.size(), kMostRuns);
}

// The naive twin: the longest common subsequence made of stretches of kLeastRun tokens is no shorter than what was
// found in order.
std::size_t most_common(const Tokens& here, const Tokens& there) {
  std::vector<std::vector<std::size_t>> best(here.size() + 1, std::vector<std::size_t>(there.size() + 1, 0));
  for (std::size_t i = here.size(); i-- > 0;) {
    for (std::size_t j = there.size(); j-- > 0;) {
      best[i][j] = std::max(best[i + 1][j], best[i][j + 1]);
      std::size_t size = 0;
      while (i + size < here.size() && j + size < there.size() && here[i + size] == there[j + size]) ++size;
      for (std::size_t k = kLeastRun; k <= size; ++k) best[i][j] = std::max(best[i][j], k + best[i + k][j + k]);
    }
  }
  return best[0][0];
}

TEST(Comparison, OneChangedTokenLosesTheRest) {
  const Tokens rest = fresh_tokens(100'000, 10);
  const Comparison found = compare(joined({{1}, rest}), joined({{2}, rest}));
  EXPECT_EQ(found.runs, (std::vector<CommonRun>{{1, 1, 100'000}}));
  EXPECT_EQ(found.common, 100'000U);
  EXPECT_EQ(found.here_gap, 1U);
  EXPECT_EQ(found.there_gap, 1U);
  EXPECT_EQ(found.moved, 0U);
}

TEST(Comparison, TextPutInOrLeftOut) {
  const Tokens rest = fresh_tokens(500, 1000);
  const Tokens more = fresh_tokens(300, 5000);
  const Comparison put_in = compare(joined({more, rest}), rest);
  EXPECT_EQ(put_in.here_gap, 300U);
  EXPECT_EQ(put_in.there_gap, 0U);
  EXPECT_EQ(put_in.common, 500U);
  const Comparison left_out = compare(rest, joined({more, rest}));
  EXPECT_EQ(left_out.here_gap, 0U);
  EXPECT_EQ(left_out.there_gap, 300U);
  EXPECT_EQ(left_out.common, 500U);
}

TEST(Comparison, OtherOrderIsMoved) {
  const Tokens a = fresh_tokens(400, 1000);
  const Tokens b = fresh_tokens(700, 5000);
  const Tokens end = fresh_tokens(50, 9000);
  const Comparison found = compare(joined({a, b, end}), joined({b, a, end}));
  EXPECT_GE(found.moved, 390U);
  EXPECT_GE(found.common, 1100U);
  EXPECT_EQ(compare(joined({{1}, a, b}), joined({{2}, a, b})).moved, 0U);
}

// A phrase of the beginning that is found again far away must not make everything between look moved.
TEST(Comparison, APhraseFarAwayMovesItselfOnly) {
  const Tokens phrase = fresh_tokens(60, 100);
  const Tokens a = fresh_tokens(900, 1000);
  const Tokens b = fresh_tokens(700, 5000);
  const Comparison found =
      compare(joined({{1}, phrase, a, {3}, b}), joined({{2}, a, {4}, b, phrase, fresh_tokens(9, 9000)}));
  EXPECT_EQ(found.common, 1660U);
  EXPECT_EQ(found.moved, 60U);
  ASSERT_EQ(found.runs.size(), 3U);
  EXPECT_TRUE(found.runs[0].moved);
  EXPECT_FALSE(found.runs[1].moved);
  EXPECT_FALSE(found.runs[2].moved);
}

TEST(Comparison, NothingInCommon) {
  const Comparison found = compare(fresh_tokens(3000, 1), fresh_tokens(2000, 100'000));
  EXPECT_TRUE(found.runs.empty());
  EXPECT_EQ(found.common, 0U);
  EXPECT_EQ(found.here_gap, 3000U);
  EXPECT_EQ(found.there_gap, 2000U);
  EXPECT_EQ(compare({}, {}).common, 0U);
}

// Every pair of short runs over two letters: no run is wrong, none is longer than the twin's.
TEST(Comparison, AgreesWithTheTwinOnSmallRuns) {
  for (std::size_t length = 0; length <= 6; ++length) {
    for (std::uint32_t bits = 0; bits < (1U << (2 * length)); ++bits) {
      Tokens here{7};
      Tokens there{8};
      for (std::size_t i = 0; i < length; ++i) {
        here.insert(here.end(), 4, (bits >> (2 * i)) & 1U ? 1 : 2);
        there.insert(there.end(), 4, (bits >> (2 * i + 1)) & 1U ? 1 : 2);
      }
      const Comparison found = compare(here, there);
      expect_true_runs(here, there, found);
      if (found.moved == 0) {
        ASSERT_LE(found.common, most_common(here, there));
      }
    }
  }
}

// Long runs that are cut up: almost everything that stayed is found.
TEST(Comparison, FindsWhatStayed) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 60; ++round) {
    const auto number = [&](std::size_t below) {
      return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
    };
    Tokens here{1};
    Tokens there{2};
    std::size_t stayed = 0;
    TokenId next = 10;
    for (int part = 0; part < 12; ++part) {
      const Tokens same = fresh_tokens(100 + number(900), next);
      next += 2000;
      const Tokens mine = fresh_tokens(1 + number(200), next);
      next += 2000;
      const Tokens known = fresh_tokens(1 + number(200), next);
      next += 2000;
      here = joined({here, same, mine});
      there = joined({there, same, known});
      stayed += same.size();
    }
    const Comparison found = compare(here, there);
    expect_true_runs(here, there, found);
    EXPECT_EQ(found.common, stayed);
    EXPECT_EQ(found.moved, 0U);
  }
}

// ---- the nearest of several known runs ----

// The naive twin: how many of the prompt's stretches the known run has, each counted once.
std::size_t shared_stretches(const Tokens& here, const Tokens& known) {
  const auto stretches = [](const Tokens& tokens) {
    std::set<Tokens> found;
    for (std::size_t i = 0; i + kLeastRun <= tokens.size(); ++i) {
      found.emplace(tokens.begin() + static_cast<std::ptrdiff_t>(i),
                    tokens.begin() + static_cast<std::ptrdiff_t>(i + kLeastRun));
    }
    return found;
  };
  const std::set<Tokens> mine = stretches(here);
  return static_cast<std::size_t>(
      std::ranges::count_if(stretches(known), [&](const Tokens& stretch) { return mine.contains(stretch); }));
}

std::size_t chosen_of(const Tokens& here, const std::vector<Tokens>& known) {
  return most_alike(here, std::vector<TokenSpan>(known.begin(), known.end()));
}

TEST(MostAlike, IsTheRunWithMostOfThePrompt) {
  const Tokens rest = fresh_tokens(400, 100);
  const Tokens half(rest.begin(), rest.begin() + 200);
  const Tokens other = fresh_tokens(500, 9000);
  const Tokens here = joined({{1}, rest});
  EXPECT_EQ(chosen_of(here, {joined({{2}, half}), joined({{3}, rest}), other}), 1U);
  EXPECT_EQ(chosen_of(here, {other, joined({other, half, rest}), half}), 1U) << "wherever it is";
  EXPECT_EQ(chosen_of(here, {other, joined({{2}, rest}), joined({{3}, rest})}), 1U) << "of equal ones the first";
  EXPECT_EQ(chosen_of(here, {joined({half, half, half, half}), rest}), 1U) << "what comes again counts once";
  EXPECT_EQ(chosen_of(here, {other, fresh_tokens(500, 20'000)}), 0U) << "nothing in common";
  EXPECT_EQ(chosen_of({1, 2}, {other, rest}), 0U) << "too short for a stretch";
  EXPECT_EQ(chosen_of(here, {other}), 0U);
}

// Random texts of a few phrases: the chosen run has as many stretches as the twin's best.
TEST(MostAlike, AgreesWithTheTwin) {
  std::mt19937 random(test_seed());
  const auto text = [&] {
    Tokens made{static_cast<TokenId>(random() % 1000)};
    const std::size_t phrases = random() % 6;
    for (std::size_t i = 0; i < phrases; ++i)
      made = joined({made, fresh_tokens(4 + random() % 12, static_cast<TokenId>(2000 + 3 * (random() % 8)))});
    return made;
  };
  for (int round = 0; round < 500; ++round) {
    const Tokens here = text();
    std::vector<Tokens> known(1 + random() % kMostAlike);
    for (Tokens& one : known) one = text();
    std::size_t best = 0;
    for (std::size_t i = 1; i < known.size(); ++i) {
      if (shared_stretches(here, known[i]) > shared_stretches(here, known[best])) best = i;
    }
    ASSERT_EQ(chosen_of(here, known), here.size() < kLeastRun ? 0 : best) << "round " << round;
  }
}

// Of long texts a sample is enough: 200 more tokens in common decide.
TEST(MostAlike, SamplesLongTexts) {
  std::mt19937 random(test_seed());
  const auto words = [&](std::size_t count) {
    Tokens made(count);
    for (TokenId& token : made) token = static_cast<TokenId>(random() % 300);
    return made;
  };
  for (int round = 0; round < 20; ++round) {
    const Tokens first = words(3'000);
    const Tokens more = words(200);
    const Tokens here = joined({{1'000}, first, words(500), more, words(9'000)});
    const std::vector<Tokens> known{joined({words(20), first, words(9'000)}), joined({words(50), first, more}),
                                    words(20'000), joined({more, words(3'000)})};
    ASSERT_EQ(chosen_of(here, known), 1U) << "round " << round;
  }
}

TEST(OtherValues, AreCountedWhereAPromptHasItsOwn) {
  const auto prompt = [](TokenId value, TokenId before = 19) {
    std::vector<TokenId> tokens(60);
    std::iota(tokens.begin(), tokens.end(), 0);
    tokens[19] = before;
    tokens[20] = value;
    return tokens;
  };
  const auto mine = prompt(100);
  const auto one = prompt(200);
  const auto other = prompt(300);
  const auto elsewhere = prompt(400, 7);
  OtherValues values(mine, Position{20});
  values.add(mine);
  EXPECT_EQ(values.count(), 0U) << "its own";
  values.add(one);
  values.add(one);
  EXPECT_EQ(values.count(), 1U) << "each counts once";
  values.add(elsewhere);
  EXPECT_EQ(values.count(), 1U) << "after other text";
  values.add(TokenSpan(other).first(22));
  EXPECT_EQ(values.count(), 1U) << "a prompt that ends there";
  values.add(other);
  EXPECT_EQ(values.count(), 2U);
  OtherValues first(mine, Position{0});
  first.add(one);
  EXPECT_EQ(first.count(), 0U) << "the first token is the same";
}

}  // namespace
}  // namespace kvkeep::explain
