#include "server/run/token_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <limits>
#include <random>
#include <utility>

#include "server/run/scheduler_test_fixture.h"

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

TEST(TokenScores, OfADrawAreItsProbabilities) {
  const std::vector<engine::Candidate> candidates = {{7, 0.5F}, {3, 0.25F}, {9, 0.25F}};
  const TokenScores scores = drawn_scores(candidates, 3, 2);
  EXPECT_NEAR(std::exp(scores.chosen.logprob), 0.25, 1e-6);
  ASSERT_EQ(scores.likeliest.size(), 2U);
  EXPECT_EQ(scores.likeliest[0].id, 7);
  EXPECT_EQ(drawn_scores({}, 3, 2).chosen, (ScoredToken{3, 0})) << "it was certain";
}

// Keeps the scores of the prompt.
class ScoredPromptSink final : public JobSink {
 public:
  void on_prefill(const JobStats&, std::size_t, double) override {}
  void on_prompt_scores(std::vector<TokenScores> scores) override {
    for (TokenScores& one : scores) told.push_back(std::move(one));
  }
  bool on_token(TokenId, const JobStats&) override { return true; }
  void on_done(Finish, const JobStats& stats, const std::optional<Error>&) override { done.set_value(stats); }
  bool gone() const override { return false; }

  std::vector<TokenScores> told;
  std::promise<JobStats> done;
};

TEST(PromptScores, EachTokenButTheFirstHasOneAlsoIfItIsCached) {
  World world(WorldOptions{.scheduler = {.parallel = 1}});
  world.start();
  std::mt19937 random(5);
  const std::vector<TokenId> prompt = random_tokens(random, 150);
  (void)world.ask(prompt, 4);
  const std::uint64_t before = world.engine.tokens_decoded();
  const auto sink = std::make_shared<ScoredPromptSink>();
  Job job;
  job.prompt = prompt;
  job.sampling = World::greedy();
  job.max_tokens = 2;
  job.scored_prompt = 3;
  ASSERT_TRUE(world.scheduler.submit(job, sink).ok());
  const JobStats stats = sink->done.get_future().get();
  EXPECT_EQ(world.engine.tokens_decoded() - before, prompt.size() + 1);
  EXPECT_EQ(stats.cached_tokens, 0U);
  EXPECT_EQ(stats.miss, MissReason::kPromptScored);
  ASSERT_EQ(sink->told.size(), prompt.size());
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    EXPECT_EQ(sink->told[i].chosen.id, prompt[i]);
    EXPECT_EQ(std::isnan(sink->told[i].chosen.logprob), i == 0);
    EXPECT_EQ(sink->told[i].likeliest.size(), i == 0 ? 0U : 3U);
  }
  EXPECT_GT(world.ask(prompt, 1).stats.cached_tokens, 100U) << "later requests use what it stored";
}

}  // namespace
}  // namespace kvkeep::server
