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
