// Points along a reply: a client that leaves in the middle comes back to one near what it saw; after a whole reply none
// stays, and none is written to disk.

#include <gtest/gtest.h>

#include "server/run/scheduler_test_fixture.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

using engine::MemoryClass;
using Tokens = std::vector<TokenId>;

constexpr std::size_t kStride = 32;
constexpr std::size_t kStreamedTokens = 400;

WorldOptions options(MemoryClass memory_class = MemoryClass::kHybrid) {
  WorldOptions options;
  options.fake.memory_class = memory_class;
  options.fake.cells = 8192;
  options.fake.sequences = 4;
  options.fake.first_sampled_token = 10;
  options.fake.window_tokens = 64;
  options.fake.window_slack = 16;
  options.scheduler.capture_every_tokens = kStride;
  return options;
}

class Streaming : public testing::Test {
 protected:
  Tokens text(std::size_t count) { return random_tokens(random_, count); }
  std::mt19937 random_{seed()};
};

// How much is prefilled when a client left a reply, having seen all but `unseen` tokens of it, and sends a new prompt.
std::size_t prefilled_after_leaving(World& world, const Tokens& prompt, std::size_t unseen, const Tokens& more) {
  const Reply left = world.submit(prompt, kStreamedTokens + 50, true, kStreamedTokens).get();
  EXPECT_EQ(left.finish, Finish::kGone);
  EXPECT_GE(left.tokens.size(), kStreamedTokens);
  Tokens seen = left.tokens;
  seen.resize(seen.size() - unseen);
  const Tokens next = prompt + seen + more;
  const Reply reply = world.ask(next, 8);
  EXPECT_EQ(reply.tokens, world.expected(next, 8));
  return reply.stats.prefilled_tokens;
}

TEST_F(Streaming, AClientThatLeavesFindsAPointNearTheTextItSaw) {
  for (const MemoryClass memory_class : {MemoryClass::kHybrid, MemoryClass::kRecurrent}) {
    for (const std::size_t unseen : {1U, 7U, 33U}) {
      World world(options(memory_class));
      world.start();
      EXPECT_LE(prefilled_after_leaving(world, text(100), unseen, text(20)), 20 + 2 * kStride) << unseen;
    }
  }
}

TEST_F(Streaming, WithoutMemoryForAPointItIsAsBefore) {
  WorldOptions small = options();
  small.ram = ByteCount{1 << 10};
  World world(small);
  world.start();
  EXPECT_GT(prefilled_after_leaving(world, text(100), 7, text(20)), kStreamedTokens - 7);
}

TEST_F(Streaming, NoPointStaysOfAWholeReply) {
  World world(options());
  world.start();
  const Tokens prompt = text(100);
  EXPECT_EQ(world.ask(prompt, kStreamedTokens).finish, Finish::kLength);
  world.stop();
  EXPECT_EQ(world.cache.stats().points, 2U) << "before the last token of the prompt, and where the reply ends";
}

TEST_F(Streaming, TwoStayForAClientThatLeft) {
  World world(options());
  world.start();
  world.submit(text(100), kStreamedTokens + 50, true, kStreamedTokens).get();
  world.stop();
  EXPECT_LE(world.cache.stats().points, 4U);
}

TEST_F(Streaming, NoneIsWritten) {
  const sim::TemporaryDirectory directory;
  WorldOptions disk = options();
  disk.disk_directory = directory.path();
  ByteCount whole;
  ByteCount left;
  {
    World world(disk);
    world.start();
    world.submit(text(100), kStreamedTokens + 50, true, kStreamedTokens).get();
    world.stop();
    world.cache.flush();
    left = world.cache.stats().points_disk;
  }
  const sim::TemporaryDirectory other;
  disk.disk_directory = other.path();
  {
    World world(disk);
    world.start();
    world.ask(text(100), kStreamedTokens);
    world.stop();
    world.cache.flush();
    whole = world.cache.stats().points_disk;
  }
  EXPECT_GT(whole, ByteCount{});
  EXPECT_EQ(left, whole) << "of both the prompt's and the one at the end";
}

TEST_F(Streaming, APointIsWrittenOnceSomebodyUsedIt) {
  const sim::TemporaryDirectory directory;
  WorldOptions disk = options();
  disk.disk_directory = directory.path();
  const Tokens prompt = text(100);
  const Tokens more = text(20);
  Tokens next;
  {
    World world(disk);
    world.start();
    const Reply left = world.submit(prompt, kStreamedTokens + 50, true, kStreamedTokens).get();
    next = prompt + left.tokens;
    next.resize(next.size() - 7);
    world.ask(next + more, 0);
    world.stop();
    world.cache.flush();
  }
  World world(disk);
  world.start();
  EXPECT_LE(world.ask(next + text(20), 0).stats.prefilled_tokens, 20 + 2 * kStride)
      << "after a restart, on another path";
}

}  // namespace
}  // namespace kvkeep::server
