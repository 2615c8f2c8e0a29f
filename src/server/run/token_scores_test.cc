#include "server/run/token_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>

namespace kvkeep::server {
namespace {

TEST(TokenScores, AreLogarithmsOfProbabilities) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.2F), std::log(0.3F)};
  const TokenScores scores = score_token(logits, 1, 2);
  EXPECT_EQ(scores.chosen.id, 1);
  EXPECT_NEAR(std::exp(scores.chosen.logprob), 0.2, 1e-6);
  ASSERT_EQ(scores.likeliest.size(), 2U);
  EXPECT_EQ(scores.likeliest[0].id, 0);
  EXPECT_NEAR(std::exp(scores.likeliest[0].logprob), 0.5, 1e-6);
  EXPECT_EQ(scores.likeliest[1].id, 2);
}

TEST(TokenScores, OfEqualsTheLowestIdComesFirst) {
  const TokenScores scores = score_token(std::vector<float>{1, 2, 2, 1}, 3, 9);
  std::vector<TokenId> ids;
  for (const ScoredToken& one : scores.likeliest) ids.push_back(one.id);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 2, 0, 3})) << "all, if there are fewer than were asked for";
}

TEST(TokenScores, LargeLogitsDoNotOverflowAndForbiddenTokensHaveNone) {
  const float never = -std::numeric_limits<float>::infinity();
  const TokenScores scores = score_token(std::vector<float>{1e4F, never, 1e4F}, 0, 3);
  EXPECT_NEAR(scores.chosen.logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(scores.likeliest.back(), (ScoredToken{1, never}));
}

// Against sorting everything, and probabilities that are computed one by one.
TEST(TokenScores, AgreeWithANaiveTwin) {
  constexpr std::uint32_t kSeed = 20261123;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + random() % 60);
    for (float& logit : logits) logit = static_cast<float>(static_cast<int>(random() % 41) - 20) / 4;
    const auto chosen = static_cast<TokenId>(random() % logits.size());
    const std::size_t count = random() % 12;
    const TokenScores scores = score_token(logits, chosen, count);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const auto logprob = [&](TokenId id) { return logits[static_cast<std::size_t>(id)] - std::log(sum); };
    EXPECT_NEAR(scores.chosen.logprob, logprob(chosen), 1e-5);
    std::vector<std::pair<float, TokenId>> sorted;
    for (std::size_t id = 0; id < logits.size(); ++id) sorted.emplace_back(-logits[id], static_cast<TokenId>(id));
    std::ranges::sort(sorted);
    ASSERT_EQ(scores.likeliest.size(), std::min(count, logits.size()));
    for (std::size_t i = 0; i < scores.likeliest.size(); ++i) {
      EXPECT_EQ(scores.likeliest[i].id, sorted[i].second);
      EXPECT_NEAR(scores.likeliest[i].logprob, logprob(sorted[i].second), 1e-5);
    }
  }
}

}  // namespace
}  // namespace kvkeep::server
