// A time to live: state that was unused for that long is gone from every tier.

#include <span>

#include "cache/cache_test_fixture.h"
#include "testing/sim/sample_segments.h"

namespace kvkeep::cache {
namespace {

constexpr std::int64_t kHourNs = kHourMs * 1'000'000;

class CacheExpiry : public testing::TestWithParam<ModelClass> {
 protected:
  void SetUp() override {
    world.model = GetParam();
    world.time_to_live_ns = 10 * kHourNs;
    ASSERT_TRUE(world.open());
  }
  void keep(const Tokens& tokens) {
    ASSERT_EQ(world.grow(tokens), tokens.size());
    ASSERT_TRUE(!world.model.shape.needs_points() || world.capture_leaf(tokens));
    world.writer.run_all();
  }
  World world;
  const Tokens a = conversation(100, 64);
  const Tokens b = conversation(200, 64);
};

TEST_P(CacheExpiry, UnusedPathsLeaveBothTiersAndTheRestStays) {
  keep(a);
  keep(b);
  world.pass(6);
  world.use(b);
  world.pass(5);
  EXPECT_EQ(world.check(a), 0U);
  EXPECT_EQ(world.check(b), 64U);
  const std::size_t files = world.segment_files().size();
  EXPECT_GT(files, 0U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.segment_files().size(), files);
  EXPECT_EQ(world.check(b), 64U);
  world.pass(11);
  EXPECT_TRUE(world.segment_files().empty());
  EXPECT_EQ(world.cache->stats().segments, 0U);
  EXPECT_EQ(world.cache->stats().ram_used, ByteCount{});
}

TEST_P(CacheExpiry, APathThatAYoungerOneContinuesStays) {
  keep(a);
  world.pass(9);
  keep(a + b);
  world.pass(2);
  EXPECT_EQ(world.check(a + b), 128U);
  world.pass(9);
  world.pass(0);  // a state that others are built on leaves after them
  EXPECT_EQ(world.check(a + b), 0U);
}

TEST_P(CacheExpiry, AtTheStartItIsLookedAtAsWell) {
  keep(a);
  world.die();
  world.clock.advance_ms(11 * kHourMs);
  ASSERT_TRUE(world.open());
  EXPECT_TRUE(world.segment_files().empty());
  EXPECT_EQ(world.cache->stats().segments, 0U);
}

TEST_P(CacheExpiry, APathKeptBeforeAStartSettlesStays) {
  keep(a);
  keep(b);
  world.die();
  world.clock.advance_ms(11 * kHourMs);
  world.before_settling = [this] {
    world.writer.run_all();  // nothing leaves before
    world.cache->keep(world.cache->track(a), kHourNs);
  };
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(a), 64U);
  EXPECT_TRUE(!world.model.shape.needs_points() || !world.restorable(a).empty());
  EXPECT_EQ(world.check(b), 0U);
}

TEST_P(CacheExpiry, APathStaysAsLongAsItIsHeldOrKept) {
  keep(a);
  keep(b);
  world.cache->keep(world.cache->track(b), 20 * kHourNs);
  world.writer.run_all();
  std::shared_ptr<Lease> lease = world.cache->lease(a);
  world.pass(11);
  EXPECT_EQ(world.check(a), 64U);
  EXPECT_EQ(world.check(b), 64U);
  lease.reset();
  world.pass(0);
  EXPECT_EQ(world.check(a), 0U);
  EXPECT_EQ(world.check(b), 64U);
  world.pass(10);
  EXPECT_EQ(world.check(b), 0U);
}

TEST_P(CacheExpiry, AFileThatCannotBeRemovedIsTriedAgain) {
  keep(a);
  world.files.set_plan({FaultKind::kFailForever, 1});
  world.pass(11);
  EXPECT_FALSE(world.segment_files().empty());
  world.files.heal();
  world.pass(1);
  EXPECT_TRUE(world.segment_files().empty());
}

TEST_P(CacheExpiry, ManyLeaveInPortions) {
  for (TokenId i = 0; i < 600; ++i) keep(conversation(1000 + i * 10, 8));
  world.clock.advance_ms(11 * kHourMs);
  const std::uint64_t before = world.cache->stats().expired;
  world.cache->tick();
  world.writer.run_all();
  const std::uint64_t first = world.cache->stats().expired - before;
  EXPECT_GT(first, 0U);
  EXPECT_LE(first, 600U);
  for (int tick = 0; tick < 10; ++tick) world.pass(0);
  EXPECT_EQ(world.cache->stats().segments, 0U);
}

INSTANTIATE_TEST_SUITE_P(Models, CacheExpiry, testing::Values(kRowsModel, kHybridModel, kOpaqueModel, kWindowedModel),
                         [](const auto& model) { return std::string(model.param.name); });

class CacheExpiryWithoutDisk : public testing::Test {
 protected:
  void open(ModelClass model = kRowsModel) {
    world.model = model;
    world.time_to_live_ns = 10 * kHourNs;
    world.open_without_disk();
  }
  void pass(std::int64_t hours) {
    world.clock.advance_ms(hours * kHourMs);
    world.cache->tick();
    world.writer.run_all();
  }

  World world;
  const Tokens a = conversation(100, 64);
};

TEST_F(CacheExpiryWithoutDisk, RamForgetsToo) {
  open();
  world.grow(a);
  world.pass(11);
  EXPECT_EQ(world.cache->stats().segments, 0U);
}

TEST_F(CacheExpiryWithoutDisk, AHeldPathStays) {
  open();
  world.grow(a);
  std::shared_ptr<Lease> lease = world.cache->lease(a);
  for (const std::size_t expected : {4U, 0U}) {
    world.pass(11);
    EXPECT_EQ(world.cache->stats().segments, expected);
    lease.reset();
  }
}

TEST_F(CacheExpiryWithoutDisk, AStateThatOthersAreBuiltOnLeavesAfterThem) {
  open(kOpaqueModel);
  for (const std::size_t end : {32U, 48U, 64U}) {
    ASSERT_TRUE(world.keep(head(a, end)));
    world.writer.run_all();
  }
  ASSERT_GT(world.cache->stats().built, 0U);
  world.clock.advance_ms(11 * kHourMs);
  for (int tick = 0; tick < 5; ++tick) {
    world.cache->tick();
    world.writer.run_all();
  }
  EXPECT_EQ(world.cache->stats().segments, 0U);
  EXPECT_EQ(world.cache->stats().points, 0U);
}

TEST(CacheExpiryOff, NothingLeaves) {
  World world;
  ASSERT_TRUE(world.open());
  world.grow(conversation(100, 64));
  world.writer.run_all();
  world.clock.advance_ms(100'000 * kHourMs);
  world.cache->tick();
  world.writer.run_all();
  EXPECT_EQ(world.check(conversation(100, 64)), 64U);
}

// Prompts of other models lie in clear as well, and their servers may never run again.
TEST(CacheExpiryOfOthers, FilesOfOtherModelsLeaveButForWhatIsPinned) {
  World world;
  const FingerprintHash other = sim::sample_fingerprint(7);
  const sim::SampleSegment gone = sim::sample_segment(other, 1, 0, 1000);
  const sim::SampleSegment pinned = sim::sample_segment(other, 2, 0, 1000);
  {
    auto store = store::DiskStore::open({.directory = "/cache", .fingerprint = other, .budget = mebibytes(4)},
                                        world.files, world.clock);
    ASSERT_TRUE(store.ok());
    for (const auto* segment : {&gone, &pinned})
      ASSERT_TRUE((*store)->put(segment->header, {{format::PartKind::kRows, segment->payload}}).ok());
  }
  const std::string text = pinned.header.name.end_hash.hex() + "\n";
  const auto bytes = std::as_bytes(std::span(text));
  world.files.plant("/cache/" + other.hex() + "/pins", {bytes.begin(), bytes.end()});
  world.time_to_live_ns = 10 * kHourNs;
  ASSERT_TRUE(world.open());
  const auto there = [&](const sim::SampleSegment& segment) {
    return world.files.contents("/cache/" + other.hex() + "/" + format::file_name(segment.header.name)).has_value();
  };
  for (int hour = 0; hour < 9; ++hour) {
    world.clock.advance_ms(kHourMs);
    world.cache->tick();
    world.writer.run_all();
  }
  EXPECT_TRUE(there(gone));
  world.clock.advance_ms(2 * kHourMs);
  world.cache->tick();
  world.writer.run_all();
  EXPECT_FALSE(there(gone));
  EXPECT_TRUE(there(pinned));
}

}  // namespace
}  // namespace kvkeep::cache
