#include "cache/lost_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "base/test_seed.h"

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
  LosingIndex(Tokens prompt, std::size_t per_segment) : tokens(std::move(prompt)), size(per_segment) { fill(); }
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

TEST(LostMemory, APromptThatLeavesALossDidNotLoseThoseAfterIt) {
  LosingIndex world(300, 100);
  LostMemory lost;
  world.lose_last(lost, LossCause::kRamBudget, 2);
  world.lose_last(lost, LossCause::kRamBudget, 1);
  Tokens other = world.tokens;
  other[150] = 9'999;
  EXPECT_EQ(lost.find_rows(world.tokens, Position{100}, world.key)->tokens, 200U);
  EXPECT_EQ(lost.find_rows(other, Position{100}, world.key), std::nullopt);
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

// A cache that is too small loses the same conversations again and again.
TEST(LostMemory, TheSameLossIsRememberedOnce) {
  LostMemory lost(6, 1);
  for (std::int64_t round = 1; round <= 3; ++round) {
    LosingIndex world(400, 100);
    for (int i = 0; i < 4; ++i) world.lose_last(lost, LossCause::kRamBudget, round);
    EXPECT_EQ(lost.rows(), 4U);
  }
  for (const TokenId from : {1'000, 2'000, 3'000}) {
    LosingIndex other(100, 100, from);
    other.lose_last(lost, LossCause::kRamBudget, 9);
    LosingIndex first_half(200, 100);
    while (!first_half.segments.empty()) first_half.lose_last(lost, LossCause::kRamBudget, 8);
  }
  const LosingIndex world(400, 100);
  EXPECT_EQ(lost.find_rows(world.tokens, Position{}, world.key), (explain::LostState{LossCause::kRamBudget, 8, 300}))
      << "what was lost again is among the newest, and of the rest the oldest left";
}

TEST(LostMemory, ALossIsFoundAfterThatBeforeItLeft) {
  LosingIndex world(400, 100);
  LostMemory lost(2, 1);
  for (const std::size_t i : {1U, 2U, 3U}) {
    lost.note(world.index, world.segments[i], LossCause::kRamBudget, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(lost.find_rows(world.tokens, Position{100}, world.key),
            (explain::LostState{LossCause::kRamBudget, 2, 300}));
  LosingIndex other(100, 100, 1'000);
  other.lose_last(lost, LossCause::kExpired, 9);
  EXPECT_EQ(lost.find_rows(world.tokens, Position{100}, world.key),
            (explain::LostState{LossCause::kRamBudget, 3, 300}));
}

// The same by comparing tokens: of the lost segments that continue a prefix of the prompt, and begin as it goes on,
// those that reach beyond the known part; and of these the first, the longest, the newest.
struct LostTokens {
  Tokens path;  // up to its end
  TokenRange range;
  std::int64_t when_ns;
};
std::optional<explain::LostState> naively_found(const std::vector<LostTokens>& lost, TokenSpan prompt, Position known) {
  std::optional<explain::LostState> found;
  std::tuple<std::uint32_t, Position, std::int64_t> best;
  Position reached = known;
  for (const LostTokens& each : lost) {
    const auto shared = std::ranges::mismatch(each.path, prompt);
    const auto agreed = static_cast<std::size_t>(shared.in1 - each.path.begin());
    const std::size_t begin = each.range.begin.value();
    if (agreed < begin + std::min<std::size_t>(each.range.size(), 16)) continue;
    const bool whole = agreed == each.path.size();
    const Position end{static_cast<std::uint32_t>(
        whole ? agreed : begin + (agreed - begin) / LostMemory::kCheckedTokens * LostMemory::kCheckedTokens)};
    if (end <= known) continue;
    const std::tuple rank{~each.range.begin.value(), end, each.when_ns};
    if (!found || rank > best) found = {LossCause::kRamBudget, each.when_ns, 0}, best = rank;
    reached = std::max(reached, end);
  }
  if (found) found->tokens = reached - known;
  return found;
}

// Conversations that part at random places, cut otherwise each time, and lost in any order, again and again.
TEST(LostMemory, FindsWhatComparingTokensFinds) {
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(test_seed()));
  const auto below = [&random](std::size_t count) { return random() % count; };
  for (int history = 0; history < 40; ++history) {
    std::vector<Tokens> prompts;
    for (TokenId i = 0; i < 6; ++i) {
      Tokens prompt = prompts.empty() ? Tokens() : prompts[below(prompts.size())];
      prompt.resize(below(prompt.size() + 1));
      const std::size_t kept = prompt.size();
      prompt.resize(kept + 50 + below(900));
      std::iota(prompt.begin() + static_cast<std::ptrdiff_t>(kept), prompt.end(), 10'000 * (i + 1));
      prompts.push_back(std::move(prompt));
    }
    LostMemory lost;
    std::vector<LostTokens> naive;
    for (std::int64_t now = 1; now <= 60; ++now) {
      const LosingIndex world(prompts[below(prompts.size())], 100 + below(3) * 77);
      const SegmentId segment = world.segments[below(world.segments.size())];
      lost.note(world.index, segment, LossCause::kRamBudget, now);
      const TokenRange range = world.index.info(segment).range;
      const Tokens path(world.tokens.begin(), world.tokens.begin() + range.end.value());
      std::erase_if(naive, [&](const LostTokens& each) { return each.path == path && each.range == range; });
      naive.push_back({path, range, now});
      ASSERT_EQ(lost.rows(), naive.size());
      const Tokens& prompt = prompts[below(prompts.size())];
      const Position known{static_cast<std::uint32_t>(below(prompt.size()))};
      ASSERT_EQ(lost.find_rows(prompt, known, world.key), naively_found(naive, prompt, known)) << now;
    }
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
