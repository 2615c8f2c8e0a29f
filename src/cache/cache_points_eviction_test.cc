// Full budgets with points and windows: which of them, and of the rows below them, leave, and how uses change that.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

// Only on disk, or only in RAM.
using Case = std::tuple<ModelClass, bool>;

class CachePointsEviction : public testing::TestWithParam<Case> {
 protected:
  const ModelClass& model() const { return std::get<0>(GetParam()); }
  bool on_disk() const { return std::get<1>(GetParam()); }
  // A world with room for so many conversations of 64 tokens in one piece, points included.
  std::unique_ptr<World> world_for(std::size_t conversations) const {
    const std::size_t rows = 64 * model().row_bytes;
    const std::size_t state = model().shape.window_tokens > 0
                                  ? kWindowTokens * kWindowRowBytes
                                  : point_of(conversation(1, 64), Position{64}, model().shape.whole_points).size();
    const std::size_t in_ram = (rows > 0 ? rows : 64 * sizeof(TokenId)) + state;
    const std::size_t files = (rows > 0 ? 12288 : 8192) + 8192;
    auto world =
        std::make_unique<World>(ByteCount{on_disk() ? 0 : conversations * in_ram}, ByteCount{conversations * files});
    world->model = model();
    world->save_index_after = SIZE_MAX;  // its growth would blur the sizes
    if (on_disk()) {
      EXPECT_TRUE(world->open());
    } else {
      world->open_without_disk();
    }
    return world;
  }
  std::uint64_t evicted(const World& world) const {
    return on_disk() ? world.cache->stats().from_disk.count() : world.cache->stats().from_ram.count();
  }
  static void keep_others(World& world, TokenId first, int count, std::int64_t apart_ms = 60'000) {
    for (int i = 0; i < count; ++i) {
      world.clock.advance_ms(apart_ms);
      ASSERT_TRUE(world.keep(conversation(first + i * 10, 64), 64));
      world.writer.run_all();
      ASSERT_LE(world.cache->stats().ram_used, world.cache->stats().ram_budget);
      ASSERT_LE(world.cache->stats().disk_used, world.cache->stats().disk_budget);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Classes, CachePointsEviction,
                         testing::Combine(testing::ValuesIn(kPointModels), testing::Bool()), [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) +
                                  (std::get<1>(param.param) ? "Disk" : "Ram");
                         });

TEST_P(CachePointsEviction, BudgetsHoldAndWhatWasStoredLastIsThere) {
  const auto world = world_for(10);
  for (TokenId i = 0; i < 40; ++i) {
    ASSERT_NO_FATAL_FAILURE(keep_others(*world, 1000 + i * 100, 1));
    ASSERT_EQ(world->restorable(conversation(1000 + i * 100, 64)), range_of(64, 64)) << "conversation " << i;
  }
  EXPECT_GT(evicted(*world), 0U);
}

TEST_P(CachePointsEviction, RowsThatNothingRestoresLeaveFirst) {
  const auto world = world_for(10);
  const Tokens kept = conversation(100, 64);
  ASSERT_TRUE(world->keep(kept, 64));
  world->clock.advance_ms(kHourMs);
  // Later, and so worth more by age, but without a point.
  for (const TokenId first : {200, 300, 400, 500}) ASSERT_EQ(world->grow(conversation(first, 64), 64), 64U);
  world->writer.run_all();
  for (TokenId i = 0; evicted(*world) == 0; ++i) ASSERT_NO_FATAL_FAILURE(keep_others(*world, 1000 + i * 10, 1));
  std::size_t left = 0;
  for (const TokenId first : {200, 300, 400, 500}) left += world->check(conversation(first, 64));
  EXPECT_LT(left, 4U * 64U);
  EXPECT_EQ(world->restorable(kept), range_of(64, 64));
}

TEST_P(CachePointsEviction, AUsedPathStays) {
  const auto world = world_for(10);
  const Tokens used = conversation(100, 64);
  const Tokens idle = conversation(200, 64);
  for (const Tokens& tokens : {used, idle}) ASSERT_TRUE(world->keep(tokens, 64));
  world->writer.run_all();
  for (TokenId i = 0; i < 20; ++i) {
    world->cache->note_use(*world->cache->lease(used), Position{64});
    ASSERT_NO_FATAL_FAILURE(keep_others(*world, 1000 + i * 10, 1));
  }
  EXPECT_EQ(world->restorable(used), range_of(64, 64));
  EXPECT_EQ(world->restorable(idle), std::vector<std::size_t>{});
}

TEST_P(CachePointsEviction, AKeptPathCanStillBeRestored) {
  const auto world = world_for(10);
  const Tokens kept = conversation(100, 64);
  const Tokens idle = conversation(200, 64);
  for (const Tokens& tokens : {kept, idle}) ASSERT_TRUE(world->keep(tokens, 64));
  world->writer.run_all();
  world->cache->keep(world->cache->track(kept), kHourMs * 1'000'000);
  ASSERT_NO_FATAL_FAILURE(keep_others(*world, 1000, 30));
  EXPECT_EQ(world->restorable(kept), range_of(64, 64));
  EXPECT_EQ(world->restorable(idle), std::vector<std::size_t>{});
  world->clock.advance_ms(kHourMs);
  ASSERT_NO_FATAL_FAILURE(keep_others(*world, 2000, 30));
  EXPECT_EQ(world->restorable(kept), std::vector<std::size_t>{});
}

// Two positions of one conversation, far enough from each other to need nothing in common.
TEST_P(CachePointsEviction, OnlyThePointThatWasRestoredCountsAsUsed) {
  for (const bool earlier : {true, false}) {
    const auto world = world_for(10);
    const Tokens tokens = conversation(100, 64);
    ASSERT_EQ(world->grow(tokens, 64), 64U);
    for (const std::size_t at : {32U, 64U}) ASSERT_TRUE(world->capture_leaf(head(tokens, at)));
    world->writer.run_all();
    const Position restored{earlier ? 32U : 64U};
    for (int i = 0; i < 50; ++i) world->cache->note_use(*world->cache->lease(tokens), restored);
    std::vector<std::size_t> restorable{32, 64};
    for (TokenId i = 0; i < 60 && restorable.size() > 1; ++i) {
      ASSERT_NO_FATAL_FAILURE(keep_others(*world, 1000 + i * 10, 1));
      restorable = world->restorable(tokens);
      if (restorable.size() > 1) world->cache->note_use(*world->cache->lease(tokens), restored);
    }
    // An opaque model's later state is built on the earlier one.
    const bool base_stays = model().shape.whole_points && !earlier;
    EXPECT_EQ(restorable,
              base_stays ? std::vector<std::size_t>({32, 64}) : range_of(restored.value(), restored.value()));
    EXPECT_EQ(world->check(tokens), 64U) << "a point may leave anywhere, the rows stay";
  }
}

// A tool loop went on after the point to which the next user message returns.
TEST_P(CachePointsEviction, ThePointThatIsAwaitedOutlastsThoseThatTheLoopPassed) {
  const auto world = world_for(10);
  const Tokens tokens = conversation(100, 160);
  ASSERT_EQ(world->grow(tokens, 80), 160U);
  for (const std::size_t at : {80U, 128U}) ASSERT_TRUE(world->capture_leaf(head(tokens, at)));
  world->writer.run_all();
  for (const std::optional<Position> at :
       {std::optional(Position{128}), std::optional<Position>(), std::optional(Position{80})}) {
    world->cache->await_point(world->cache->track(tokens), at);
  }
  std::vector<std::size_t> restorable{80, 128};
  for (TokenId i = 0; i < 60 && restorable.size() > 1; ++i) {
    world->cache->await_point(world->cache->track(tokens), Position{80});
    ASSERT_NO_FATAL_FAILURE(keep_others(*world, 1000 + i * 10, 1));
    restorable = world->restorable(tokens);
  }
  EXPECT_EQ(restorable, range_of(80, 80));
}

TEST(CachePointsRecency, SurvivesARestart) {
  for (const ModelClass& model : kPointModels) {
    World world(ByteCount{0}, ByteCount{21 * 8192});
    world.model = model;
    ASSERT_TRUE(world.open());
    const auto stored = [](TokenId i) { return conversation(i * 100, 64); };
    for (TokenId i = 1; i <= 6; ++i) ASSERT_TRUE(world.keep(stored(i), 64));
    for (const TokenId i : {3, 1, 6, 2, 5, 4}) {
      world.clock.advance_ms(kHourMs);
      world.cache->note_use(*world.cache->lease(stored(i)));
      world.writer.run_all();
    }
    ASSERT_TRUE(world.restart());
    std::vector<TokenId> gone;
    for (TokenId i = 1; i < 100 && gone.size() < 6; ++i) {
      ASSERT_TRUE(world.keep(conversation(10'000 + i * 10, 64), 64));
      world.writer.run_all();
      for (TokenId k = 1; k <= 6; ++k) {
        if (world.restorable(stored(k)).empty() && !std::ranges::count(gone, k)) gone.push_back(k);
      }
    }
    EXPECT_EQ(gone, (std::vector<TokenId>{3, 1, 6, 2, 5, 4})) << model.name;
  }
}

TEST(CachePointsRecency, TheDeepestPositionIsTakenIfNoneIsGiven) {
  World world(ByteCount{0});
  world.model = kHybridModel;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  for (const std::size_t at : {32U, 64U}) ASSERT_TRUE(world.keep(head(tokens, at)));
  world.writer.run_all();
  world.clock.advance_ms(kHourMs);
  world.cache->note_use(*world.cache->lease(tokens));
  world.writer.run_all();
  const auto files = world.files.list("/cache/" + FingerprintHash{}.hex());
  ASSERT_TRUE(files.ok());
  std::size_t touched = 0;
  for (const os::FileInfo& file : *files) {
    const bool now = file.modified_ns > world.clock.wall_ns() - 1'000'000;
    if (file.name.ends_with(format::file_suffix(format::PartKind::kPoint)) && now) ++touched;
  }
  EXPECT_EQ(touched, 1U);
}

// Segments only in RAM give no room on disk, however little they are worth.
TEST(CachePointsEvictionOnDisk, RoomIsMadeNextToUselessRowsThatWereNeverWritten) {
  World world(mebibytes(1), ByteCount{12 * 12288});
  world.model = kHybridModel;
  world.save_index_after = SIZE_MAX;
  ASSERT_TRUE(world.open());
  world.files.set_plan({FaultKind::kFailForever, 1});
  for (TokenId i = 0; i < 20; ++i) world.grow(conversation(100 + i * 10, 64), 64);
  world.writer.run_all();
  world.files.heal();
  const std::uint64_t refused = world.cache->stats().disk_refused;
  ASSERT_EQ(refused, 20U);
  for (TokenId i = 0; i < 20; ++i) {
    world.clock.advance_ms(60'000);
    ASSERT_TRUE(world.keep(conversation(1000 + i * 10, 64), 64));
    world.writer.run_all();
  }
  EXPECT_GT(world.cache->stats().from_disk.count(), 0U);
  EXPECT_EQ(world.cache->stats().disk_refused, refused);
}

// The old one's file is removed before the new one is written, whichever segment had the new one's number and waits.
TEST(ForgottenPoints, AreOnDiskWhenTheyAreCapturedAgain) {
  World world;
  world.model = kHybridModel;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  ASSERT_TRUE(world.keep(head(tokens, 48)));
  world.writer.run_all();
  ASSERT_TRUE(world.keep(tokens));
  world.cache->forget_points(tokens, {Position{48}, Position{64}});
  ASSERT_EQ(world.restorable(tokens), std::vector<std::size_t>{});
  for (const std::size_t at : {56U, 48U}) ASSERT_TRUE(world.capture_leaf(head(tokens, at)));
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.restorable(tokens), (std::vector<std::size_t>{48, 56}));
}

// A tool loop's windows lie side by side. The one that the next user message returns to has a part in another leaf.
TEST(CacheWindowsEviction, TheWindowThatIsAwaitedOutlastsItsNeighbours) {
  World world(ByteCount{0}, ByteCount{40 * 8192});
  world.model = kWindowedModel;
  world.save_index_after = SIZE_MAX;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(100, 160);
  ASSERT_EQ(world.grow(tokens, 80), 160U);
  for (const std::size_t at : {70U, 80U, 104U, 128U}) ASSERT_TRUE(world.capture_leaf(head(tokens, at)));
  world.writer.run_all();
  std::vector<std::size_t> restorable = world.restorable(tokens);
  ASSERT_EQ(restorable, range_of(70, 128));
  for (TokenId i = 0; i < 60 && !restorable.empty() && restorable.back() > 80; ++i) {
    world.cache->await_point(world.cache->track(tokens), Position{80});
    world.clock.advance_ms(60'000);
    ASSERT_TRUE(world.keep(conversation(1000 + i * 10, 64), 64));
    world.writer.run_all();
    restorable = world.restorable(tokens);
  }
  EXPECT_EQ(restorable, range_of(70, 80));
}

// A window is worth something whole: where pieces left, the others follow before anything that can still be reached.
TEST(CacheWindowsEviction, PiecesOfABrokenWindowLeaveFirst) {
  World world(ByteCount{0}, ByteCount{24 * 8192});
  world.model = kWindowedModel;
  world.save_index_after = SIZE_MAX;
  ASSERT_TRUE(world.open());
  const Tokens broken = conversation(100, 64);
  const Tokens whole = conversation(200, 64);
  for (const Tokens& tokens : {whole, broken}) ASSERT_TRUE(world.keep(tokens));  // each of 4 rows and 2 windows
  world.writer.run_all();
  world.clock.advance_ms(kHourMs);
  world.cache->note_use(*world.cache->lease(broken), Position{64});
  world.cache->report_damaged(world.cache->lease(broken)->points().front().id);
  world.writer.run_all();
  ASSERT_EQ(world.restorable(broken), std::vector<std::size_t>{});
  ASSERT_EQ(world.restorable(whole), range_of(64, 64));
  for (TokenId i = 0; i < 50 && world.cache->stats().from_disk.count() == 0; ++i) {
    ASSERT_TRUE(world.keep(conversation(1000 + i * 10, 64), 64));
    world.writer.run_all();
  }
  EXPECT_TRUE(world.cache->lease(broken)->points().empty());
  EXPECT_EQ(world.restorable(whole), range_of(64, 64));
}

}  // namespace
}  // namespace kvkeep::cache
