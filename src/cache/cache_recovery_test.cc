// What a new process makes of the files that a former one left.

#include <set>

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

// Stores new segments, written one by one, until there are `count`, a file each.
void store_segments(World& world, std::size_t count) {
  for (std::size_t i = world.segment_files().size() + 1; i <= count; ++i) {
    world.grow(conversation(static_cast<TokenId>(i * 10), 16));
    world.writer.run_all();
  }
  ASSERT_EQ(world.segment_files().size(), count);
}

TEST(CacheRecovery, AStartAfterAKillReadsOnlyTheNewestHeaders) {
  World world(ByteCount{0});
  world.save_index_after = CacheOptions{}.save_index_after;
  ASSERT_TRUE(world.open());
  ASSERT_NO_FATAL_FAILURE(store_segments(world, 300));
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.store->counters().headers_read, 300U - 256U);
  EXPECT_EQ(world.cache->stats().segments, 300U);
  ASSERT_NO_FATAL_FAILURE(store_segments(world, 512));
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.store->counters().headers_read, 0U) << "kill after kill, what was read counts as well";
}

// Their files have another time since, so that the saved index does not match them any more.
TEST(CacheRecovery, UseCountsAsAChangeOfTheSavedIndex) {
  World world(ByteCount{0});
  world.save_index_after = 8;
  ASSERT_TRUE(world.open());
  ASSERT_NO_FATAL_FAILURE(store_segments(world, 8));
  for (TokenId i = 1; i <= 8; ++i) world.cache->note_use(*world.cache->lease(conversation(i * 10, 16)));
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.store->counters().headers_read, 0U);
}

TEST(CacheRecovery, TheIndexIsSavedLessOftenWhereItIsLarge) {
  World world(ByteCount{0});
  world.save_index_after = 4;
  ASSERT_TRUE(world.open());
  std::set<std::size_t> sizes;
  const std::string path = "/cache/" + FingerprintHash{}.hex() + "/index";
  world.files.set_observer([&] {
    if (const auto saved = world.files.contents(path)) sizes.insert(saved->size());
  });
  ASSERT_NO_FATAL_FAILURE(store_segments(world, 200));
  world.files.set_observer(nullptr);
  EXPECT_GT(sizes.size(), 200U / 25) << "at least each time an eighth is new";
  EXPECT_LT(sizes.size(), 200U / 6) << "not every 4 segments: saving costs as much as there is";
}

}  // namespace
}  // namespace kvkeep::cache
