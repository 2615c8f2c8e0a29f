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

TEST(Capture, CopiesNothingForAPlaceThatIsForgottenButHeld) {
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

// ---- what a template begins every chat with ----

// Conversations share a head of so many tokens and nothing else; the tier has room for one of them and little more.
class SharedHead : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t kLength = 2000;
  static constexpr std::size_t kRoom = kLength + 200;
  static Tokens with_head(TokenId own) { return conversation(1, GetParam()) + conversation(own, kLength - GetParam()); }
  // Up to where a later conversation still finds the first one, when the tier was full.
  static std::size_t most_left() { return GetParam() <= 32 ? 32 : 256; }

  static void use_two(World& world) {
    ASSERT_NO_FATAL_FAILURE(capture_one(world, with_head(100)));
    world.clock.advance_ms(3'600'000);
    ASSERT_NO_FATAL_FAILURE(capture_one(world, with_head(200)));
    EXPECT_EQ(world.check(with_head(200)), kLength) << "the later one is whole";
    EXPECT_GE(world.check(with_head(100)), GetParam());
    EXPECT_LE(world.check(with_head(100)), most_left()) << "of the first one there is what they share";
  }
  static void capture_one(World& world, const Tokens& tokens) {
    OneSequence memory(tokens);
    Track track = world.cache->track(Tokens{});
    ASSERT_TRUE(capture(*world.cache, memory, SeqId{0}, tokens, track).complete);
    world.writer.run_all();
  }
};

// Only role markers, and with a date and a default system prompt.
INSTANTIATE_TEST_SUITE_P(Lengths, SharedHead, testing::Values(std::size_t{1}, std::size_t{20}, std::size_t{70}));

TEST_P(SharedHead, AFullRamForgetsTheFirstConversationAfterIt) {
  World world(ByteCount{kRoom * kRowBytes});
  world.open_without_disk();
  use_two(world);
}

TEST_P(SharedHead, AFullDiskForgetsTheFirstConversationAfterIt) {
  World world(ByteCount{0}, ByteCount{kLength * 3 / 2 * (kRowBytes + sizeof(TokenId))});
  ASSERT_TRUE(world.open());
  use_two(world);
}

TEST_P(SharedHead, AFullRamForgetsAFormerConversationThatLeftAnotherInIt) {
  World world(ByteCount{kRoom * kRowBytes});
  world.open_without_disk();
  ASSERT_NO_FATAL_FAILURE(capture_one(world, conversation(1, 1) + conversation(300, 9)));
  use_two(world);
}

// ---- points and windows ----

class CapturePoint : public testing::TestWithParam<ModelClass> {
 protected:
  void SetUp() override {
    world.model = GetParam();
    ASSERT_TRUE(world.open());
  }
  // Captures rows and points or windows of a sequence that holds `tokens`.
  PointResult capture_all(OneSequence& memory, const Tokens& tokens) {
    Track track = world.cache->track(Tokens{});
    EXPECT_TRUE(capture(*world.cache, memory, SeqId{0}, tokens, track).complete);
    return capture_point(*world.cache, memory, SeqId{0}, tokens, track);
  }
  World world;
};

INSTANTIATE_TEST_SUITE_P(Classes, CapturePoint, testing::ValuesIn(kPointModels),
                         [](const auto& model) { return std::string(model.param.name); });

TEST_P(CapturePoint, TellsWhatItCopied) {
  const Tokens tokens = conversation(10, 3000);
  OneSequence memory(tokens, GetParam());
  const PointResult result = capture_all(memory, tokens);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(memory.copied(), GetParam().row_bytes > 0 ? 3000U : 0U) << "rows of no bytes are not asked for";
  if (GetParam().shape.window_tokens > 0) {
    EXPECT_EQ(memory.window_copied(), kWindowTokens);
    EXPECT_EQ(result.bytes, ByteCount{kWindowTokens * kWindowRowBytes});
  } else {
    EXPECT_EQ(memory.points_copied(), 1U);
    EXPECT_EQ(result.bytes, ByteCount{memory.point_bytes(SeqId{0})});
  }
  EXPECT_EQ(world.cache->stats().points_ram, result.bytes);
  EXPECT_EQ(world.cache->stats().segments, 4U) << "of at most 2,048 tokens, that end at 32, 256 and 2,304";
  EXPECT_EQ(world.restorable(tokens), range_of(3000, 3000));
}

TEST_P(CapturePoint, CopiesNothingWhereTheRowsWereRefused) {
  const Tokens tokens = conversation(10, 64);
  OneSequence memory(tokens, GetParam());
  const Track track = world.cache->track(Tokens{});
  const PointResult result = capture_point(*world.cache, memory, SeqId{0}, tokens, track);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(memory.points_copied() + memory.window_copied(), 0U);
}

TEST_P(CapturePoint, AnEmptySequenceNeedsNothing) {
  OneSequence memory({}, GetParam());
  const Track track = world.cache->track(Tokens{});
  EXPECT_TRUE(capture_point(*world.cache, memory, SeqId{0}, {}, track).complete);
  EXPECT_EQ(world.cache->stats().points, 0U);
}

// A state that grows finds the buffer of the one before it, however small the budget.
TEST(Capture, PointsThatGrowShareABuffer) {
  World world(ByteCount{0}, mebibytes(2000));
  world.model = kOpaqueModel;
  ASSERT_TRUE(world.open());
  for (std::size_t i = 0; i < 20; ++i) {
    const std::size_t size = mebibytes(290 + i).value();
    ASSERT_TRUE(world.cache->make_room_for_point(size));
    const store::StagingBuffer state = world.cache->staging(size);
  }
  EXPECT_EQ(world.cache->stats().fresh_buffers, 1U);
}

// Larger than a write queue of 64 MiB, where RAM may hold nothing else: one is written while the next is captured.
TEST_P(CapturePoint, TwoOfAnySizeMayWaitForTheDisk) {
  const bool windowed = GetParam().shape.window_tokens > 0;
  World small(ByteCount{0}, mebibytes(2000));
  small.model = GetParam();
  ASSERT_TRUE(small.open());
  Cache& cache = *small.cache;
  const std::size_t large = mebibytes(400).value();
  const auto store = [&](TokenId first) {
    const Tokens tokens = conversation(first, 32);
    EXPECT_EQ(small.grow(tokens), 32U);
    const Track track = cache.track(tokens);
    if (!cache.make_room_for_point(large)) return false;
    if (windowed) return cache.store_window(track, {Position{16}, Position{32}}, cache.staging(large), large);
    return cache.store_point(track, point_kind(GetParam().shape), cache.staging(large), large);
  };
  EXPECT_TRUE(store(100));
  EXPECT_TRUE(store(200));
  EXPECT_FALSE(store(300));
  small.die();  // so much memory is not touched
}

TEST(CacheWithLargePoints, WithoutADiskTheBudgetHolds) {
  World world(mebibytes(100));
  world.model = kHybridModel;
  world.open_without_disk();
  EXPECT_FALSE(world.cache->make_room_for_point(mebibytes(101).value()));
  EXPECT_TRUE(world.cache->make_room_for_point(mebibytes(99).value()));
}

TEST(CacheWithLargePoints, TheyAreWrittenAndLeave) {
  World world(ByteCount{0}, mebibytes(200));
  world.model = kHybridModel;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 32);
  ASSERT_EQ(world.grow(tokens), 32U);
  const std::size_t large = kMinimumWriteQueue.value() + 1;
  EXPECT_FALSE(world.cache->make_room(large)) << "of rows there are smaller segments";
  ASSERT_TRUE(world.cache->make_room_for_point(large));
  const Track track = world.cache->track(tokens);
  ASSERT_TRUE(world.cache->store_point(track, format::PartKind::kPoint, world.cache->staging(large), large));
  world.writer.run_all();
  EXPECT_EQ(world.cache->stats().ram_used, ByteCount{0});
  EXPECT_GT(world.cache->stats().points_disk, kMinimumWriteQueue);
}

// An empty sequence has a smaller point than those to come, or none.
TEST(Capture, ABufferIsMadeReadyForAPoint) {
  World world(ByteCount{0});
  world.model = kHybridModel;
  world.point_bytes = mebibytes(20);  // more than a small budget lets lie idle
  ASSERT_TRUE(world.open());
  prepare_staging(*world.cache, OneSequence({}, kHybridModel));
  world.writer.run_all();
  EXPECT_GE(world.cache->stats().staging_idle, mebibytes(20));
  EXPECT_LT(world.cache->stats().staging_idle, mebibytes(22));
  { const auto point = world.cache->staging(mebibytes(20).value()); }
  EXPECT_EQ(world.cache->stats().fresh_buffers, 0U);
  EXPECT_GE(world.cache->stats().staging_idle, mebibytes(20)) << "it waits for the next";
}

TEST(Capture, WhereRowsAreAllNoPointIsNeeded) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  ASSERT_EQ(world.grow(tokens), 64U);
  OneSequence memory(tokens);
  const PointResult result = capture_point(*world.cache, memory, SeqId{0}, tokens, world.cache->track(tokens));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.bytes, ByteCount{0});
  const auto lease = world.cache->lease(tokens);
  EXPECT_EQ(lease->restorable(),
            (std::vector<policy::Restorable>{{Position{1}, Position{64}, Tier::kRam, ByteCount{0}}}));
  EXPECT_TRUE(lease->point_loaded(Position{17}));
  EXPECT_TRUE(lease->point_pieces(Position{17}).empty());
  EXPECT_FALSE(lease->point_loaded(Position{65}));
}

}  // namespace
}  // namespace kvkeep::cache
