#include "engine/media_map.h"

#include <gtest/gtest.h>

#include <optional>

namespace kvkeep::engine {
namespace {

TokenRange range(std::uint32_t begin, std::uint32_t end) { return {Position{begin}, Position{end}}; }

// The naive twin: for each id the library's position, or nothing if it has no cell.
struct MapTwin {
  std::vector<std::optional<std::int32_t>> places;
  std::vector<std::int32_t> next = {0};  // the library's position of what comes after that many ids
  std::vector<bool> cut = {false};

  void add(const MediaRun& run) {
    while (places.size() < run.range.begin.value()) add_token();
    const std::int32_t first = next.back();
    for (std::uint32_t i = 0; i < run.range.size(); ++i) {
      const bool has_cell = i < run.shape.embeddings;
      const std::int32_t here = run.shape.plane ? first : next.back();
      places.push_back(has_cell ? std::optional(here) : std::nullopt);
      const bool last = i + 1 == run.range.size();
      next.push_back(!run.shape.plane ? next.back() + (has_cell ? 1 : 0)
                     : last           ? first + static_cast<std::int32_t>(run.shape.positions)
                                      : first);
      cut.push_back(!last);
    }
  }
  void add_token() {
    places.push_back(next.back());
    next.push_back(next.back() + 1);
    cut.push_back(false);
  }
};

std::vector<ChunkShape> shapes() {
  return {{1, 1, false}, {3, 3, false}, {1, 1, true}, {4, 2, true}, {6, 3, true}, {8, 8, true}};
}

MediaRun run_at(std::uint32_t begin, const ChunkShape& shape) {
  const auto ids = std::max<std::uint32_t>(shape.embeddings, kLeastMediaIds);
  return {range(begin, begin + ids), shape};
}

void expect_same(const MediaMap& map, const MapTwin& twin) {
  const auto end = static_cast<std::uint32_t>(twin.places.size());
  for (std::uint32_t at = 0; at <= end; ++at) {
    ASSERT_EQ(map.to_library(Position{at}), twin.next[at]) << at;
    ASSERT_EQ(map.cuts(Position{at}), twin.cut[at]) << at;
    for (std::uint32_t to = at; to <= end; ++to) {
      std::vector<std::int32_t> expected;
      for (std::uint32_t i = at; i < to; ++i) {
        if (twin.places[i]) expected.push_back(*twin.places[i]);
      }
      std::vector<std::int32_t> found;
      for (const CellSpan& span : map.spans(range(at, to))) {
        for (std::uint32_t i = 0; i < span.cells; ++i) {
          found.push_back(span.first + (span.plane ? 0 : static_cast<std::int32_t>(i)));
        }
      }
      ASSERT_EQ(found, expected) << at << ".." << to;
      ASSERT_EQ(map.cells(range(at, to)), expected.size()) << at << ".." << to;
      TokenRange whole = range(at, to);
      while (at < to && twin.cut[whole.begin.value()]) whole.begin = Position{whole.begin.value() - 1};
      while (at < to && twin.cut[whole.end.value()]) whole.end = whole.end + 1;
      ASSERT_EQ(map.whole(range(at, to)), whole) << at << ".." << to;
    }
  }
}

// All pairs of shapes, with text or nothing around them.
TEST(MediaMap, CountsAsTheTwinDoes) {
  for (const ChunkShape& first : shapes()) {
    for (const ChunkShape& second : shapes()) {
      for (const std::uint32_t before : {0U, 2U}) {
        for (const std::uint32_t between : {0U, 3U}) {
          const MediaRun one = run_at(before, first);
          const MediaRun two = run_at(one.range.end.value() + between, second);
          MapTwin twin;
          twin.add(one);
          twin.add(two);
          for (int i = 0; i < 2; ++i) twin.add_token();
          expect_same(MediaMap(std::vector{one, two}), twin);
        }
      }
    }
  }
}

TEST(MediaMap, KnowsWhereASequenceMayEnd) {
  const MediaMap map(std::vector{run_at(2, {6, 3, true})});
  EXPECT_TRUE(map.may_end(Position{2}, 1));
  for (std::int32_t last = 0; last < 8; ++last) EXPECT_EQ(map.may_end(Position{8}, last), last >= 2 && last < 5);
  EXPECT_TRUE(map.may_end(Position{9}, 5));
  EXPECT_FALSE(map.may_end(Position{9}, 8));
}

TEST(MediaMap, ForgetsWhatBeginsAfterACut) {
  const std::vector runs{run_at(2, {6, 3, true}), run_at(10, {1, 1, false})};
  const MediaMap map(runs);
  EXPECT_EQ(map.prefix(Position{10}).to_library(Position{20}), 17);
  EXPECT_EQ(map.to_library(Position{20}), 12);
  EXPECT_TRUE(map.prefix(Position{2}).empty());
  EXPECT_FALSE(map.prefix(Position{5}).empty()) << "half a chunk is still to come";
}

TEST(MediaMap, SoundOfOnePositionEachChangesNothing) {
  const MediaMap map(std::vector{run_at(3, {30, 30, false})});
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.to_library(Position{40}), 40);
}

}  // namespace
}  // namespace kvkeep::engine
