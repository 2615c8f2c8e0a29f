// The scheduler between two decode calls of a long prompt or reply: slices and captures.

#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

TEST(SchedulerSlices, APrefillNextToOthersIsCutIntoBusySlices) {
  World world({}, mebibytes(64), {.parallel = 2, .busy_slice_tokens = 16});
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
  EXPECT_EQ(longest, 16U);
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
