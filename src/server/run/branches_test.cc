// Several replies to one prompt: the prompt is computed once, in every class of memory and however few sequences there
// are, and each reply is the one that a request of its own would get.

#include "server/run/branches.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/fake/fake_text_fixture.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

using engine::MemoryClass;

constexpr std::size_t kReplyTokens = 8;

Job branching_job(std::vector<TokenId> prompt, std::uint32_t seed_of_first) {
  Job job;
  job.id = "job";
  job.kind = "completion";
  job.prompt = std::move(prompt);
  job.sampling.seed = seed_of_first;
  job.sampling.ignore_eos = true;
  job.max_tokens = kReplyTokens;
  return job;
}

struct Branching {
  std::vector<std::shared_ptr<JobSink>> sinks;
  std::vector<std::future<Reply>> replies;
};

Branching branching_sinks(std::size_t count) {
  Branching made;
  for (std::size_t i = 0; i < count; ++i) {
    auto sink = std::make_shared<CollectingSink>();
    made.replies.push_back(sink->future());
    made.sinks.push_back(std::move(sink));
  }
  return made;
}

std::vector<std::future<Reply>> submit_branching(World& world, Job job, std::size_t replies) {
  Branching made = branching_sinks(replies);
  EXPECT_TRUE(world.scheduler.submit({{std::move(job), std::move(made.sinks)}}).ok());
  return std::move(made.replies);
}

// `places`: so many begin where the prompt ends; without the cache the others prefill it again.
void expect_replies(World& world, const Job& job, std::vector<std::future<Reply>>& replies,
                    std::size_t places = SIZE_MAX) {
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const Reply reply = replies[i].get();
    engine::SamplingParams sampling = job.sampling;
    *sampling.seed += static_cast<std::uint32_t>(i);
    EXPECT_EQ(reply.tokens, world.engine.expected_text(job.prompt, kReplyTokens, sampling)) << "reply " << i;
    EXPECT_EQ(reply.finish, Finish::kLength);
    EXPECT_EQ(reply.stats.prompt_tokens, job.prompt.size());
    EXPECT_EQ(reply.stats.predicted_tokens, kReplyTokens);
    const bool shares = i > 0 && (job.cache_prompt || i < places);
    EXPECT_EQ(reply.stats.cached_tokens, shares ? job.prompt.size() : 0U) << "reply " << i;
  }
}

// Returns how many tokens the model must compute: the prompt once, and each sampled token but the last of each reply.
std::uint64_t least_computed(std::size_t prompt_tokens, std::size_t replies) {
  return prompt_tokens + replies * (kReplyTokens - 1);
}

// libllama takes the greatest number for the wish for any seed.
TEST(Branches, NoSeedIsTheWishForAny) {
  const auto seed_of = [](std::uint32_t first, std::size_t number) {
    Job job = branching_job({1, 2}, first);
    return make_branch(job, number, std::make_shared<CollectingSink>())->job.sampling.seed;
  };
  EXPECT_EQ(seed_of(7, 3), 10U);
  EXPECT_EQ(seed_of(UINT32_MAX - 2, 1), UINT32_MAX - 1);
  EXPECT_EQ(seed_of(UINT32_MAX - 1, 1), 0U);
  EXPECT_EQ(seed_of(UINT32_MAX - 1, 2), 1U);
}

struct BranchingCase {
  const char* name;
  MemoryClass memory_class;
  std::size_t replies;
  bool cache_prompt = true;
};

class BranchesTest : public testing::TestWithParam<BranchingCase> {};

TEST_P(BranchesTest, ThePromptIsComputedOnce) {
  const BranchingCase& shape = GetParam();
  World world(WorldOptions{.fake = {.memory_class = shape.memory_class}, .scheduler = {.parallel = 3}});
  std::mt19937 random(seed());
  Job job = branching_job(random_tokens(random, 300), 7);
  job.cache_prompt = shape.cache_prompt;
  auto replies = submit_branching(world, job, shape.replies);
  world.start();
  expect_replies(world, job, replies);
  EXPECT_EQ(world.engine.tokens_decoded(), least_computed(300, shape.replies));
}

// Three run at a time; the others start where the prompt ends.
INSTANTIATE_TEST_SUITE_P(Shapes, BranchesTest,
                         testing::Values(BranchingCase{"Two", MemoryClass::kSliceable, 2},
                                         BranchingCase{"Eight", MemoryClass::kSliceable, 8},
                                         BranchingCase{"Windowed", MemoryClass::kWindowed, 8},
                                         BranchingCase{"Hybrid", MemoryClass::kHybrid, 8},
                                         BranchingCase{"Recurrent", MemoryClass::kRecurrent, 8},
                                         BranchingCase{"Opaque", MemoryClass::kOpaque, 8},
                                         BranchingCase{"Uncached", MemoryClass::kUncached, 3},
                                         BranchingCase{"CacheOff", MemoryClass::kSliceable, 3, false}),
                         [](const auto& shape) { return shape.param.name; });

TEST(Branches, WithoutTheCacheThoseThatWaitComputeThePromptAnew) {
  World world(WorldOptions{.scheduler = {.parallel = 2}});
  std::mt19937 random(seed());
  Job job = branching_job(random_tokens(random, 100), 7);
  job.cache_prompt = false;
  auto replies = submit_branching(world, job, 3);
  world.start();
  expect_replies(world, job, replies, 2);
}

TEST(Branches, OneThatWaitsReportsItsOwnStart) {
  World world(WorldOptions{.scheduler = {.parallel = 1}});
  std::mt19937 random(seed());
  Job job = branching_job(random_tokens(random, 100), 7);
  for (const bool cache_prompt : {false, true}) {
    job.cache_prompt = cache_prompt;
    auto replies = submit_branching(world, job, 2);
    if (!cache_prompt) world.start();
    const JobStats first = replies[0].get().stats;
    const JobStats late = replies[1].get().stats;
    EXPECT_EQ(first.miss, cache_prompt ? MissReason::kNothingCached : MissReason::kCacheOff);
    EXPECT_EQ(late.miss, cache_prompt ? MissReason::kWholePrompt : MissReason::kCacheOff);
    EXPECT_EQ(late.cached_tokens, cache_prompt ? 100U : 0U);
    EXPECT_EQ(late.prefilled_tokens, late.prompt_tokens - late.cached_tokens + 1) << "and its first token";
    EXPECT_EQ(late.source, cache_prompt ? CacheSource::kMemoryToken : CacheSource::kNone);
  }
}

// Each reading of the clock takes a millisecond, so that the first reply takes hundreds.
TEST(Branches, WaitingIsNotPredicting) {
  SteppingClock clock;
  World world(WorldOptions{.scheduler = {.parallel = 1}, .clock = &clock});
  std::mt19937 random(seed());
  Job job = branching_job(random_tokens(random, 50), 7);
  job.max_tokens = 200;
  auto replies = submit_branching(world, job, 2);
  world.start();
  const JobStats first = replies[0].get().stats;
  const JobStats late = replies[1].get().stats;
  EXPECT_GT(first.predicted_ms, 200);
  EXPECT_LT(late.predicted_ms, 1.5 * first.predicted_ms);
  EXPECT_GT(late.waits.ended()[WaitCause::kPlace], 0.8 * first.predicted_ms);
  EXPECT_GT(late.queue_ms, 0.8 * first.predicted_ms);
  EXPECT_LT(late.prompt_ms, 0.5 * first.predicted_ms) << "from its own start";
}

TEST(Branches, HoldNoLargePartsOfTheirJob) {
  Job job = branching_job({1, 2, 3}, 5);
  job.sampling.logit_bias = {{1, 2.0F}};
  job.sampling.grammar.text = "root ::= [a-z]";
  job.sampling.temperature = 0.5F;
  job.markers.user_turns = {Position{1}};
  job.markers.beginning = Position{1};
  const auto branch = make_branch(job, 2, std::make_shared<CollectingSink>());
  EXPECT_TRUE(branch->job.prompt.empty());
  EXPECT_TRUE(branch->job.sampling.logit_bias.empty());
  EXPECT_TRUE(branch->job.sampling.grammar.text.empty());
  EXPECT_TRUE(branch->job.markers.user_turns.empty());
  EXPECT_EQ(branch->job.markers.beginning, Position{1});
  EXPECT_EQ(branch->job.sampling.temperature, 0.5F) << "monitors show it";
  EXPECT_EQ(branch->job.sampling.seed, 7U);
  EXPECT_EQ(job.prompt.size(), 3U);
  EXPECT_EQ(job.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(job.sampling.grammar.text, "root ::= [a-z]");
  EXPECT_EQ(job.sampling.seed, 5U);
  EXPECT_EQ(job.markers.user_turns.size(), 1U);
}

// Other requests decode between the rounds.
TEST(Branches, SamplersAreMadeAFewInEachRound) {
  FakeEngine engine(FakeOptions{});
  Branching made = branching_sinks(2 * kSamplersPerRound + 4);
  const auto request = make_request({branching_job({1, 2, 3}, 7), std::move(made.sinks)});
  const auto ready = [&] {
    return std::ranges::count_if(request->branches, [](const auto& branch) { return branch->sampler != nullptr; });
  };
  EXPECT_FALSE(*prepare_branches(*request, engine));
  EXPECT_EQ(ready(), kSamplersPerRound);
  EXPECT_FALSE(*prepare_branches(*request, engine));
  EXPECT_TRUE(*prepare_branches(*request, engine));
  EXPECT_EQ(ready(), 2 * kSamplersPerRound + 3);
  EXPECT_TRUE(*prepare_branches(*request, engine));
  EXPECT_EQ(request->job.sampling.seed, 7U) << "as before";
}

TEST(Branches, EndWithThePrompt) {
  World world;
  std::mt19937 random(seed());
  Job job = branching_job(random_tokens(random, 100), 7);
  job.max_tokens = 0;
  auto replies = submit_branching(world, job, 4);
  world.start();
  for (auto& future : replies) {
    const Reply reply = future.get();
    EXPECT_EQ(reply.finish, Finish::kLength);
    EXPECT_TRUE(reply.tokens.empty());
  }
  EXPECT_TRUE(world.scheduler.idle());
}

TEST(Branches, EndWhenTheServerStops) {
  World world;
  std::mt19937 random(seed());
  auto replies = submit_branching(world, branching_job(random_tokens(random, 100), 7), 4);
  world.scheduler.stop();
  world.start();
  for (auto& future : replies) EXPECT_EQ(future.get().finish, Finish::kError);
}

// Two prompts in one submission: all or none is taken.
TEST(Branches, SeveralPromptsAreTakenTogetherOrNotAtAll) {
  World world(WorldOptions{.scheduler = {.parallel = 2, .queue_limit = 3}});
  std::mt19937 random(seed());
  const Job first = branching_job(random_tokens(random, 50), 1);
  const Job second = branching_job(random_tokens(random, 60), 9);
  Branching of_first = branching_sinks(3);
  Branching of_second = branching_sinks(3);
  EXPECT_FALSE(world.scheduler.submit({{first, of_first.sinks}, {second, of_second.sinks}}).ok());
  of_second.sinks.pop_back();
  of_second.replies.pop_back();
  EXPECT_TRUE(world.scheduler.submit({{first, of_first.sinks}, {second, of_second.sinks}}).ok());
  world.start();
  expect_replies(world, first, of_first.replies);
  expect_replies(world, second, of_second.replies);
}

// One runs at a time: the others would wait for a place, and have all that they were asked for.
TEST(Branches, ThoseThatEndWithTheirFirstTokenDoNotWait) {
  World world(WorldOptions{.scheduler = {.parallel = 1}});
  std::mt19937 random(seed());
  Job job = branching_job(random_tokens(random, 50), 1);
  job.max_tokens = 1;
  auto replies = submit_branching(world, job, 3);
  world.start();
  for (auto& future : replies) EXPECT_EQ(future.get().tokens.size(), 1U);
  EXPECT_EQ(world.ask(random_tokens(random, 20), 3).tokens.size(), 3U);
  EXPECT_EQ(world.scheduler.stats().requests, 2U);
  EXPECT_TRUE(world.scheduler.idle());
}

// A client that needs an answer soon gets none rather than a late one, and the next request goes on from there.
TEST(Branches, ALimitOfTimeEndsThePrefill) {
  SteppingClock clock;
  World world(WorldOptions{.fake = {.batch_tokens = 64}, .clock = &clock});
  std::mt19937 random(seed());
  Job job = branching_job(random_tokens(random, 300), 7);
  job.longest_prefill_ms = 1;
  auto replies = submit_branching(world, job, 2);
  world.start();
  for (auto& future : replies) {
    const Reply reply = future.get();
    EXPECT_EQ(reply.finish, Finish::kLength);
    EXPECT_TRUE(reply.tokens.empty());
  }
  EXPECT_EQ(world.engine.tokens_decoded(), 44U) << "the first slice leaves four of 64";
  job.longest_prefill_ms = 0;
  EXPECT_EQ(submit_branching(world, job, 1).front().get().stats.cached_tokens, 44U);
}

// A reply that has begun and then waited for a place prefills again; by then more time than the limit has passed.
TEST(Branches, ALimitOfTimeCutsNoReplyThatHasBegun) {
  SteppingClock clock;
  World world(WorldOptions{.fake = {.batch_tokens = 64}, .scheduler = {.parallel = 1}, .clock = &clock});
  std::mt19937 random(seed());
  Job job = branching_job(random_tokens(random, 300), 7);
  job.cache_prompt = false;
  job.max_tokens = 600;
  job.longest_prefill_ms = 500;
  auto replies = submit_branching(world, job, 3);
  world.start();
  for (auto& future : replies) EXPECT_EQ(future.get().tokens.size(), 600U);
}

}  // namespace
}  // namespace kvkeep::server
