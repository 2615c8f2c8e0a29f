#include "server/routes/choice.h"

#include <gtest/gtest.h>

#include "chat/fake_vocabulary_test.h"
#include "server/routes/routes.h"

namespace kvkeep::server {
namespace {

using chat::tools::DeltaKind;

class ChoiceTest : public testing::Test {
 protected:
  Choice choice(Delivery delivery) {
    return {3, delivery, NextRequest(service_, "id", std::nullopt, {}, /*remembered=*/false, kNoTenant)};
  }

  static TokenEvent sampled_event(TokenId token, DeltaKind kind, const std::string& text) {
    return {.token = token,
            .deltas = {{.kind = kind, .text = text}},
            .stats = {.prompt_tokens = 9, .cached_tokens = 4, .waits = {}}};
  }

  Service service_;
  const std::shared_ptr<const Vocabulary> vocabulary_ = std::make_shared<chat::FakeVocabulary>();
};

TEST_F(ChoiceTest, CollectsAWholeReply) {
  Choice made = choice(Delivery::kWhole);
  made.add(sampled_event(5, DeltaKind::kReasoning, "hm"));
  made.add(sampled_event(6, DeltaKind::kText, "a"));
  made.end({.finish = Finish::kStop,
            .deltas = {{.text = "b"}},
            .stats = {.prompt_tokens = 9, .predicted_tokens = 2, .waits = {}}});
  EXPECT_TRUE(made.has_ended());
  EXPECT_EQ(made.start().cached_tokens, 4U);
  const api::GenerationResult result = made.take_result(vocabulary_);
  EXPECT_EQ(result.choice, 3U);
  EXPECT_EQ(result.tokens, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(api::joined_text(result.content, api::PartKind::kText), "ab");
  EXPECT_EQ(result.reasoning_tokens, 1U);
  EXPECT_EQ(result.timings.predicted_n, 2U);
}

TEST_F(ChoiceTest, KnowsWhereItsJobRunsNow) {
  Choice made = choice(Delivery::kWhole);
  made.add(sampled_event(5, DeltaKind::kText, "a"));
  EXPECT_FALSE(made.slot());
  TokenEvent placed = sampled_event(6, DeltaKind::kText, "b");
  placed.stats.place = 2;
  made.add(placed);
  EXPECT_EQ(made.slot(), 2U);
  made.end({.finish = Finish::kStop, .stats = placed.stats});
  EXPECT_EQ(made.take_result(vocabulary_).slot, 2U);
}

TEST_F(ChoiceTest, KeepsNothingOfAStream) {
  Choice made = choice(Delivery::kStreamed);
  made.add(sampled_event(6, DeltaKind::kText, "a"));
  made.end({.finish = Finish::kLength, .deltas = {{.text = "b"}}});
  const api::GenerationResult result = made.take_result(vocabulary_);
  EXPECT_TRUE(result.content.empty() && result.tokens.empty());
  EXPECT_EQ(result.finish, api::FinishReason::kLength);
}

TEST_F(ChoiceTest, ShowsScoresThatItKeptAsNumbers) {
  Choice made = choice(Delivery::kWhole);
  const TokenId letter = vocabulary_->tokenize_text("a").front();
  TokenEvent event = sampled_event(letter, DeltaKind::kText, "a");
  event.scores = {.chosen = {letter, -1}, .likeliest = {{letter, -1}}};
  made.add(event);
  made.end({.finish = Finish::kLength});
  const api::GenerationResult result = made.take_result(vocabulary_);
  ASSERT_EQ(result.scores.size, 1U);
  EXPECT_EQ(result.scores.at(0).text, "a");
  EXPECT_EQ(result.scores.at(0).likeliest.front().text, "a");
  EXPECT_EQ(result.prompt_scores.size, 0U);
}

TEST_F(ChoiceTest, IncompleteCallsAreNoCalls) {
  const auto finish_of = [&](Finish finish, std::size_t whole_calls) {
    Choice made = choice(Delivery::kWhole);
    made.end({.finish = finish, .call_count = 2, .whole_calls = whole_calls});
    return made.take_result(vocabulary_).finish;
  };
  EXPECT_EQ(finish_of(Finish::kStop, 1), api::FinishReason::kToolCalls);
  EXPECT_EQ(finish_of(Finish::kStop, 0), api::FinishReason::kStop);
  EXPECT_EQ(finish_of(Finish::kLength, 1), api::FinishReason::kLength);
}

}  // namespace
}  // namespace kvkeep::server
