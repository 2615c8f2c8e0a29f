// A new process, and the files that a former one left.

#include <map>
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

// As a process leaves them that forgot rows in RAM and stored them anew, longer: the shorter file is of no use, and the
// point at its end is known to the index before the cache has its file.
TEST(CacheRecovery, ShorterRowsThatEndAtAPointAreNoTrouble) {
  for (const ModelClass& model : kPointModels) {
    World world(ByteCount{0});
    world.model = model;
    ASSERT_TRUE(world.open());
    const Tokens tokens = conversation(1, 96);
    ASSERT_TRUE(world.keep(head(tokens, 40), 40));
    world.cache->flush();
    world.die();
    std::map<std::string, std::vector<std::byte>> shorter;
    for (const std::string& path : world.segment_files()) shorter[path] = *world.files.contents(path);
    world.files.remove_tree("/cache");
    ASSERT_TRUE(world.open());
    ASSERT_TRUE(world.keep(tokens, 96));
    world.cache->flush();
    world.die();
    for (const auto& [path, bytes] : shorter) world.files.plant(path, bytes);
    ASSERT_TRUE(world.open());
    EXPECT_EQ(world.check(tokens), tokens.size()) << model.name;
    for (const std::size_t at : {std::size_t{40}, tokens.size()}) {
      const std::vector<std::size_t> restorable = world.restorable(head(tokens, at));
      EXPECT_TRUE(!restorable.empty() && restorable.back() == at) << model.name << " at " << at;
    }
  }
}

// File times carry recency: what leaves after a restart leaves in the order of last use, whatever the order of storing.
TEST(CacheRecovery, RecencySurvives) {
  World world(ByteCount{0}, ByteCount{20 * 8192});
  ASSERT_TRUE(world.open());
  const auto stored = [](TokenId i) { return conversation(i * 100, 64); };
  for (TokenId i = 1; i <= 6; ++i) world.grow(stored(i), 64);
  const std::vector<TokenId> by_use{3, 1, 6, 2, 5, 4};
  for (const TokenId i : by_use) {
    world.clock.advance_ms(3'600'000);
    world.cache->note_use(*world.cache->lease(stored(i)));
    world.writer.run_all();
  }
  ASSERT_TRUE(world.restart());
  std::size_t gone = 0;
  for (TokenId i = 1; i < 100 && gone < by_use.size(); ++i) {
    world.grow(conversation(10'000 + i * 10, 64), 64);
    world.writer.run_all();
    gone = 0;
    while (gone < by_use.size() && world.cache->lease(stored(by_use[gone]))->end() == Position{}) ++gone;
    for (std::size_t k = gone; k < by_use.size(); ++k) {
      ASSERT_EQ(world.cache->lease(stored(by_use[k]))->end(), Position{64}) << k << " left before " << gone;
    }
  }
  EXPECT_EQ(gone, by_use.size());
}

TEST(CacheRecovery, AFileWithoutItsBeginningGivesItsRoomBack) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(Tokens(tokens.begin(), tokens.begin() + 16));
  world.writer.run_all();
  const std::vector<std::string> first = world.segment_files();
  world.grow(tokens);
  world.writer.run_all();
  ASSERT_EQ(world.segment_files().size(), 4U);
  const ByteCount before = world.store->used();
  world.die();
  world.files.kill();
  ASSERT_TRUE(world.files.remove(first.front()).ok());
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(tokens), 0U);
  EXPECT_EQ(world.segment_files().size(), 0U);
  EXPECT_LT(world.store->used(), before);
  EXPECT_EQ(world.grow(tokens), 64U);
  world.writer.run_all();
  EXPECT_EQ(world.check(tokens), 64U);
}

// No file of kvkeep's has two parts yet, so none could be read as the expected one.
TEST(CacheRecovery, AnUnreadableFileGivesItsRoomBack) {
  World world;
  {
    auto store = store::DiskStore::open({.directory = "/cache", .fingerprint = {}, .budget = mebibytes(1)}, world.files,
                                        world.clock);
    ASSERT_TRUE(store.ok());
    const Tokens tokens = conversation(10, 16);
    PrefixHasher hasher({});
    format::SegmentHeader header;
    header.name = {{}, Position{16}, hasher.current(), {}};
    hasher.append(tokens);
    header.name.end_hash = hasher.current();
    header.tokens = tokens;
    const auto rows = rows_of(tokens, {Position{}, Position{16}});
    const std::vector<store::PartBytes> parts{{format::PartKind::kRows, rows}, {format::PartKind::kWindowRows, rows}};
    ASSERT_TRUE((*store)->put(header, parts).ok());
  }
  ASSERT_EQ(world.segment_files().size(), 1U);
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(conversation(10, 16)), 0U);
  EXPECT_EQ(world.segment_files().size(), 0U);
  EXPECT_EQ(world.cache->stats().damaged, 0U);
  EXPECT_EQ(world.grow(conversation(10, 16)), 16U);
}

// Two files that both hold [16, 32), as a former version or another way of cutting may have left them.
TEST(CacheRecovery, FilesThatOverlapGiveTheRightRows) {
  World world(ByteCount{0});
  const Tokens tokens = conversation(10, 48) + conversation(30, 16);
  {
    auto store = store::DiskStore::open({.directory = "/cache", .fingerprint = {}, .budget = mebibytes(1)}, world.files,
                                        world.clock);
    ASSERT_TRUE(store.ok());
    for (const auto& [begin, end] : {std::pair{0U, 32U}, std::pair{16U, 48U}}) {
      const TokenRange range{Position{} + begin, Position{} + end};
      const TokenSpan covered = TokenSpan(tokens).first(end);
      PrefixHasher hasher({});
      hasher.append(covered.first(begin));
      format::SegmentHeader header;
      header.name = {range.begin, range.end, hasher.current(), {}};
      hasher.append(covered.subspan(begin));
      header.name.end_hash = hasher.current();
      header.tokens.assign(covered.begin() + begin, covered.end());
      header.parts = {{.kind = format::PartKind::kRows}};
      ASSERT_TRUE((*store)->put(header, {{format::PartKind::kRows, rows_of(tokens, range)}}).ok());
    }
  }
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(tokens), 48U);
  const std::vector<LeasedStep> steps = world.cache->lease(tokens)->steps();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].range, (TokenRange{Position{32}, Position{48}}));
  EXPECT_EQ(steps[1].stored, (TokenRange{Position{16}, Position{48}}));
  EXPECT_EQ(world.grow(tokens), 64U);
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(tokens), 64U) << "what hangs below it too";
}

}  // namespace
}  // namespace kvkeep::cache
