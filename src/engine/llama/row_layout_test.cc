#include "engine/llama/row_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>

namespace kvkeep::engine::llama {
namespace {

// Rows written in the slow and obvious way. Every byte of a tensor is a function of tensor, position and place.
struct HandMade {
  RowLayout layout;
  std::vector<std::byte> bytes;

  template <typename Number>
  void put(Number number) {
    const auto* raw = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), raw, raw + sizeof number);
  }
};

std::uint8_t content(std::size_t tensor, std::uint32_t position, std::uint64_t place) {
  return static_cast<std::uint8_t>(tensor * 101 + position * 7 + place * 13 + 1);
}

void put_tensor(HandMade& out, const TensorRows& tensor, std::size_t index, std::span<const std::uint32_t> positions,
                bool transposed) {
  out.put(tensor.type);
  if (!transposed) {
    out.put(tensor.row_bytes);
    for (const std::uint32_t position : positions) {
      for (std::uint64_t i = 0; i < tensor.row_bytes; ++i) out.put(content(index, position, i));
    }
    return;
  }
  out.put(tensor.element_bytes);
  out.put(static_cast<std::uint32_t>(tensor.row_bytes / tensor.element_bytes));
  for (std::uint64_t channel = 0; channel < tensor.row_bytes; channel += tensor.element_bytes) {
    for (const std::uint32_t position : positions) {
      for (std::uint64_t i = 0; i < tensor.element_bytes; ++i) out.put(content(index, position, channel + i));
    }
  }
}

std::vector<std::byte> make_rows(const RowLayout& layout, std::span<const std::uint32_t> positions,
                                 std::int32_t sequence) {
  HandMade out{layout, {}};
  out.put(std::uint32_t{0xAF143CD8});
  out.put(sequence);
  out.put(std::uint32_t{1});
  out.put(static_cast<std::uint32_t>(positions.size()));
  for (const std::uint32_t position : positions) {
    out.put(position);
    out.put(std::uint32_t{1});
    for (std::uint32_t i = 0; i < layout.cell_extra_bytes; ++i) out.put(content(99, position, i));
    out.put(sequence);
  }
  out.put(std::uint32_t{layout.v_transposed});
  out.put(static_cast<std::uint32_t>(layout.k.size()));
  out.put(layout.k_rotation);
  out.put(layout.v_rotation);
  for (std::size_t i = 0; i < layout.k.size(); ++i) put_tensor(out, layout.k[i], i, positions, false);
  for (std::size_t i = 0; i < layout.v.size(); ++i)
    put_tensor(out, layout.v[i], 50 + i, positions, layout.v_transposed);
  return std::move(out.bytes);
}

std::vector<std::byte> make_rows(const RowLayout& layout, TokenRange range, std::int32_t sequence) {
  std::vector<std::uint32_t> positions(range.size());
  std::iota(positions.begin(), positions.end(), range.begin.value());
  return make_rows(layout, positions, sequence);
}

TokenRange range(std::uint32_t begin, std::uint32_t end) { return {Position{begin}, Position{end}}; }

struct NamedLayout {
  std::string name;
  RowLayout layout;
};

void PrintTo(const NamedLayout& named, std::ostream* out) { *out << named.name; }

std::vector<NamedLayout> layouts() {
  const TensorRows f16{.type = 1, .row_bytes = 16};
  const TensorRows q8{.type = 8, .row_bytes = 34};
  const TensorRows wide{.type = 1, .row_bytes = 48};
  const TensorRows column{.type = 1, .row_bytes = 12, .element_bytes = 2};
  return {
      {"flash", {.k = {f16, f16}, .v = {f16, f16}}},
      {"mixed", {.k_rotation = 64, .v_rotation = 32, .k = {q8, q8, q8}, .v = {f16, wide, f16}}},
      {"transposed", {.v_transposed = true, .k = {f16, wide}, .v = {column, column}}},
      {"without_v", {.k = {wide, wide}, .v = {}}},
      {"mrope", {.cell_extra_bytes = 12, .k = {f16}, .v = {q8}}},
      {"mrope_transposed", {.cell_extra_bytes = 12, .v_transposed = true, .k = {f16}, .v = {column}}},
  };
}

class RowLayoutTest : public ::testing::TestWithParam<NamedLayout> {
 protected:
  const RowLayout& layout() const { return GetParam().layout; }
};

TEST_P(RowLayoutTest, IsLearntFromRows) {
  for (const std::uint32_t end : {1U, 2U, 9U}) {
    const auto learnt = learn_layout(make_rows(layout(), range(0, end), 3));
    ASSERT_TRUE(learnt.ok());
    EXPECT_EQ(*learnt, layout());
  }
}

TEST_P(RowLayoutTest, KnowsTheSizeOfRows) {
  for (std::uint32_t end = 1; end < 20; ++end) {
    EXPECT_EQ(make_rows(layout(), range(0, end), 0).size(), layout().bytes_of(end));
  }
}

TEST_P(RowLayoutTest, WholeRowsAreVerifiedInAnyOrderOfCells) {
  EXPECT_TRUE(verify_rows(layout(), make_rows(layout(), range(5, 9), 0), range(5, 9)).ok());
  const auto rows = make_rows(layout(), std::vector<std::uint32_t>{7, 5, 8, 6}, 0);
  EXPECT_TRUE(verify_rows(layout(), rows, range(5, 9)).ok());
}

TEST_P(RowLayoutTest, EveryTruncationAndExtensionIsRefused) {
  auto rows = make_rows(layout(), range(0, 5), 0);
  for (std::size_t size = 0; size < rows.size(); ++size) {
    ASSERT_FALSE(verify_rows(layout(), ByteSpan(rows).first(size), range(0, 5)).ok()) << size;
  }
  rows.push_back(std::byte{0});
  EXPECT_FALSE(verify_rows(layout(), rows, range(0, 5)).ok());
}

TEST_P(RowLayoutTest, OtherPositionsAreRefused) {
  const auto rows = make_rows(layout(), range(5, 9), 0);
  for (std::uint32_t begin = 0; begin < 12; ++begin) {
    EXPECT_EQ(verify_rows(layout(), rows, range(begin, begin + 4)).ok(), begin == 5) << begin;
  }
  const std::vector<std::uint32_t> twice{5, 6, 6, 8};
  EXPECT_FALSE(verify_rows(layout(), make_rows(layout(), twice, 0), range(5, 9)).ok());
}

// Bytes of structure are those that stay when all contents change. A flip of any of them must be noticed.
TEST_P(RowLayoutTest, EveryFlippedByteOfStructureIsRefused) {
  auto rows = make_rows(layout(), range(0, 3), 0);
  const std::size_t cell = 12 + layout().cell_extra_bytes;
  const auto is_content = [&](std::size_t at) {
    if (at >= 4 && at < 8) return true;  // the sequence of the envelope is ignored when read back
    if (at >= 16 && at < 16 + 3 * cell) return (at - 16) % cell >= 8;
    return false;
  };
  const std::size_t shape_end = 16 + 3 * cell + 16 + 12;  // up to the head of the first tensor
  for (std::size_t at = 0; at < shape_end; ++at) {
    rows[at] ^= std::byte{0x11};
    EXPECT_EQ(verify_rows(layout(), rows, range(0, 3)).ok(), is_content(at)) << at;
    rows[at] ^= std::byte{0x11};
  }
}

TEST_P(RowLayoutTest, RowsOfAnotherLayoutAreRefused) {
  for (const NamedLayout& other : layouts()) {
    const auto rows = make_rows(other.layout, range(0, 4), 0);
    EXPECT_EQ(verify_rows(layout(), rows, range(0, 4)).ok(), other.layout == layout()) << other.name;
  }
}

// Two pieces around every cut, each with unwanted rows at its ends.
TEST_P(RowLayoutTest, JoinGivesWhatOneReadWouldGive) {
  constexpr std::uint32_t kEnd = 7;
  const auto whole = make_rows(layout(), range(0, kEnd), 4);
  for (std::uint32_t at = 1; at < kEnd; ++at) {
    for (std::uint32_t spare = 0; spare < 3; ++spare) {
      const TokenRange first_stored = range(0, at + spare);
      const TokenRange second_stored = range(at - std::min(at, spare), kEnd + spare);
      const auto first = make_rows(layout(), first_stored, 1);
      const auto second = make_rows(layout(), second_stored, 2);
      const std::vector<cache::RowPiece> pieces{{first_stored, range(0, at), first},
                                                {second_stored, range(at, kEnd), second}};
      std::vector<std::byte> joined(layout().bytes_of(kEnd));
      ASSERT_EQ(join_rows(layout(), pieces, 4, joined), joined.size());
      ASSERT_EQ(joined, whole) << at << " " << spare;
    }
  }
}

TEST_P(RowLayoutTest, JoinOfAllIsTheIdentity) {
  const std::vector<std::uint32_t> shuffled{3, 0, 4, 1, 2};
  const auto rows = make_rows(layout(), shuffled, 6);
  const cache::RowPiece piece{range(0, 5), range(0, 5), rows};
  std::vector<std::byte> joined(rows.size());
  join_rows(layout(), std::span(&piece, 1), 6, joined);
  EXPECT_EQ(joined, rows);
}

TEST_P(RowLayoutTest, JoinPicksPositionsNotPlaces) {
  const std::vector<std::uint32_t> shuffled{3, 0, 4, 1, 2};
  const auto rows = make_rows(layout(), shuffled, 6);
  const cache::RowPiece piece{range(0, 5), range(1, 4), rows};
  std::vector<std::byte> joined(layout().bytes_of(3));
  join_rows(layout(), std::span(&piece, 1), 6, joined);
  const std::vector<std::uint32_t> kept{3, 1, 2};
  EXPECT_EQ(joined, make_rows(layout(), kept, 6));
}

INSTANTIATE_TEST_SUITE_P(All, RowLayoutTest, ::testing::ValuesIn(layouts()),
                         [](const auto& instance) { return instance.param.name; });

TEST(LearnLayoutTest, RefusesWhatIsNotOnePlainCache) {
  const RowLayout layout = layouts().front().layout;
  const auto rows = make_rows(layout, range(0, 3), 0);
  EXPECT_FALSE(learn_layout({}).ok());
  const RowLayout without_v{.k = layout.k, .v = {}};  // rows that end after K are those of such a model
  for (std::size_t size = 0; size < rows.size(); ++size) {
    EXPECT_EQ(learn_layout(ByteSpan(rows).first(size)).ok(), size == without_v.bytes_of(3)) << size;
  }
  auto with_more = rows;  // a window's or recurrent part after the rows
  with_more.insert(with_more.end(), rows.begin() + 8, rows.end());
  EXPECT_FALSE(learn_layout(with_more).ok());
  auto streams = rows;
  streams[8] = std::byte{2};
  EXPECT_FALSE(learn_layout(streams).ok());
}

TEST(CanonicalTextTest, NamesWhatMatters) {
  std::vector<std::string> seen;
  for (const NamedLayout& named : layouts()) {
    const std::string text = named.layout.canonical_text();
    EXPECT_EQ(std::count(seen.begin(), seen.end(), text), 0) << text;
    EXPECT_EQ(text.find('\n'), text.npos);
    seen.push_back(text);
  }
  EXPECT_EQ(layouts()[1].layout.canonical_text(), "plain cell=12 v_transposed=0 k=3x8:34 v=1x1:16+1x1:48+1x1:16");
}

}  // namespace
}  // namespace kvkeep::engine::llama
