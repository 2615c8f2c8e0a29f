// A lease by itself, compared with a naive twin: where it can put a sequence, from which leaves, and which of them must
// be read.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

constexpr std::size_t kLength = 200;

// A path of kLength tokens whose leaves are given, in RAM (they have a payload) or on disk.
struct Path {
  explicit Path(const ModelClass& model, std::vector<LeasedPoint> given) : points(std::move(given)) {
    std::ranges::sort(points, {}, [](const LeasedPoint& point) { return point.range.end; });
    const TokenRange all{Position{}, Position{} + kLength};
    const LeasedStep step{kRootSegment, all, all, Tier::kRam, ByteCount{0}, no_bytes()};
    lease = std::make_unique<Lease>(releaser, model.shape, kRootSegment, std::vector{step}, points);
  }
  static std::shared_ptr<const store::Payload> no_bytes() { return store::PayloadBuffer::allocate(0).freeze(); }

  struct Nobody final : Releaser {
    void release(std::span<const SegmentId>) override {}
  } releaser;
  std::vector<LeasedPoint> points;
  std::unique_ptr<Lease> lease;
};

LeasedPoint leaf(std::size_t begin, std::size_t end, std::uint64_t size_bytes, bool on_disk) {
  const TokenRange range{Position{} + begin, Position{} + end};
  const auto kind = begin == end ? format::PartKind::kPoint : format::PartKind::kWindowRows;
  return {kRootSegment,
          kind,
          range,
          range,
          on_disk ? Tier::kDisk : Tier::kRam,
          ByteCount{size_bytes},
          on_disk ? nullptr : Path::no_bytes()};
}

// A lease's answer for one position; nullopt: a sequence cannot be put there.
struct Cost {
  bool on_disk = false;
  std::uint64_t size_bytes = 0;
  bool operator==(const Cost&) const = default;
};
std::optional<Cost> told(const std::vector<policy::Restorable>& runs, Position at) {
  for (const policy::Restorable& run : runs) {
    if (run.first <= at && at <= run.last) return Cost{run.tier == Tier::kDisk, run.bytes.value()};
  }
  return std::nullopt;
}

// Ascending, apart from each other, and as few as can be.
void expect_in_order(const std::vector<policy::Restorable>& runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_LE(runs[i].first, runs[i].last);
    EXPECT_GT(runs[i].first, Position{});
    EXPECT_LE(runs[i].last, Position{} + kLength);
    if (i == 0) continue;
    EXPECT_LT(runs[i - 1].last, runs[i].first);
    const bool goes_on = runs[i - 1].last + 1 == runs[i].first;
    EXPECT_FALSE(goes_on && runs[i - 1].bytes == runs[i].bytes && runs[i - 1].tier == runs[i].tier);
  }
}

std::uint32_t lease_seed() {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::atoi(given)) : 20261121U;
  std::printf("seed %u (KVKEEP_TEST_SEED)\n", seed);
  return seed;
}

// Each step has 20 tokens and 16 MiB.
TEST(LeaseRows, PortionsOfTheSharedTierAreSmall) {
  const auto ends = [](Tier tier) {
    std::vector<LeasedStep> steps;
    for (std::uint32_t begin = 0; begin < kLength; begin += 20) {
      const TokenRange range{Position{begin}, Position{begin + 20}};
      steps.push_back({kRootSegment, range, range, tier, mebibytes(16), nullptr});
    }
    Path::Nobody releaser;
    const Lease lease(releaser, kRowsModel.shape, kRootSegment, steps);
    std::vector<std::uint32_t> found;
    for (Position at; at.value() < 190;) {
      at = lease.load_end(at, Position{190}, mebibytes(100));
      found.push_back(at.value());
    }
    return found;
  };
  EXPECT_EQ(ends(Tier::kDisk), (std::vector<std::uint32_t>{120, 190}));
  EXPECT_EQ(ends(Tier::kShared), (std::vector<std::uint32_t>{80, 160, 190}));
}

TEST(LeasePoints, EachPositionWithAPointCostsItsPoint) {
  std::mt19937 random(lease_seed());
  for (int round = 0; round < 300; ++round) {
    std::map<std::size_t, Cost> kept;
    std::vector<LeasedPoint> points;
    for (std::size_t at = 1; at <= kLength; ++at) {
      if (random() % 4 != 0) continue;
      const Cost cost{random() % 2 == 0, 1 + random() % 2};
      kept.emplace(at, cost);
      points.push_back(leaf(at, at, cost.size_bytes, cost.on_disk));
    }
    const Path path(kHybridModel, points);
    const auto runs = path.lease->restorable();
    expect_in_order(runs);
    for (std::size_t at = 0; at <= kLength + 1; ++at) {
      const auto found = kept.find(at);
      const auto expected = found == kept.end() ? std::nullopt : std::optional(found->second);
      ASSERT_EQ(told(runs, Position{} + at), expected) << "round " << round << " at " << at;
      ASSERT_EQ(path.lease->point_loaded(Position{} + at), expected && !expected->on_disk);
    }
  }
}

// The leaves that share positions with the window before `at`, if they cover it.
std::optional<Cost> naive_window(const std::vector<LeasedPoint>& points, std::size_t at) {
  const std::size_t begin = at - std::min(at, kWindowTokens);
  Cost cost;
  std::set<std::size_t> covered;
  for (const LeasedPoint& point : points) {
    bool needed = false;
    for (std::size_t i = std::max<std::size_t>(begin, point.range.begin.value());
         i < std::min<std::size_t>(at, point.range.end.value()); ++i) {
      covered.insert(i);
      needed = true;
    }
    if (!needed) continue;
    cost.on_disk = cost.on_disk || point.payload == nullptr;
    cost.size_bytes += point.bytes.value();
  }
  if (at == 0 || at > kLength || covered.size() < at - begin) return std::nullopt;
  return cost;
}

TEST(LeaseWindows, EachPositionCostsTheLeavesOfItsWindow) {
  std::mt19937 random(lease_seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<LeasedPoint> points;
    for (std::size_t begin = random() % 20, end = 0; begin < kLength;
         begin = end + (random() % 4 == 0) * random() % 9) {
      end = std::min(kLength, begin + 1 + random() % 30);
      points.push_back(leaf(begin, end, 1 + random() % 2, random() % 3 == 0));
    }
    const Path path(kWindowedModel, points);
    const auto runs = path.lease->restorable();
    expect_in_order(runs);
    for (std::size_t at = 0; at <= kLength + 1; ++at) {
      const auto expected = naive_window(points, at);
      ASSERT_EQ(told(runs, Position{} + at), expected) << "round " << round << " at " << at;
      ASSERT_EQ(path.lease->point_loaded(Position{} + at), expected && !expected->on_disk);
    }
  }
}

// As a former process may have left them: which of two is taken does not matter, that the window is covered does.
TEST(LeaseWindows, LeavesThatOverlapCoverAWindowOnce) {
  std::mt19937 random(lease_seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<LeasedPoint> points;
    for (auto count = 1 + random() % 12; count > 0; --count) {
      const std::size_t begin = random() % (kLength - 1);
      points.push_back(leaf(begin, begin + 1 + random() % std::min<std::size_t>(100, kLength - begin), 1, false));
    }
    const Path path(kWindowedModel, points);
    const auto runs = path.lease->restorable();
    expect_in_order(runs);
    for (std::size_t at = 0; at <= kLength; ++at) {
      const bool expected = naive_window(points, at).has_value();
      ASSERT_EQ(told(runs, Position{} + at).has_value(), expected) << "round " << round << " at " << at;
      if (!expected) continue;
      Position covered = Position{} + (at - std::min(at, kWindowTokens));
      for (const RowPiece& piece : path.lease->point_pieces(Position{} + at)) {
        ASSERT_EQ(piece.wanted.begin, covered);
        ASSERT_LT(piece.wanted.begin, piece.wanted.end);
        ASSERT_TRUE(piece.stored.begin <= piece.wanted.begin && piece.wanted.end <= piece.stored.end);
        covered = piece.wanted.end;
      }
      ASSERT_EQ(covered, Position{} + at);
    }
  }
}

}  // namespace
}  // namespace kvkeep::cache
