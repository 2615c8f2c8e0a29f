#include "cache/lost_memory.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

namespace kvkeep::cache {
namespace {

using explain::LossCause;
using Tokens = std::vector<TokenId>;

// An index of one prompt, cut into segments of equal length, that loses them from the end.
struct LosingIndex {
  LosingIndex(std::size_t count, std::size_t per_segment, TokenId from = 1) : tokens(count), size(per_segment) {
    std::iota(tokens.begin(), tokens.end(), from);
    fill();
  }
  // One segment.
  explicit LosingIndex(Tokens prompt) : tokens(std::move(prompt)), size(tokens.size()) { fill(); }
  void fill() {
    index::Cursor at;
    while (at.at.value() < tokens.size()) {
      const TokenSpan next = TokenSpan(tokens).subspan(at.at.value(), std::min(size, tokens.size() - at.at.value()));
      const Position end = at.at + next.size();
      segments.push_back(index.insert(at, next, hash(at.at), hash(end)));
      at = {segments.back(), end};
    }
  }
  PrefixHash hash(Position end) const {
    PrefixHasher hasher(key);
    hasher.append(TokenSpan(tokens).first(end.value()));
    return hasher.current();
  }
  void lose_last(LostMemory& lost, LossCause cause, std::int64_t now_ns) {
    lost.note(index, segments.back(), cause, now_ns);
    index.erase(segments.back());
    segments.pop_back();
  }

  FingerprintHash key{};
  Tokens tokens;
  std::size_t size;
  index::PrefixIndex index;
  std::vector<SegmentId> segments;
};

TEST(LostMemory, RowsAreFoundWhereTheKnownPartEnds) {
  LosingIndex world(400, 100);
  LostMemory lost;
  world.lose_last(lost, LossCause::kDiskBudget, 30);
  world.lose_last(lost, LossCause::kDiskBudget, 20);
  EXPECT_EQ(lost.find_rows(world.tokens, Position{200}, world.key),
            (explain::LostState{LossCause::kDiskBudget, 20, 200}))
      << "both, one after the other";
  EXPECT_EQ(lost.find_rows(world.tokens, Position{300}, world.key),
            (explain::LostState{LossCause::kDiskBudget, 30, 100}));
  EXPECT_EQ(lost.find_rows(world.tokens, Position{400}, world.key), std::nullopt);
}

TEST(LostMemory, OtherPromptsDidNotLoseThem) {
  LosingIndex world(300, 100);
  LostMemory lost;
  world.lose_last(lost, LossCause::kRamBudget, 1);
  Tokens other = world.tokens;
  other[5] = 9'999;
  EXPECT_EQ(lost.find_rows(other, Position{200}, world.key), std::nullopt) << "another prefix, the same rest";
  Tokens parts = world.tokens;
  parts[200] = 9'999;
  EXPECT_EQ(lost.find_rows(parts, Position{200}, world.key), std::nullopt) << "the same prefix, another rest";
  FingerprintHash tenant{};
  tenant.bytes[0] = 1;
  EXPECT_EQ(lost.find_rows(world.tokens, Position{200}, tenant), std::nullopt) << "another tenant";
}

// For every place at which a prompt leaves a lost segment, the part that it lost is counted to the nearest check.
TEST(LostMemory, PartsOfSegmentsAreCountedToTheNearestCheck) {
  constexpr std::size_t kSize = 4 * LostMemory::kCheckedTokens + 10;
  LosingIndex world(kSize, kSize);
  LostMemory lost;
  world.lose_last(lost, LossCause::kExpired, 7);
  for (std::size_t at = 1; at <= kSize; ++at) {
    Tokens parts = world.tokens;
    if (at < kSize) parts[at] = 9'999;
    const auto found = lost.find_rows(parts, Position{}, world.key);
    const std::size_t expected = at == kSize ? kSize : at / LostMemory::kCheckedTokens * LostMemory::kCheckedTokens;
    ASSERT_EQ(found ? found->tokens : 0, expected) << at;
  }
  const Tokens cut(world.tokens.begin(), world.tokens.begin() + 300);
  EXPECT_EQ(lost.find_rows(cut, Position{}, world.key)->tokens, 2 * LostMemory::kCheckedTokens) << "a shorter prompt";
}

// All prompts begin at one place, most of them with the same token.
TEST(LostMemory, OfManyThatPartThereItsOwnCounts) {
  LostMemory lost;
  std::vector<LosingIndex> worlds;
  for (TokenId i = 0; i < 50; ++i) {
    LosingIndex& world = worlds.emplace_back(100, 100);
    world.tokens[1] = 1'000 + i;
    world = LosingIndex(world.tokens);
    world.lose_last(lost, LossCause::kRamBudget, i);
  }
  for (TokenId i = 0; i < 50; ++i) {
    const LosingIndex& world = worlds[static_cast<std::size_t>(i)];
    EXPECT_EQ(lost.find_rows(world.tokens, Position{}, world.key), (explain::LostState{LossCause::kRamBudget, i, 100}));
  }
}

// The known part may end anywhere in lost rows: where another prompt left them, for instance.
TEST(LostMemory, TheKnownPartMayEndWithinLostRows) {
  LosingIndex world(400, 100);
  LostMemory lost;
  for (int i = 4; i > 0; --i) world.lose_last(lost, LossCause::kRamBudget, i);
  for (std::uint32_t known = 0; known < 400; ++known) {
    const auto found = lost.find_rows(world.tokens, Position{known}, world.key);
    ASSERT_EQ(found, (explain::LostState{LossCause::kRamBudget, known / 100 + 1, 400 - known})) << known;
  }
}

// A segment that begins with a few tokens of this prompt and goes on as another one is not recognised.
TEST(LostMemory, RowsBeforeALostSegmentWereThereAsWell) {
  LosingIndex world(400, 100);
  LostMemory lost;
  LostMemory elsewhere;
  for (int i = 4; i > 0; --i) world.lose_last(i == 1 || i == 3 ? elsewhere : lost, LossCause::kRamBudget, i);
  EXPECT_EQ(lost.find_rows(world.tokens, Position{}, world.key), (explain::LostState{LossCause::kRamBudget, 2, 400}));
  EXPECT_EQ(lost.find_rows(TokenSpan(world.tokens).first(300), Position{}, world.key),
            (explain::LostState{LossCause::kRamBudget, 2, 200}));
}

TEST(LostMemory, TheNewestLossCounts) {
  LostMemory lost;
  for (const std::int64_t when : {1, 2}) {
    LosingIndex world(100, 100);
    world.lose_last(lost, when == 1 ? LossCause::kDamaged : LossCause::kForgotten, when);
  }
  const LosingIndex world(100, 100);
  EXPECT_EQ(lost.find_rows(world.tokens, Position{}, world.key)->cause, LossCause::kForgotten);
}

TEST(LostMemory, LeavesAreFoundByTheirPosition) {
  LosingIndex world(300, 100);
  LostMemory lost;
  for (const std::size_t segment : {0U, 1U}) {
    const Position end = Position{} + 100 * (segment + 1);
    const SegmentId leaf = world.index.insert_leaf({world.segments[segment], end}, format::PartKind::kPoint, end,
                                                   world.hash(end), world.hash(end));
    lost.note(world.index, leaf, LossCause::kRamBudget, 10 + static_cast<std::int64_t>(segment));
  }
  const auto find = [&](std::uint32_t begin, std::uint32_t end) {
    return lost.find_leaf(world.tokens, {Position{begin}, Position{end}}, world.key);
  };
  EXPECT_EQ(find(0, 300)->when_ns, 11) << "the deepest";
  EXPECT_EQ(find(0, 199)->when_ns, 10);
  EXPECT_EQ(find(100, 199), std::nullopt) << "beyond the one, before the other";
  Tokens other = world.tokens;
  other[5] = 9'999;
  EXPECT_EQ(lost.find_leaf(other, {Position{}, Position{300}}, world.key), std::nullopt);
}

TEST(LostMemory, IsBounded) {
  LostMemory lost(4, 2);
  for (int i = 0; i < 20; ++i) {
    LosingIndex world(10, 10, 1 + i);
    const Position end{10};
    const SegmentId leaf = world.index.insert_leaf({world.segments[0], end}, format::PartKind::kPoint, end,
                                                   world.hash(end), world.hash(end));
    lost.note(world.index, leaf, LossCause::kRamBudget, i);
    world.index.erase(leaf);
    world.lose_last(lost, LossCause::kRamBudget, i);
  }
  EXPECT_EQ(lost.rows(), 4U);
  EXPECT_EQ(lost.leaves(), 2U);
  const LosingIndex oldest(10, 10, 1 + 15);
  EXPECT_EQ(lost.find_rows(oldest.tokens, Position{}, oldest.key), std::nullopt);
  const LosingIndex kept(10, 10, 1 + 16);
  EXPECT_EQ(lost.find_rows(kept.tokens, Position{}, kept.key)->when_ns, 16);
}

}  // namespace
}  // namespace kvkeep::cache
