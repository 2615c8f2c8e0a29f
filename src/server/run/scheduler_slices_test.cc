// The scheduler between two decode calls of a long prompt or reply: slices and captures.

#include "server/run/awaited_prefix.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

TEST(SchedulerSlices, APrefillNextToOthersIsCutIntoBusySlices) {
  World world({}, mebibytes(64), {.parallel = 2, .slice_ms = 1e-6});
  std::mt19937 random(32);
  const auto other = random_tokens(random, 300);
  std::future<Reply> beside;
  std::size_t decodes = 0;
  std::size_t longest = 0;
  world.engine.set_on_decode([&](std::span<const engine::BatchToken> batch) {
    if (++decodes == 5) beside = world.submit(other, 2);
    longest = std::max(longest, batch.size());
  });
  world.start();
  (void)world.ask(random_tokens(random, 8), 100);
  EXPECT_EQ(beside.get().tokens, world.expected(other, 2));
  EXPECT_EQ(longest, 64U) << "the least slice";
}

// A giant that was interrupted goes on where it was: each of its tokens is computed once.
TEST(SchedulerSlices, AShortPromptPassesALongOneThatLosesNothing) {
  World world({}, mebibytes(64), {.parallel = 2, .slice_ms = 1e-6});
  std::mt19937 random(35);
  const auto giant = random_tokens(random, 700);
  const auto small = random_tokens(random, 40);
  std::future<Reply> beside;
  std::size_t decodes = 0;
  std::size_t when_small_ended = 0;
  world.engine.set_on_decode([&](std::span<const engine::BatchToken>) {
    if (++decodes == 3) beside = world.submit(small, 1);
    if (beside.valid() && when_small_ended == 0 &&
        beside.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      when_small_ended = decodes;
    }
  });
  world.start();
  const Reply reply = world.ask(giant, 4);
  EXPECT_EQ(reply.tokens, world.expected(giant, 4));
  EXPECT_EQ(reply.stats.prefilled_tokens, giant.size());
  EXPECT_EQ(beside.get().tokens, world.expected(small, 1));
  EXPECT_LE(when_small_ended, 8U) << "two slices, the giant's at most one between them";
  EXPECT_GT(when_small_ended, 0U);
  EXPECT_GE(world.scheduler.stats().preemptions, 1U);
}

// Tokens of a prompt that takes minutes count when their call is done, and calls that were never made do not count.
TEST(SchedulerSlices, TokensCountAsTheyAreComputed) {
  World world({}, mebibytes(64), {.parallel = 1, .slice_ms = 1e-6});
  std::mt19937 random(38);
  auto sink = std::make_shared<CollectingSink>();
  std::future<Reply> reply = sink->future();
  std::vector<std::uint64_t> counted;
  std::vector<std::uint64_t> computed = {0};
  const auto in_all = [&] {
    const SchedulerStats stats = world.scheduler.stats();
    const auto& missed = stats.figures.missed[static_cast<std::size_t>(MissReason::kNothingCached)];
    EXPECT_EQ(missed.prompts, 1U);
    EXPECT_EQ(missed.tokens, stats.prefilled_tokens);
    EXPECT_EQ(stats.figures.new_tokens, stats.prefilled_tokens);
    return stats.prefilled_tokens;
  };
  world.engine.set_on_decode([&](std::span<const engine::BatchToken> batch) {
    counted.push_back(in_all());
    computed.push_back(computed.back() + batch.size());
    if (counted.size() == 3) sink->leave();
  });
  Job job{
      .id = "1", .kind = "test", .prompt = random_tokens(random, 2'000), .sampling = World::greedy(), .max_tokens = 4};
  ASSERT_TRUE(world.scheduler.submit(std::move(job), sink).ok());
  world.start();
  const JobStats stats = reply.get().stats;
  ASSERT_GE(counted.size(), 3U);
  EXPECT_EQ(stats.prefilled_tokens, computed.back());
  EXPECT_LT(stats.prefilled_tokens, 2'000U);
  EXPECT_EQ(in_all(), computed.back()) << "the client left";
  computed.pop_back();
  EXPECT_EQ(counted, computed);
}

TEST(SchedulerSlices, RequestsWaitForAPrefixThatAnotherOneComputes) {
  World world({}, mebibytes(64), {.parallel = 3, .slice_ms = 1e-6});
  std::mt19937 random(36);
  const auto shared = random_tokens(random, 400);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 3; ++i) prompts.push_back(shared + random_tokens(random, 20));
  for (const auto& prompt : prompts) replies.push_back(world.submit(prompt, 3));
  std::uint64_t most_awaiting = 0;
  bool each_has_a_cause = true;
  world.engine.set_on_decode([&](std::span<const engine::BatchToken>) {
    const SchedulerStats now = world.scheduler.stats();
    most_awaiting = std::max(most_awaiting, now.waiting_for[WaitCause::kPrefix]);
    each_has_a_cause &= now.waiting_for[WaitCause::kPlace] + now.waiting_for[WaitCause::kPrefix] == now.waiting;
  });
  world.start();
  std::size_t prefilled = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Reply reply = replies[i].get();
    EXPECT_EQ(reply.tokens, world.expected(prompts[i], 3));
    prefilled += reply.stats.prefilled_tokens;
  }
  EXPECT_EQ(prefilled, shared.size() + 3 * 20);
  EXPECT_GE(world.scheduler.stats().prefix_waits, 2U);
  EXPECT_EQ(most_awaiting, 2U);
  EXPECT_TRUE(each_has_a_cause);
  EXPECT_EQ(world.scheduler.stats().waiting_for[WaitCause::kPrefix], 0U);
}

// How often a round looks up at most, and how often all did, while a thousand requests await one prefix.
struct LookUps {
  std::uint64_t most = 0;
  std::uint64_t all = 0;
};
LookUps look_ups_of_a_thousand(bool first_leaves_cache_out) {
  FakeOptions fake{.cells = 16'384, .sequences = 8};
  fake.vocabulary_size = 2'000;
  World world(fake, mebibytes(64), {.parallel = 4, .slice_ms = 1e-6});
  std::mt19937 random(37);
  const auto shared = random_tokens(random, 1'000);
  const auto first = shared + std::vector<TokenId>{1'001, 1};  // the least to prefill goes first
  Job job{.id = "first", .kind = "test", .prompt = first, .sampling = World::greedy(), .max_tokens = 1};
  if (first_leaves_cache_out) job.scored_prompt = 0;
  auto sink = std::make_shared<CollectingSink>();
  std::vector<std::future<Reply>> replies;
  replies.push_back(sink->future());
  EXPECT_TRUE(world.scheduler.submit(std::move(job), std::move(sink)).ok());
  for (int i = 0; i < 1'000; ++i) replies.push_back(world.submit(shared + std::vector<TokenId>{i, 1, 1, 1}, 1));
  LookUps look_ups;
  world.engine.set_on_decode([&](std::span<const engine::BatchToken>) {
    const std::uint64_t all = world.scheduler.stats().plans;
    look_ups.most = std::max(look_ups.most, all - std::exchange(look_ups.all, all));
  });
  world.start();
  std::size_t prefilled = 0;
  for (auto& reply : replies) prefilled += reply.get().stats.prefilled_tokens;
  EXPECT_EQ(prefilled, first.size() + 1'000 * 4) << "the shared part was computed once";
  EXPECT_GE(world.scheduler.stats().prefix_waits, first_leaves_cache_out ? kMostPlaceless : 1'000);
  return look_ups;
}

TEST(SchedulerSlices, OfAThousandThatAwaitAPrefixAFewAreLookedUpInARound) {
  const LookUps look_ups = look_ups_of_a_thousand(false);
  EXPECT_LE(look_ups.most, 4U) << "as many as there are places";
  EXPECT_LE(look_ups.all, 1'001U) << "each when it starts";
}

TEST(SchedulerSlices, ALookUpInVainIsMadeAFewTimesInARound) {
  const LookUps look_ups = look_ups_of_a_thousand(true);
  EXPECT_LE(look_ups.most, 4U + kMostPlaceless);
  EXPECT_LE(look_ups.all, 2'001U) << "each when it comes and when it starts";
}

TEST(SchedulerSlices, ALongReplyIsCapturedBeforeItsEnd) {
  World world({}, mebibytes(64), {.parallel = 1, .capture_every_tokens = 64});
  std::size_t decodes = 0;
  std::uint64_t kept = 0;
  world.engine.set_on_decode([&](std::span<const engine::BatchToken>) {
    if (++decodes == 300) kept = world.cache.stats().tokens;
  });
  world.start();
  std::mt19937 random(33);
  (void)world.ask(random_tokens(random, 8), 310);
  EXPECT_GT(kept, 300U - 64);
}

// How many tokens a prompt reuses that leaves another prompt in its middle.
std::size_t reused_of_windowed(std::size_t leaves_at, const SchedulerOptions& scheduler) {
  World world(
      {.batch_tokens = 2048, .memory_class = engine::MemoryClass::kWindowed, .window_tokens = 64, .window_slack = 16},
      mebibytes(64), scheduler);
  world.start();
  std::mt19937 random(34);
  auto prompt = random_tokens(random, 1600);
  (void)world.ask(prompt, 1);
  prompt.resize(leaves_at);
  prompt = prompt + random_tokens(random, 10);
  const Reply reply = world.ask(prompt, 4);
  EXPECT_EQ(reply.tokens, world.expected(prompt, 4));
  return reply.stats.cached_tokens;
}

TEST(SchedulerSlices, AWindowIsKeptWhereEachSliceEnds) {
  EXPECT_EQ(reused_of_windowed(1450, {}), 1024U) << "slices of 512 tokens";
  EXPECT_EQ(reused_of_windowed(1450, {.least_window_slice_tokens = 100}), 1400U);
  EXPECT_EQ(reused_of_windowed(1450, {.least_window_slice_tokens = 1}), 1450U) << "window by window: no gaps";
}

}  // namespace
}  // namespace kvkeep::server
