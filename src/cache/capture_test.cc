// Capture copies what the cache will take, and nothing else.

#include "cache/capture.h"

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

TEST(Capture, CopiesWhatIsNewAndOnlyThat) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 100);
  world.grow(Tokens(tokens.begin(), tokens.begin() + 48));
  OneSequence memory(tokens);
  Track track = world.cache->track(Tokens{});
  const CaptureResult result = capture(*world.cache, memory, SeqId{0}, tokens, track);
  EXPECT_EQ(result.tokens, 52U);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(memory.copied(), 52U);
  EXPECT_EQ(track.position(), Position{100});
  EXPECT_EQ(world.check(tokens), 100U);
}

TEST(Capture, CopiesNothingForAPlaceThatIsDeadButHeld) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  std::optional<Track> holder(world.cache->track(tokens));
  world.cache->report_damaged(world.cache->lease(tokens)->steps()[2].segment);
  OneSequence memory(tokens + conversation(40, 16));
  Track track = world.cache->track(Tokens{});
  const auto capture_all = [&] { return capture(*world.cache, memory, SeqId{0}, tokens, track); };
  EXPECT_FALSE(capture_all().complete);
  EXPECT_EQ(memory.copied(), 0U);
  EXPECT_EQ(track.position(), Position{32}) << "up to the damage all is there already";
  holder.reset();
  world.writer.run_all();
  EXPECT_TRUE(capture_all().complete);
  EXPECT_EQ(memory.copied(), 32U) << "what was damaged and what followed it";
  EXPECT_EQ(world.check(tokens), 64U);
}

}  // namespace
}  // namespace kvkeep::cache
