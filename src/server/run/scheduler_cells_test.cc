// The scheduler when the model's memory is too small for all that runs, loads or stays: who gives cells back, and that
// it costs nobody an answer nor a second prefill.

#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

TEST(SchedulerCells, TwoSessionsThatExceedTheMemoryComeBackFromRam) {
  World world({.cells = 1000, .sequences = 4});
  world.start();
  std::mt19937 random(5);
  auto a = random_tokens(random, 600);
  auto b = random_tokens(random, 600);
  for (int turn = 0; turn < 4; ++turn) {
    for (auto* session : {&a, &b}) {
      const Reply reply = world.ask(*session, 10);
      ASSERT_EQ(reply.tokens, world.expected(*session, 10));
      if (turn > 0) {
        EXPECT_EQ(reply.stats.prefilled_tokens, 11U);
        EXPECT_EQ(reply.stats.source, CacheSource::kRamToken);
      }
      *session = *session + reply.tokens + random_tokens(random, 10);
    }
  }
}

TEST(SchedulerCells, RequestsThatOutgrowTheMemoryAreSetAsideAndAllSucceed) {
  World world({.cells = 1000, .sequences = 6}, mebibytes(64), {.parallel = 3});
  std::mt19937 random(6);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 3; ++i) {
    prompts.push_back(random_tokens(random, 40));
    replies.push_back(world.submit(prompts.back(), 600));
  }
  world.start();
  for (std::size_t i = 0; i < 3; ++i) {
    const Reply reply = replies[i].get();
    EXPECT_EQ(reply.finish, Finish::kLength);
    EXPECT_EQ(reply.tokens, world.expected(prompts[i], 600)) << "request " << i;
  }
  const SchedulerStats stats = world.scheduler.stats();
  EXPECT_GT(stats.set_aside, 0U);
  EXPECT_LE(stats.prefilled_tokens, 3 * 40 + stats.set_aside) << "who is resumed prefills the last sampled token only";
}

TEST(SchedulerCells, TheIdleSequenceUsedLastStaysLongest) {
  World world({.cells = 1000, .sequences = 4});
  world.start();
  std::mt19937 random(40);
  const auto older = random_tokens(random, 200);
  const auto newer = random_tokens(random, 200);
  const auto growing = random_tokens(random, 50);
  (void)world.ask(older, 1);
  (void)world.ask(newer, 1);
  EXPECT_EQ(world.ask(growing, 600).tokens, world.expected(growing, 600)) << "needs the cells of one of them";
  EXPECT_EQ(world.ask(newer, 1).stats.memory_tokens, 199U);
  EXPECT_EQ(world.ask(older, 1).stats.ram_tokens, 199U);
}

}  // namespace
}  // namespace kvkeep::server
