// Capture copies what the cache will take, and nothing else.

#include "cache/capture.h"

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

// A model's memory whose sequence holds the rows of `tokens`; counts the rows that are copied out.
class OneSequence final : public ModelMemory {
 public:
  explicit OneSequence(Tokens tokens) : tokens_(std::move(tokens)) {}

  StateShape shape() const override { return {.cacheable = true}; }
  Position stands_from(SeqId) const override { return {}; }
  std::uint64_t rows_bytes(std::size_t tokens) const override { return tokens * kRowBytes; }
  Result<std::size_t> save_rows(SeqId, TokenRange range, MutableByteSpan out) override {
    const std::vector<std::byte> rows = rows_of(tokens_, range);
    std::ranges::copy(rows, out.begin());
    copied_ += range.size();
    return rows.size();
  }
  std::size_t copied() const { return copied_; }

  std::uint32_t sequence_count() const override { return 1; }
  std::uint32_t cells_total() const override { return 1U << 20; }
  std::uint32_t cells_used() const override { return static_cast<std::uint32_t>(tokens_.size()); }
  std::uint32_t cells_owned(SeqId) const override { return cells_used(); }
  Position length(SeqId) const override { return Position{} + tokens_.size(); }
  Status restore_rows(SeqId, std::span<const RowPiece>) override { return {}; }
  std::uint64_t window_bytes(std::size_t) const override { return 0; }
  Result<std::size_t> save_window(SeqId, TokenRange, MutableByteSpan) override { return unsupported("no windows"); }
  std::uint64_t point_bytes(SeqId) const override { return 0; }
  Result<std::size_t> save_point(SeqId, MutableByteSpan) override { return unsupported("no points"); }
  Status restore_point(SeqId, std::span<const RowPiece>) override { return unsupported("no points"); }
  Status fork(SeqId, SeqId, Position) override { return {}; }
  bool truncate(SeqId, Position) override { return true; }
  void clear(SeqId) override {}

 private:
  const Tokens tokens_;
  std::size_t copied_ = 0;
};

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
