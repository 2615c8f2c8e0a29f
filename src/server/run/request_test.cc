// How much of a prompt a sampler sees: what penalties look back at, wherever the prompt's rows come from.

#include "server/run/request.h"

#include <gtest/gtest.h>

#include "engine/fake/fake_engine.h"
#include "engine/fake/fake_sampler.h"

namespace kvkeep::server {
namespace {

using engine::fake::FakeSampler;

std::vector<TokenId> counted_tokens(std::size_t count) {
  std::vector<TokenId> tokens;
  while (tokens.size() < count) tokens.push_back(static_cast<TokenId>(10 + tokens.size()));
  return tokens;
}

// Returns whether the sampler was shown the last `seen` of 300 tokens.
bool sees(const engine::SamplingParams& sampling, std::size_t seen) {
  engine::fake::FakeEngine engine{{}};
  const auto tokens = counted_tokens(300);
  Job job{.id = "1", .kind = "test", .prompt = tokens, .sampling = sampling};
  const auto request = make_request({.job = std::move(job), .replies = {nullptr}});
  EXPECT_TRUE(prepare_sampler(*request, engine).ok());
  FakeSampler expected(sampling);
  for (const TokenId token : TokenSpan(tokens).last(seen)) expected.accept(token);
  return static_cast<const FakeSampler&>(*request->sampler).influence() == expected.influence();
}

TEST(Request, IsNoLessKnownToALookUpWithoutTheCache) {
  Request request;
  request.note_known({.end = Position{100}, .points = {}, .runs = {}});
  request.note_known({.end = Position{4}, .points = {}, .runs = {}});
  EXPECT_EQ(request.known.end, Position{4}) << "cuts follow the last look-up";
  EXPECT_EQ(request.stats.known_tokens, 100U);
  request.reported = true;
  request.note_known({.end = Position{300}, .points = {}, .runs = {}});
  EXPECT_EQ(request.stats.known_tokens, 100U) << "as it was when its prefill began";
}

TEST(Request, SharesItsPromptUntilItsReplyBegins) {
  Job job{.id = "1", .kind = "test", .prompt = counted_tokens(300), .sampling = {}};
  const auto request = make_request({.job = std::move(job), .replies = {nullptr, nullptr}});
  EXPECT_EQ(request->effective.tokens.data(), request->job.prompt.data());
  EXPECT_EQ(request->stats.sent_tokens, 300U);
  EXPECT_EQ(request->branches.front()->stats.sent_tokens, 0U) << "a prompt counts once";
  note_sampled(*request, 7, 1);
  EXPECT_EQ(request->effective.tokens.size(), 301U);
  EXPECT_EQ(request->job.prompt, counted_tokens(300));
}

TEST(Request, TellsHowLongItWaitedOrPrefilledThoughItEndsEarly) {
  Request request;
  request.submitted_ns = 1'000'000;
  note_ended(request, 4'000'000);
  EXPECT_EQ(request.stats.queue_ms, 3);
  EXPECT_EQ(request.stats.prompt_ms, 0);
  note_started(request, 6'000'000);
  note_ended(request, 13'000'000);
  EXPECT_EQ(request.stats.queue_ms, 5);
  EXPECT_EQ(request.stats.prompt_ms, 7);
  request.first_token_ns = 13'000'000;
  note_ended(request, 20'000'000);
  EXPECT_EQ(request.stats.prompt_ms, 7) << "its prompt was done";
}

// A prompt of 100 tokens, of which 40 are reused and 60 were computed once.
const JobStats kBegun = {.prompt_tokens = 100, .cached_tokens = 40, .known_tokens = 60};

TEST(Request, PrefilledTokensAreUnseenOrComputedAgain) {
  Request request;
  request.stats = kBegun;
  const PrefilledTokens first = count_prefilled(request, /*held=*/70, 30);
  EXPECT_EQ(first.all, 30U);
  EXPECT_EQ(first.unseen, 10U);
  EXPECT_EQ(first.again, 20U);
  const PrefilledTokens last = count_prefilled(request, 100, 30);
  EXPECT_EQ(last.unseen, 30U);
  EXPECT_EQ(last.again, 0U);
  const PrefilledTokens resumed = count_prefilled(request, 105, 45);
  EXPECT_EQ(resumed.unseen, 0U) << "it was interrupted, and computes once more; 5 are of its reply";
  EXPECT_EQ(resumed.again, 45U);
  EXPECT_EQ(request.stats.prefilled_tokens, 105U);
}

std::shared_ptr<const FoundBreak> break_losing(explain::BreakKind kind, std::size_t lost_tokens) {
  auto found = std::make_shared<FoundBreak>();
  found->found = {.kind = kind, .lost_tokens = lost_tokens};
  return found;
}

TEST(Request, TextThatComesAgainAfterAChangeIsComputedAgain) {
  Request request;
  request.stats = kBegun;
  request.found_break = break_losing(explain::BreakKind::kVolatileText, 45);
  const PrefilledTokens first = count_prefilled(request, 80, 40);
  EXPECT_EQ(first.unseen, 20U) << "after this prefix";
  EXPECT_EQ(first.again, 40U);
  EXPECT_EQ(count_prefilled(request, 100, 20).again, 5U);
}

TEST(Request, NothingTellsWhatOnePastTheCacheComputesAgain) {
  Request request;
  request.stats = kBegun;
  request.found_break = break_losing(explain::BreakKind::kCacheOff, 60);
  EXPECT_EQ(count_prefilled(request, 100, 60).again, 20U) << "as far as its prefix is known";
}

TEST(Request, TheSamplerSeesWhatPenaltiesLookBackAt) {
  engine::SamplingParams sampling;
  sampling.presence_penalty = 1;
  EXPECT_TRUE(sees(sampling, 64));
  sampling.repeat_last_n = 100;
  EXPECT_TRUE(sees(sampling, 100));
  sampling.repeat_last_n = -1;
  EXPECT_TRUE(sees(sampling, 300));
}

TEST(Request, TheSamplerSeesWhatDrySearches) {
  engine::SamplingParams sampling;
  sampling.dry_penalty_last_n = 200;
  sampling.dry_multiplier = 1;
  EXPECT_TRUE(sees(sampling, 200));
  EXPECT_FALSE(sees(sampling, 64));
  sampling.repeat_last_n = 250;
  EXPECT_TRUE(sees(sampling, 250)) << "the longer one counts";
  sampling.dry_penalty_last_n = -1;
  EXPECT_TRUE(sees(sampling, 300));
}

}  // namespace
}  // namespace kvkeep::server
