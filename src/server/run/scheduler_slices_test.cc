// What the scheduler does between two decode calls of a long prompt or reply: slices and captures.

#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

TEST(SchedulerSlices, APrefillBesideOthersIsCutIntoBusySlices) {
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

}  // namespace
}  // namespace kvkeep::server
