// Points, whole states and window rows: where a sequence can be put is exactly where they are, for every class of
// models, in RAM, on disk and after a restart; they leave, are damaged and come back each on its own.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

class CachePoints : public testing::TestWithParam<ModelClass> {
 protected:
  // A world of this class of models.
  std::unique_ptr<World> world(ByteCount ram = mebibytes(1), ByteCount disk = mebibytes(64)) const {
    auto made = std::make_unique<World>(ram, disk);
    made->model = GetParam();
    return made;
  }
  // The restorable positions after keep() of a conversation of n tokens: all of a first window is stored.
  std::vector<std::size_t> reached(std::size_t n) const {
    return windowed() && n <= kWindowTokens ? range_of(1, n) : std::vector<std::size_t>{n};
  }
  bool windowed() const { return GetParam().shape.window_tokens > 0; }
  format::PartKind kind() const { return point_kind(GetParam().shape); }
};

INSTANTIATE_TEST_SUITE_P(Classes, CachePoints, testing::ValuesIn(kPointModels),
                         [](const auto& model) { return std::string(model.param.name); });

TEST_P(CachePoints, ASequenceIsRestorableWhereItWasCaptured) {
  const auto one = world(ByteCount{0});
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 100);
  ASSERT_EQ(one->grow(tokens), 100U);
  EXPECT_EQ(one->restorable(tokens), std::vector<std::size_t>{}) << "rows alone restore nothing";
  ASSERT_TRUE(one->capture_leaf(tokens));
  EXPECT_EQ(one->restorable(tokens), std::vector<std::size_t>{100});
  const auto leased = [&] { return one->cache->lease(tokens)->points(); };
  EXPECT_EQ(leased().front().tier, Tier::kRam);
  one->writer.run_all();
  EXPECT_EQ(leased().front().tier, Tier::kDisk) << "RAM budget 0 keeps nothing written";
  EXPECT_EQ(one->restorable(tokens), std::vector<std::size_t>{100});
  one->cache->flush();
  one->die();
  one->files.power_cut();
  ASSERT_TRUE(one->open());
  EXPECT_EQ(one->restorable(tokens), std::vector<std::size_t>{100});
  EXPECT_EQ(one->restorable(tokens + conversation(70, 9)), std::vector<std::size_t>{100}) << "what goes on beyond it";
  EXPECT_EQ(one->restorable(head(tokens, 99)), std::vector<std::size_t>{}) << "what ends before it";
}

TEST_P(CachePoints, GoingBackToAnAbandonedBranchFindsItsPoints) {
  const auto one = world(ByteCount{0});
  ASSERT_TRUE(one->open());
  const Tokens trunk = conversation(10, 50);
  const Tokens first = trunk + conversation(40, 50);
  const Tokens second = trunk + conversation(60, 70);
  for (const Tokens& tokens : {trunk, first, second}) {
    ASSERT_TRUE(one->keep(tokens));
    one->writer.run_all();
  }
  const auto expected = [&](std::size_t end) { return std::vector<std::size_t>{50, end}; };
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(one->restorable(second), expected(120));
    EXPECT_EQ(one->restorable(trunk), std::vector<std::size_t>{50});
    EXPECT_EQ(one->restorable(first), expected(100)) << "restoring an earlier one erased no later one";
    ASSERT_TRUE(one->restart());
  }
}

TEST_P(CachePoints, NothingIsCapturedOrWrittenTwice) {
  const auto one = world();
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 100);
  ASSERT_TRUE(one->keep(tokens));
  one->writer.run_all();
  const auto written = [&] { return one->store->counters().payload_bytes_written; };
  const std::uint64_t before = written();
  OneSequence memory(tokens, GetParam());
  const PointResult again = capture_point(*one->cache, memory, SeqId{0}, tokens, one->cache->track(tokens));
  EXPECT_TRUE(again.complete);
  EXPECT_EQ(again.bytes, ByteCount{0});
  EXPECT_EQ(memory.points_copied() + memory.window_copied(), 0U);
  ASSERT_TRUE(one->keep(tokens));
  one->writer.run_all();
  EXPECT_EQ(written(), before);
}

TEST_P(CachePoints, AreCountedInTheTiersTheyLieIn) {
  const auto one = world();
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 96);
  ASSERT_EQ(one->grow(tokens), 96U);
  one->writer.run_all();
  const CacheStats rows = one->cache->stats();
  EXPECT_EQ(rows.points, 0U);
  EXPECT_EQ(rows.points_ram + rows.points_disk, ByteCount{0});
  ASSERT_TRUE(one->capture_leaf(tokens));
  one->writer.run_all();
  const CacheStats both = one->cache->stats();
  EXPECT_EQ(both.points, windowed() ? 2U : 1U) << "a leaf per segment";
  EXPECT_EQ(both.segments, rows.segments);
  EXPECT_GT(both.points_ram, ByteCount{0});
  EXPECT_EQ(both.points_ram, both.ram_used - rows.ram_used);
  EXPECT_GT(both.points_disk, ByteCount{0});
  EXPECT_EQ(both.points_disk, both.disk_used - rows.disk_used);
  ASSERT_TRUE(one->restart());
  EXPECT_EQ(one->cache->stats().points, both.points);
  EXPECT_EQ(one->cache->stats().points_ram, ByteCount{0});
  EXPECT_EQ(one->cache->stats().points_disk, both.points_disk);
  one->cache->report_damaged(one->cache->lease(tokens)->points().front().id);
  EXPECT_LT(one->cache->stats().points_disk, both.points_disk);
  EXPECT_EQ(one->cache->stats().points, both.points - 1);
}

TEST_P(CachePoints, AreNotCountedInRamOnceTheyLeftIt) {
  const auto one = world(ByteCount{0});
  ASSERT_TRUE(one->open());
  ASSERT_TRUE(one->keep(conversation(10, 96)));
  EXPECT_GT(one->cache->stats().points_ram, ByteCount{0});
  one->writer.run_all();
  EXPECT_EQ(one->cache->stats().points_ram, ByteCount{0});
  EXPECT_EQ(one->cache->stats().ram_used, ByteCount{0});
}

// And states that are built on it.
TEST_P(CachePoints, DamageCostsThePointAndNothingElse) {
  const auto one = world(ByteCount{0});
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 128);
  for (const std::size_t at : {48U, 80U, 128U}) ASSERT_TRUE(one->keep(head(tokens, at)));
  one->writer.run_all();
  ASSERT_EQ(one->restorable(tokens), (std::vector<std::size_t>{48, 80, 128}));
  const std::string suffix{format::file_suffix(kind())};
  std::size_t damaged = 0;
  for (const std::string& path : one->segment_files()) {
    if (!path.ends_with(suffix)) continue;
    // The leaf that ends at 80.
    auto bytes = *one->files.contents(path);
    const auto header = format::decode_header(bytes);
    ASSERT_TRUE(header.ok());
    if (header->name.end != Position{80}) continue;
    bytes.back() ^= std::byte{1};
    one->files.plant(path, bytes);
    ++damaged;
  }
  ASSERT_EQ(damaged, 1U);
  const bool built = GetParam().shape.whole_points;
  const auto left = built ? std::vector<std::size_t>{48} : std::vector<std::size_t>{48, 128};
  EXPECT_EQ(one->restorable(tokens), left);
  EXPECT_EQ(one->cache->stats().damaged, 1U);
  EXPECT_EQ(one->check(tokens), 128U) << "the rows are untouched";
  one->writer.run_all();
  ASSERT_TRUE(one->restart());
  EXPECT_EQ(one->restorable(tokens), left);
  ASSERT_TRUE(one->keep(head(tokens, 80)));
  if (built) {
    ASSERT_TRUE(one->keep(tokens));
  }
  EXPECT_EQ(one->restorable(tokens), (std::vector<std::size_t>{48, 80, 128})) << "it can be stored again";
}

TEST_P(CachePoints, ADamagedPointIsNotOfferedWhileSomebodyHoldsIt) {
  const auto one = world();
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 16);
  ASSERT_TRUE(one->keep(tokens));
  one->writer.run_all();
  std::shared_ptr<Lease> holder = one->cache->lease(tokens);
  one->cache->report_damaged(holder->points().front().id);
  EXPECT_TRUE(one->cache->lease(tokens)->points().empty());
  EXPECT_EQ(one->cache->lease(tokens)->end(), Position{16});
  EXPECT_FALSE(one->capture_leaf(tokens)) << "its place is taken";
  EXPECT_EQ(one->cache->stats().points, 1U);
  holder.reset();
  EXPECT_EQ(one->cache->stats().points, 0U);
  EXPECT_TRUE(one->capture_leaf(tokens));
  EXPECT_EQ(one->restorable(tokens), reached(16));
}

TEST_P(CachePoints, DamagedRowsTakeThePointsBelowWithThem) {
  const auto one = world(ByteCount{0});
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 96);
  for (const std::size_t at : {32U, 96U}) ASSERT_TRUE(one->keep(head(tokens, at)));
  one->writer.run_all();
  one->cache->report_damaged(one->cache->lease(tokens)->steps()[2].segment);
  one->writer.run_all();
  EXPECT_EQ(one->restorable(tokens), std::vector<std::size_t>{32});
  EXPECT_EQ(one->cache->stats().points, windowed() ? 2U : 1U);
  ASSERT_TRUE(one->restart());
  EXPECT_EQ(one->restorable(tokens), std::vector<std::size_t>{32});
}

TEST_P(CachePoints, APointIsNotWrittenBeforeWhatItHangsBelow) {
  const auto one = world();
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 32);
  ASSERT_TRUE(one->keep(tokens, 32));
  one->files.set_plan({FaultKind::kFailOnce, 1});
  EXPECT_TRUE(one->writer.run_one());
  EXPECT_TRUE(one->files.fault_fired());
  one->files.set_plan({FaultKind::kFailOnce, 1});
  EXPECT_TRUE(one->writer.run_one()) << "of the point, which takes the rows along";
  EXPECT_EQ(one->segment_files().size(), 0U) << "a file whose beginning nobody has";
  const Tokens longer = tokens + conversation(50, 16);
  ASSERT_TRUE(one->keep(longer));
  one->writer.run_all();
  ASSERT_TRUE(one->restart());
  EXPECT_EQ(one->check(longer), 48U);
  EXPECT_EQ(one->restorable(longer), windowed() ? range_of(32, 48) : std::vector<std::size_t>({32, 48}))
      << "what continues them takes both along";
}

TEST_P(CachePoints, APointWhoseRowsAreGoneGivesItsRoomBack) {
  const auto one = world(ByteCount{0});
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 16);
  ASSERT_EQ(one->grow(tokens), 16U);
  one->writer.run_all();
  const std::vector<std::string> rows = one->segment_files();
  ASSERT_EQ(rows.size(), 1U);
  ASSERT_TRUE(one->capture_leaf(tokens));
  one->writer.run_all();
  ASSERT_GT(one->segment_files().size(), 1U);
  one->die();
  one->files.kill();
  ASSERT_TRUE(one->files.remove(rows.front()).ok());
  ASSERT_TRUE(one->open());
  EXPECT_EQ(one->restorable(tokens), std::vector<std::size_t>{});
  EXPECT_EQ(one->segment_files().size(), 0U);
  ASSERT_TRUE(one->keep(tokens));
  EXPECT_EQ(one->restorable(tokens), reached(16));
}

TEST_P(CachePoints, APointThatNoTierCanHoldIsRefusedAndCounted) {
  const auto one = world(ByteCount{20 * sizeof(TokenId)});  // less than a point; rows of no bytes fit
  one->open_without_disk();
  const Tokens tokens = conversation(10, 16);
  one->grow(tokens);
  const std::uint64_t refused = one->cache->stats().refused;
  EXPECT_FALSE(one->capture_leaf(tokens));
  EXPECT_EQ(one->cache->stats().points, 0U);
  EXPECT_EQ(one->cache->stats().refused - refused, GetParam().row_bytes == 0 ? 1U : 0U)
      << "where the rows were refused, nobody asks for more";
}

// Without a request for room first, or where its segment is forgotten.
TEST_P(CachePoints, APointWithoutRoomIsRefusedWhenItComes) {
  const auto one = world(ByteCount{32 * kRowBytes + 600});
  one->open_without_disk();
  const Tokens tokens = conversation(10, 32);
  ASSERT_EQ(one->grow(tokens), 32U);
  const Track track = one->cache->track(tokens);
  const auto store = [&](std::size_t size) {
    if (!windowed()) return one->cache->store_point(track, kind(), one->cache->staging(size), size);
    return one->cache->store_window(track, {Position{16}, Position{32}}, one->cache->staging(size), size);
  };
  EXPECT_FALSE(store(32 * kRowBytes + 601));
  one->cache->report_damaged(one->cache->lease(tokens)->steps()[0].segment);
  EXPECT_FALSE(store(300));
  EXPECT_EQ(one->cache->stats().points, 0U);
}

TEST_P(CachePoints, AStateLargerThanTheDiskPushesNothingOut) {
  const auto one = world(mebibytes(1), ByteCount{20 * 8192});
  ASSERT_TRUE(one->open());
  const Tokens small = conversation(100, 32);
  ASSERT_TRUE(one->keep(small));
  const Tokens tokens = conversation(10, 32);
  ASSERT_EQ(one->grow(tokens), 32U);
  one->writer.run_all();
  const ByteCount before = one->store->used();
  const std::size_t large = 21 * 8192;
  const Track track = one->cache->track(tokens);
  if (windowed()) {
    EXPECT_TRUE(one->cache->store_window(track, {Position{16}, Position{32}}, one->cache->staging(large), large));
  } else {
    EXPECT_TRUE(one->cache->store_point(track, kind(), one->cache->staging(large), large));
  }
  one->writer.run_all();
  EXPECT_EQ(one->cache->stats().disk_refused, 1U);
  EXPECT_EQ(one->cache->stats().from_disk.count(), 0U);
  EXPECT_EQ(one->store->used(), before);
  EXPECT_EQ(one->restorable(small), std::vector<std::size_t>{32});
}

TEST_P(CachePoints, ALeaseHoldsItsPoints) {
  const auto one = world(ByteCount{0}, ByteCount{30 * 8192});
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(1, 32);
  ASSERT_TRUE(one->keep(tokens));
  one->writer.run_all();
  const std::shared_ptr<Lease> lease = one->cache->lease(tokens);
  for (TokenId i = 1; i <= 30; ++i) {
    one->clock.advance_ms(3'600'000);
    ASSERT_TRUE(one->keep(conversation(i * 100, 32)));
    one->writer.run_all();
    ASSERT_LE(one->store->used(), one->store->budget());
  }
  EXPECT_GT(one->cache->stats().from_disk.count(), 0U);
  EXPECT_EQ(one->restorable(tokens), std::vector<std::size_t>{32});
  EXPECT_EQ(one->restorable(conversation(3000, 32)), std::vector<std::size_t>{32}) << "what was stored last is there";
}

TEST_P(CachePoints, LoadingAPointTellsWhatCameFromDiskAndKeepsTheRamBudget) {
  const auto one = world(ByteCount{2000});
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 16);
  ASSERT_TRUE(one->keep(tokens));
  one->writer.run_all();
  ASSERT_TRUE(one->restart());
  const auto load = [&] {
    LoadResult result;
    one->cache->load(one->cache->lease(tokens), {}, [&](LoadResult r) { result = r; }, Position{16});
    one->reader.run_all();
    EXPECT_TRUE(result.status.ok());
    return result.bytes_read;
  };
  const std::size_t size =
      windowed() ? 16 * kWindowRowBytes
                 : point_of(tokens, Position{16}, !GetParam().shape.points || GetParam().shape.whole_points).size();
  EXPECT_EQ(load(), ByteCount{size}) << "the point, no rows";
  EXPECT_EQ(load(), ByteCount{0}) << "and it stays there";
  EXPECT_LE(one->cache->stats().ram_used, ByteCount{2000});
}

TEST_P(CachePoints, LoadingWhereNothingIsStoredSaysSo) {
  const auto one = world();
  ASSERT_TRUE(one->open());
  const Tokens tokens = conversation(10, 48);
  ASSERT_TRUE(one->keep(tokens));
  for (const std::uint32_t at : {0U, 47U, 49U}) {
    std::optional<Status> outcome;
    one->cache->load(one->cache->lease(tokens), {}, [&](LoadResult r) { outcome = r.status; }, Position{at});
    one->reader.run_all();
    ASSERT_TRUE(outcome.has_value());
    ASSERT_FALSE(outcome->ok()) << at;
    EXPECT_EQ(outcome->error().kind, ErrorKind::kNotFound);
  }
}

// ---- rows of no bytes ----

TEST(CacheWithoutRows, IdsAreHeldInRamUntilTheyAreOnDisk) {
  World world;
  world.model = kRecurrentModel;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 48);
  ASSERT_EQ(world.grow(tokens), 48U);
  EXPECT_EQ(world.cache->stats().ram_used, ByteCount{48 * sizeof(TokenId)});
  EXPECT_EQ(world.cache->stats().tokens, 48U);
  world.writer.run_all();
  EXPECT_EQ(world.cache->stats().ram_used, ByteCount{0});
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.cache->stats().tokens, 48U);
  const auto lease = world.cache->lease(tokens);
  EXPECT_TRUE(lease->loaded({Position{}, Position{48}})) << "nothing has to be read";
  EXPECT_EQ(lease->steps().front().tier, Tier::kRam);
  EXPECT_EQ(lease->pieces({Position{}, Position{48}}).size(), 3U);
}

TEST(CacheWithoutRows, MemoryAloneForgetsThemToo) {
  World world(ByteCount{4000});
  world.model = kRecurrentModel;
  world.open_without_disk();
  for (TokenId i = 1; i < 200; ++i) {
    world.clock.advance_ms(60'000);
    world.grow(conversation(i * 10, 40));
    world.writer.run_all();
    ASSERT_LE(world.cache->stats().ram_used, ByteCount{4000});
  }
  EXPECT_LE(world.cache->stats().tokens, 1000U);
  EXPECT_TRUE(world.keep(conversation(5000, 40)));
}

TEST(CacheWithoutRows, NoBufferIsTakenFromOthers) {
  World world;
  world.model = kRecurrentModel;
  ASSERT_TRUE(world.open());
  world.cache->prepare_staging(1, 1U << 20);
  world.writer.run_all();
  const ByteCount idle = world.cache->stats().staging_idle;
  ASSERT_GT(idle, ByteCount{0});
  ASSERT_EQ(world.grow(conversation(10, 48)), 48U);
  EXPECT_EQ(world.cache->stats().staging_idle, idle);
}

}  // namespace
}  // namespace kvkeep::cache
