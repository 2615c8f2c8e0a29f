// The scheduler over the fake engine: every reply must be what an undisturbed engine writes, whatever was reused,
// shared, pushed out, interrupted or failed meanwhile; and nothing known may be prefilled again.

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

TEST(Scheduler, GrowingConversationPrefillsOnlyWhatIsNew) {
  World world;
  world.start();
  std::mt19937 random(1);
  std::vector<TokenId> conversation = random_tokens(random, 300);
  for (int turn = 0; turn < 6; ++turn) {
    const Reply reply = world.ask(conversation, 20);
    ASSERT_EQ(reply.tokens, world.expected(conversation, 20));
    EXPECT_EQ(reply.finish, Finish::kLength);
    // The last sampled token of the previous reply was never decoded, the user's 30 tokens are new.
    EXPECT_EQ(reply.stats.prefilled_tokens, turn == 0 ? 300U : 31U);
    EXPECT_EQ(reply.stats.cached_tokens + reply.stats.prefilled_tokens, conversation.size());
    conversation = conversation + reply.tokens + random_tokens(random, 30);
  }
}

TEST(Scheduler, IdenticalPromptDecodesOneToken) {
  World world;
  world.start();
  std::mt19937 random(2);
  const auto prompt = random_tokens(random, 100);
  const Reply first = world.ask(prompt, 8);
  const Reply again = world.ask(prompt, 8);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.stats.prefilled_tokens, 1U);
  EXPECT_EQ(again.stats.source, CacheSource::kMemoryToken);
  EXPECT_EQ(again.stats.miss, MissReason::kWholePrompt);
}

TEST(Scheduler, BranchAndReturnPrefillNothingKnown) {
  World world;
  world.start();
  std::mt19937 random(3);
  const auto trunk = random_tokens(random, 400);
  const auto main_line = trunk + random_tokens(random, 200);
  const auto branch = trunk + random_tokens(random, 150);
  (void)world.ask(main_line, 10);
  EXPECT_EQ(world.ask(branch, 10).stats.prefilled_tokens, 150U);
  EXPECT_EQ(world.ask(main_line, 10).stats.prefilled_tokens, 1U);
  EXPECT_EQ(world.ask(branch, 10).tokens, world.expected(branch, 10));
}

TEST(Scheduler, RequestsThatArriveTogetherShareWhatTheFirstComputes) {
  World world({.cells = 4096, .sequences = 8}, mebibytes(64), {.parallel = 4});
  std::mt19937 random(4);
  const auto system = random_tokens(random, 1000);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 8; ++i) {
    prompts.push_back(system + random_tokens(random, 20));
    replies.push_back(world.submit(prompts.back(), 12));
  }
  world.start();
  std::size_t prefilled = 0;
  for (int i = 0; i < 8; ++i) {
    const Reply reply = replies[static_cast<std::size_t>(i)].get();
    EXPECT_EQ(reply.tokens, world.expected(prompts[static_cast<std::size_t>(i)], 12));
    prefilled += reply.stats.prefilled_tokens;
  }
  EXPECT_EQ(prefilled, 1000U + 8 * 20U);
  EXPECT_LE(world.engine.memory().cells_used(), 1000U + 8 * 40U) << "a shared prefix lies in shared cells";
}

TEST(Scheduler, ContextEndEndsTheReply) {
  World world({.cells = 200, .sequences = 3});
  world.start();
  std::mt19937 random(7);
  const auto prompt = random_tokens(random, 150);
  const Reply reply = world.ask(prompt, std::nullopt);
  EXPECT_EQ(reply.finish, Finish::kLength);
  EXPECT_EQ(reply.tokens.size(), 51U) << "50 cells for decoded tokens, and the last sampled one";
  EXPECT_EQ(reply.tokens, world.expected(prompt, 51));
}

TEST(Scheduler, CachePromptOffNeitherReadsNorWrites) {
  World world;
  world.start();
  std::mt19937 random(8);
  const auto prompt = random_tokens(random, 100);
  EXPECT_EQ(world.ask(prompt, 5, false).stats.prefilled_tokens, 100U);
  EXPECT_EQ(world.ask(prompt, 5).stats.prefilled_tokens, 100U) << "the request before wrote something";
  const Reply off = world.ask(prompt, 5, false);
  EXPECT_EQ(off.stats.prefilled_tokens, 100U) << "it read something";
  EXPECT_EQ(off.stats.miss, MissReason::kCacheOff);
  EXPECT_EQ(world.ask(prompt, 5).stats.prefilled_tokens, 1U) << "it disturbed what was there";
}

TEST(Scheduler, ModelsOfOtherClassesAreServedUncached) {
  World world({.memory_class = engine::MemoryClass::kUncached, .truncatable = false});
  world.start();
  std::mt19937 random(9);
  const auto prompt = random_tokens(random, 100);
  for (int i = 0; i < 2; ++i) {
    const Reply reply = world.ask(prompt, 5);
    EXPECT_EQ(reply.tokens, world.expected(prompt, 5));
    EXPECT_EQ(reply.stats.miss, MissReason::kNotCacheable);
    EXPECT_EQ(reply.stats.prefilled_tokens, 100U);
  }
}

TEST(Scheduler, FailedDecodeIsRebuiltFromCapturedState) {
  std::mt19937 random(10);
  const auto prompt = random_tokens(random, 1500);
  for (std::uint32_t nth = 1; nth <= 12; ++nth) {
    World world({.batch_tokens = 256});
    world.engine.set_faults({.fail_decode = nth});
    world.start();
    const Reply reply = world.ask(prompt, 10);
    ASSERT_EQ(reply.tokens, world.expected(prompt, 10)) << "decode " << nth << " failed";
    EXPECT_LE(reply.stats.prefilled_tokens, 1500U + 256) << "only the lost slice is computed again";
  }
}

TEST(Scheduler, FailedSaveAndRestoreCostTimeNeverTheAnswer) {
  std::mt19937 random(11);
  const auto a = random_tokens(random, 600);
  const auto b = random_tokens(random, 600);
  for (std::uint32_t nth = 1; nth <= 4; ++nth) {
    World world({.cells = 1000, .sequences = 3});
    world.engine.set_faults({.fail_save = nth, .fail_restore = nth});
    world.start();
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_EQ(world.ask(a, 10).tokens, world.expected(a, 10));
      ASSERT_EQ(world.ask(b, 10).tokens, world.expected(b, 10));
    }
  }
}

TEST(Scheduler, RefusedRowsAreReportedAndStoredAnew) {
  World world({.cells = 1000, .sequences = 3});
  world.start();
  std::mt19937 random(31);
  const auto a = random_tokens(random, 600);
  const auto b = random_tokens(random, 600);
  (void)world.ask(a, 10);
  (void)world.ask(b, 10);
  world.engine.set_faults({.fail_restore = 1});
  const Reply refused = world.ask(a, 10);
  EXPECT_EQ(refused.stats.miss, MissReason::kLoadFailed);
  EXPECT_EQ(refused.stats.prefilled_tokens, 600U);
  EXPECT_GT(world.cache.stats().damaged, 0U) << "else the same rows are offered for ever";
  (void)world.ask(b, 10);
  EXPECT_EQ(world.ask(a, 10).stats.prefilled_tokens, 1U);
}

TEST(Scheduler, ClientThatLeavesKeepsWhatWasComputed) {
  World world;
  world.start();
  std::mt19937 random(12);
  const auto prompt = random_tokens(random, 500);
  const Reply left = world.submit(prompt, 1000, true, 5).get();
  EXPECT_EQ(left.finish, Finish::kGone);
  EXPECT_LT(left.tokens.size(), 1000U);
  EXPECT_EQ(world.ask(prompt + left.tokens, 5).stats.prefilled_tokens, 1U);
}

TEST(Scheduler, ClientThatLeftWhileWaitingCostsNothing) {
  World world;
  std::mt19937 random(15);
  auto left = world.submit(random_tokens(random, 500), 10, true, 0);
  world.start();
  EXPECT_EQ(left.get().finish, Finish::kGone);
  EXPECT_EQ(world.engine.tokens_decoded(), 0U);
}

TEST(Scheduler, StopEndsEveryJobOnce) {
  World world;
  std::mt19937 random(13);
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 10; ++i) replies.push_back(world.submit(random_tokens(random, 400), 1 << 20));
  world.start();
  world.stop();
  for (auto& reply : replies) {
    const Finish finish = reply.get().finish;  // a second end would break the promise
    EXPECT_TRUE(finish == Finish::kError || finish == Finish::kLength) << "the context may have been full already";
  }
  auto late = std::make_shared<CollectingSink>();
  Job job;
  job.prompt = {1, 2, 3};
  EXPECT_EQ(world.scheduler.submit(std::move(job), late).error().kind, ErrorKind::kBusy);
}

TEST(Scheduler, StopBeforeTheStartEndsWhatWaits) {
  World world;
  auto reply = world.submit({1, 2, 3}, 10);
  world.scheduler.stop();
  world.start();
  EXPECT_EQ(reply.get().finish, Finish::kError);
}

TEST(Scheduler, FullQueueRefuses) {
  World world({}, mebibytes(1), {.parallel = 1, .queue_limit = 2});
  std::mt19937 random(14);
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 3; ++i) replies.push_back(world.submit(random_tokens(random, 10), 2));
  Job job;
  job.prompt = {1};
  EXPECT_EQ(world.scheduler.submit(std::move(job), std::make_shared<CollectingSink>()).error().kind, ErrorKind::kBusy);
  world.start();
  for (auto& reply : replies) EXPECT_EQ(reply.get().finish, Finish::kLength);
}

// ---- work that is not done twice ----

TEST(Scheduler, RefusedRowsAreNotCopiedForEveryToken) {
  World world({}, ByteCount{2000}, {.parallel = 1, .capture_every_tokens = 64});
  world.start();
  std::mt19937 random(26);
  (void)world.ask(random_tokens(random, 500), 1000);
  EXPECT_LT(world.engine.counters().save_calls, 5U) << "32-byte rows, 2,000 bytes of RAM: nothing fits";
}

TEST(Scheduler, AWaitingRequestIsNotPlannedAgainForEveryToken) {
  World world({.cells = 2000, .sequences = 4}, mebibytes(64), {.parallel = 2});
  std::mt19937 random(27);
  const auto first = random_tokens(random, 1200);
  const auto second = random_tokens(random, 1200);
  auto running = world.submit(first, 600);
  auto waiting = world.submit(second, 5);
  world.start();
  EXPECT_EQ(running.get().tokens, world.expected(first, 600));
  EXPECT_EQ(waiting.get().tokens, world.expected(second, 5));
  EXPECT_LT(world.scheduler.stats().plans, 10U) << "600 tokens were decoded meanwhile";
}

// Prefixes that were ever decoded, by brute force.
class DecodedTwin {
 public:
  std::size_t never_decoded(const std::vector<TokenId>& prompt) const {
    std::size_t known = prompt.size();
    while (known > 0 && !prefixes_.contains({prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(known)}))
      --known;
    return prompt.size() - known;
  }
  void add(const std::vector<TokenId>& tokens) {
    for (std::size_t n = 1; n <= tokens.size(); ++n)
      prefixes_.insert({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)});
  }

 private:
  std::set<std::vector<TokenId>> prefixes_;
};

TEST(Scheduler, RandomHistoriesAreExactAndPrefillNothingTwice) {
  std::mt19937 random(seed());
  for (int round = 0; round < 12; ++round) {
    const bool roomy = round % 2 == 0;
    World world({.cells = roomy ? 4096U : 300U, .sequences = roomy ? 6U : 2U, .batch_tokens = 64});
    world.start();
    DecodedTwin twin;
    std::vector<std::vector<TokenId>> conversations{random_tokens(random, 40)};
    for (int step = 0; step < 60; ++step) {
      std::vector<TokenId> prompt = conversations[random() % conversations.size()];
      const auto kind = random() % 4;
      if (kind == 0) prompt.resize(1 + random() % prompt.size());
      if (kind <= 1 || prompt.size() > 200) prompt = random_tokens(random, 1 + random() % 3) + prompt;
      if (prompt.size() > 200) prompt.resize(60);
      if (kind == 2) prompt = prompt + random_tokens(random, 1 + random() % 30);
      const std::size_t count = 1 + random() % 12;
      const Reply reply = world.ask(prompt, static_cast<std::int64_t>(count));
      ASSERT_EQ(reply.tokens, world.expected(prompt, count)) << "round " << round << " step " << step;
      const std::size_t ideal = twin.never_decoded(prompt);
      ASSERT_EQ(reply.stats.prefilled_tokens, std::max<std::size_t>(1, ideal)) << "round " << round << " step " << step;
      const std::vector<TokenId> after = prompt + reply.tokens;
      twin.add({after.begin(), after.end() - 1});
      conversations.push_back(after);
    }
  }
}

TEST(Scheduler, ConcurrentRandomRequestsAreExact) {
  std::mt19937 random(seed());
  for (int round = 0; round < 6; ++round) {
    // Little of everything: cells, sequences, RAM.
    World world({.cells = 500, .sequences = 5, .batch_tokens = 32}, ByteCount{round % 2 == 0 ? 20'000U : 1U << 20},
                {.parallel = 3, .slice_ms = 1e-6, .capture_prefilled_tokens = 16, .capture_every_tokens = 8});
    world.start();
    std::vector<std::vector<TokenId>> prompts{random_tokens(random, 100)};
    for (int wave = 0; wave < 10; ++wave) {
      std::vector<std::pair<std::vector<TokenId>, std::future<Reply>>> running;
      for (int i = 0; i < 5; ++i) {
        std::vector<TokenId> prompt = prompts[random() % prompts.size()];
        if (random() % 2 == 0) prompt.resize(1 + random() % prompt.size());
        prompt = prompt + random_tokens(random, random() % 20);
        if (prompt.size() > 300) prompt.resize(300);
        if (prompt.empty()) prompt = {1};
        running.emplace_back(prompt, world.submit(prompt, static_cast<std::int64_t>(1 + random() % 60)));
      }
      for (auto& [prompt, future] : running) {
        const Reply reply = future.get();
        ASSERT_EQ(reply.finish, Finish::kLength);
        ASSERT_EQ(reply.tokens, world.expected(prompt, reply.tokens.size()));
        prompts.push_back(prompt + reply.tokens);
        if (prompts.back().size() > 300) prompts.back().resize(200);
      }
    }
  }
}

TEST(Scheduler, OneSlowRestoreDoesNotTurnRestoringOffForGood) {
  SteppingClock clock;
  World world(WorldOptions{.fake = {.cells = 700, .batch_tokens = 64, .row_bytes = 256},
                           .scheduler = {.parallel = 1},
                           .clock = &clock,
                           .restore_auto = true});
  world.start();
  std::mt19937 random(30);
  const std::vector prompts = {random_tokens(random, 600), random_tokens(random, 600)};
  for (const auto& prompt : prompts) (void)world.ask(prompt, 1);
  const auto restored = [&](std::size_t i) { return world.ask(prompts[i % 2], 1).stats.ram_tokens > 0; };
  clock.step_ns = 1'000'000'000;
  EXPECT_TRUE(restored(0)) << "nothing is known of restores yet";
  clock.step_ns = 1'000'000;
  std::size_t refused = 0;
  while (refused < 100 && !restored(refused + 1)) ++refused;
  EXPECT_GT(refused, 0U) << "the slow one was noticed";
  EXPECT_LE(refused, 4U);
  for (std::size_t i = 2; i < 8; ++i) EXPECT_TRUE(restored(refused + i)) << i;
}

}  // namespace
}  // namespace kvkeep::server
