// rebuild() against a naive twin: a segment counts as soon as the prefix it continues is known, until nothing changes.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "index/prefix_fixture.h"
#include "index/prefix_index.h"

namespace kvkeep::index::rebuild_twin {
namespace {

[[maybe_unused]] const bool seeded = seed_rapidcheck();

using Outcome = Placement::Outcome;
using format::PartKind;

// A file: the tokens [begin, path.size()) of one prefix. It owns what NamedSegment points to.
struct File {
  Tokens path;
  std::size_t begin = 0;
  bool wrong_hash = false;
  PartKind kind = PartKind::kRows;
  bool is_leaf() const { return kind != PartKind::kRows; }
  Tokens tokens() const { return {path.begin() + begin, path.end()}; }
};

std::ostream& operator<<(std::ostream& out, const File& file) {
  for (std::size_t i = 0; i < file.path.size(); ++i) out << (i == file.begin ? "|" : "") << file.path[i];
  return out << (file.wrong_hash ? "!" : "") << (file.is_leaf() ? "*" : "") << " ";
}

// Rebuilds from files; keeps the tokens alive meanwhile.
std::vector<Placement> rebuild_from(PrefixIndex& index, const std::vector<File>& files) {
  std::vector<Tokens> tokens;
  tokens.reserve(files.size());
  for (const File& file : files) tokens.push_back(file.tokens());
  std::vector<NamedSegment> named;
  named.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto begin = static_cast<std::uint32_t>(files[i].begin);
    const auto end = static_cast<std::uint32_t>(files[i].path.size());
    NamedSegment segment{{Position{begin}, Position{end}},
                         name(first(files[i].path, begin)),
                         name(files[i].path),
                         tokens[i],
                         files[i].kind};
    if (files[i].wrong_hash) segment.end_hash.bytes[31] ^= 1;
    named.push_back(segment);
  }
  return rebuild(index, kKey, named);
}

struct Twin {
  std::set<Tokens> known{{}};
  explicit Twin(const std::vector<File>& files) {
    for (bool grew = true; grew;) {
      grew = false;
      for (const File& file : files) {
        if (file.is_leaf() || file.wrong_hash || !known.contains(first(file.path, file.begin))) continue;
        for (std::size_t end = file.begin + 1; end <= file.path.size(); ++end) {
          grew |= known.insert(first(file.path, end)).second;
        }
      }
    }
  }
};

// A leaf is where its prefix is known; of several that end there, and of windows over two segments, see rebuild().
std::string wrong_leaf(const PrefixIndex& index, const Twin& twin, const File& file, const Placement& placement) {
  if (file.wrong_hash || !twin.known.contains(file.path)) {
    const bool lost = placement.outcome == Outcome::kOrphan && placement.segment == kRootSegment;
    return lost ? "" : "a leaf without a prefix";
  }
  const Cursor at = index.advance({}, file.path);
  const SegmentId id = index.leaf(at, file.kind);
  const bool within = index.info(at.segment).range.begin.value() <= file.begin || file.kind != PartKind::kWindowRows;
  if (!within) return placement.outcome == Outcome::kOrphan ? "" : "a window over two segments";
  if (id == kRootSegment) return "a leaf lost";
  if (placement.outcome == Outcome::kRedundant) return placement.segment == kRootSegment ? "" : "placed and not placed";
  if (placement.outcome != Outcome::kPlaced || placement.segment != id) return "leaf placed elsewhere";
  const SegmentInfo& info = index.info(id);
  const TokenRange range{placement.visible_from, at.at};
  if (info.kind != file.kind || info.range != range || range.begin.value() != file.begin) return "range of a leaf";
  const bool named = info.begin_hash == name(first(file.path, file.begin)) && info.end_hash == name(file.path);
  return named ? "" : "hashes of a leaf";
}

// The segment that has the file's end; if its hash is wrong, its beginning.
SegmentId expected_within(const PrefixIndex& index, const Twin& twin, const File& file) {
  const Tokens prefix = file.wrong_hash ? first(file.path, file.is_leaf() ? 0 : file.begin) : file.path;
  const bool hangs = file.is_leaf() || twin.known.contains(first(file.path, file.begin));
  return hangs && twin.known.contains(prefix) ? index.advance({}, prefix).segment : kRootSegment;
}

std::string wrong_placement(const PrefixIndex& index, const Twin& twin, const File& file, const Placement& placement) {
  if (placement.within != expected_within(index, twin, file)) return "within another segment";
  if (file.is_leaf()) return wrong_leaf(index, twin, file, placement);
  const bool reachable = twin.known.contains(first(file.path, file.begin));
  const Outcome outcome = placement.outcome;
  if ((outcome == Outcome::kOrphan) != !reachable) return "orphan";
  if (outcome == Outcome::kOrphan) return placement.segment == kRootSegment ? "" : "a placed orphan";
  if ((outcome == Outcome::kWrongHash) != file.wrong_hash) return "wrong hash";
  if (outcome != Outcome::kPlaced) return placement.segment == kRootSegment ? "" : "placed and not placed";
  const SegmentInfo& info = index.info(placement.segment);
  if (info.range.begin != placement.visible_from || info.range.end.value() != file.path.size()) return "range";
  if (info.range.begin.value() < file.begin) return "visible before it begins";
  if (info.begin_hash != name(first(file.path, info.range.begin.value()))) return "begin hash";
  if (info.end_hash != name(file.path)) return "end hash";
  return index.path_tokens({placement.segment, info.range.end}) == file.path ? "" : "hangs elsewhere";
}

std::string difference(const PrefixIndex& index, const std::vector<File>& files,
                       const std::vector<Placement>& placements) {
  const Twin twin(files);
  if (index.token_count() + 1 != twin.known.size()) return "token count";
  for (const Tokens& prefix : twin.known) {
    if (index.advance({}, prefix).at.value() != prefix.size()) return "a known prefix is missing";
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (auto wrong = wrong_placement(index, twin, files[i], placements[i]); !wrong.empty()) return wrong;
  }
  std::set<std::pair<Tokens, PartKind>> leaves;  // those that some file can account for
  for (const File& file : files) {
    const bool known = !file.wrong_hash && twin.known.contains(file.path);
    if (!file.is_leaf() || !known) continue;
    if (index.leaf(index.advance({}, file.path), file.kind) != kRootSegment) leaves.emplace(file.path, file.kind);
  }
  return index.leaf_count() == leaves.size() ? "" : "leaf count";
}

std::vector<File> all_files(std::size_t longest) {
  std::vector<File> files;
  for (std::size_t length = 1; length <= longest; ++length) {
    for (std::uint32_t bits = 0; bits < (1U << length); ++bits) {
      Tokens path;
      for (std::size_t i = 0; i < length; ++i) path.push_back(static_cast<TokenId>(bits >> i & 1U));
      for (std::size_t begin = 0; begin < length; ++begin) files.push_back({path, begin});
    }
  }
  return files;
}

// Every point and window (with at least a token) that a file of all_files() could be.
std::vector<File> all_leaves(std::size_t longest) {
  std::vector<File> leaves;
  for (const File& file : all_files(longest)) {
    leaves.push_back({file.path, file.begin, false, PartKind::kWindowRows});
    if (file.begin == 0) leaves.push_back({file.path, file.path.size(), false, PartKind::kPoint});
  }
  return leaves;
}

// Every choice of three files over two tokens, in every order; the third's hash is right and wrong.
TEST(Rebuild, AgreesWithTheTwinOnEverySmallDirectory) {
  const auto all = all_files(3);
  for (const File& one : all) {
    for (const File& two : all) {
      for (File three : all) {
        for (const bool wrong : {false, true}) {
          three.wrong_hash = wrong;
          const std::vector<File> files{one, two, three};
          PrefixIndex index;
          const auto placements = rebuild_from(index, files);
          ASSERT_EQ(difference(index, files, placements), "") << one << " " << two << " " << three;
        }
      }
    }
  }
}

void expect_agreement(const std::vector<File>& files) {
  PrefixIndex index;
  const auto placements = rebuild_from(index, files);
  ASSERT_EQ(difference(index, files, placements), "") << ::testing::PrintToString(files);
  std::size_t placed = 0;
  for (const Placement& placement : placements) placed += placement.outcome == Outcome::kPlaced ? 1 : 0;
  ASSERT_EQ(placed, index.segment_count() + index.leaf_count()) << ::testing::PrintToString(files);
}

// The same with leaves: one or two among two segments or one, before, between and after them.
TEST(Rebuild, AgreesWithTheTwinOnEverySmallDirectoryWithLeaves) {
  for (const File& one : all_files(3)) {
    for (const File& two : all_files(3)) {
      for (const File& leaf : all_leaves(3)) {
        ASSERT_NO_FATAL_FAILURE(expect_agreement({leaf, one, two}));
        ASSERT_NO_FATAL_FAILURE(expect_agreement({one, leaf, two}));
      }
    }
  }
  for (const File& one : all_files(3)) {
    for (File leaf : all_leaves(3)) {
      for (const File& other : all_leaves(3)) {
        ASSERT_NO_FATAL_FAILURE(expect_agreement({leaf, one, other}));
        ASSERT_NO_FATAL_FAILURE(expect_agreement({one, leaf, other}));
      }
      leaf.wrong_hash = true;
      ASSERT_NO_FATAL_FAILURE(expect_agreement({leaf, one}));
    }
  }
}

// Directories of files over a few conversations, given in two portions: the second finds the first in the index.
TEST(Rebuild, AgreesWithTheTwinOnRandomDirectoriesInTwoPortions) {
  const auto file = rc::gen::exec([] {
    File made;
    made.path = *rc::gen::resize(14, rc::gen::nonEmpty(rc::gen::container<Tokens>(rc::gen::inRange<TokenId>(0, 2))));
    made.begin = *rc::gen::inRange<std::size_t>(0, made.path.size());
    made.kind = *rc::gen::weightedElement<PartKind>(
        {{6, PartKind::kRows}, {2, PartKind::kWindowRows}, {1, PartKind::kPoint}, {1, PartKind::kWhole}});
    if (made.kind == PartKind::kPoint || made.kind == PartKind::kWhole) made.begin = made.path.size();
    made.wrong_hash = *rc::gen::weightedElement<bool>({{9, false}, {1, true}});
    return made;
  });
  EXPECT_TRUE(rc::check("two portions are as good as one", [&] {
    const auto files = *rc::gen::resize(60, rc::gen::container<std::vector<File>>(file));
    const auto portion = *rc::gen::inRange<std::size_t>(0, files.size() + 1);
    const std::vector<File> head(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(portion));
    PrefixIndex index;
    RC_ASSERT(difference(index, head, rebuild_from(index, head)) == "");
    RC_ASSERT(difference(index, files, rebuild_from(index, files)) == "");
  }));
}

TEST(Rebuild, OverlappingSegmentsShareWhatTheyHaveInCommon) {
  PrefixIndex index;
  const auto placements = rebuild_from(index, {{{1, 2, 3, 4, 9}, 2}, {{1, 2, 3, 4, 5, 6}, 0}, {{1, 2, 3}, 0}});
  EXPECT_EQ(placements[1].outcome, Outcome::kPlaced);
  EXPECT_EQ(placements[1].visible_from, Position{0});
  EXPECT_EQ(placements[0].outcome, Outcome::kPlaced);
  EXPECT_EQ(placements[0].visible_from, Position{4});
  EXPECT_EQ(index.info(placements[0].segment).parent, placements[1].segment);
  EXPECT_EQ(placements[2].outcome, Outcome::kRedundant);
  EXPECT_EQ(placements[2].visible_from, Position{3});
}

// Files of two servers that cut the same prompt at other places; what adds nothing lies where the prompt does.
TEST(Rebuild, ASegmentThatIsNotPlacedNamesTheOneItLiesIn) {
  const Tokens prompt{1, 2, 3, 4, 5, 6};
  PrefixIndex index;
  const auto placements = rebuild_from(index, {{first(prompt, 4), 0},
                                               {prompt, 4},
                                               {first(prompt, 2), 0},
                                               {first(prompt, 4), 2},
                                               {first(prompt, 5), 4},
                                               {prompt, 6, false, PartKind::kPoint},
                                               {prompt, 6, false, PartKind::kPoint},
                                               {first(prompt, 5), 3, false, PartKind::kWindowRows},
                                               {{1, 2, 3, 9}, 3, true},
                                               {{8, 9}, 1}});
  const SegmentId head = placements[0].segment;
  const SegmentId tail = placements[1].segment;
  ASSERT_TRUE(placements[0].outcome == Outcome::kPlaced && placements[1].outcome == Outcome::kPlaced);
  const auto expect = [&](std::size_t i, Outcome outcome, SegmentId within) {
    EXPECT_EQ(placements[i].outcome, outcome) << i;
    EXPECT_EQ(placements[i].within, within) << i;
  };
  expect(2, Outcome::kRedundant, head);
  expect(3, Outcome::kRedundant, head);
  expect(4, Outcome::kRedundant, tail);
  EXPECT_NE(placements[5].outcome, placements[6].outcome) << "one of them";
  EXPECT_TRUE(placements[5].within == tail && placements[6].within == tail);
  expect(7, Outcome::kOrphan, tail);
  expect(8, Outcome::kWrongHash, head);
  expect(9, Outcome::kOrphan, kRootSegment);
}

TEST(Rebuild, ARangeThatItsTokensDoNotFillIsAWrongHash) {
  const Tokens tokens{1, 2, 3};
  const auto range = [](std::uint32_t begin, std::uint32_t end) { return TokenRange{Position{begin}, Position{end}}; };
  PrefixIndex index;
  const auto placements = rebuild(index, kKey,
                                  {{range(0, 2), name({}), name(tokens), tokens},
                                   {range(0, 4), name({}), name(tokens), tokens},
                                   {range(0, 0), name({}), name({}), {}},
                                   {range(0, 0xFFFFFFFF), name({}), name(tokens), tokens}});
  for (const Placement& placement : placements) EXPECT_EQ(placement.outcome, Outcome::kWrongHash);
  EXPECT_EQ(index.segment_count(), 0U);
}

TEST(Rebuild, ALeafWithAnImpossibleRangeIsAWrongHash) {
  const Tokens tokens{1, 2, 3};
  const auto leaf = [&](std::uint32_t begin, std::uint32_t end, PartKind kind) {
    return NamedSegment{{Position{begin}, Position{end}}, {}, name(first(tokens, end)), {}, kind};
  };
  PrefixIndex index;
  const auto placements = rebuild(index, kKey,
                                  {{{Position{0}, Position{3}}, name({}), name(tokens), tokens},
                                   leaf(0, 0, PartKind::kPoint),
                                   leaf(1, 2, PartKind::kPoint),
                                   leaf(1, 2, PartKind::kWhole),
                                   leaf(3, 2, PartKind::kPoint),
                                   leaf(2, 2, PartKind::kWindowRows),
                                   leaf(3, 2, PartKind::kWindowRows),
                                   leaf(1, 2, PartKind::kWindowRows)});
  for (std::size_t i = 1; i + 1 < placements.size(); ++i) EXPECT_EQ(placements[i].outcome, Outcome::kWrongHash) << i;
  EXPECT_EQ(placements.back().outcome, Outcome::kPlaced);
  EXPECT_EQ(placements[2].within, placements[0].segment) << "it would hang there";
  EXPECT_EQ(index.leaf_count(), 1U);
}

TEST(Rebuild, TheLongerOfTwoWindowsWithOneEndStays) {
  PrefixIndex index;
  const auto placements = rebuild_from(
      index, {{{1, 2, 3}, 2, false, PartKind::kWindowRows}, {{1, 2, 3}, 1, false, PartKind::kWindowRows}, {{1, 2, 3}}});
  EXPECT_EQ(placements[0].outcome, Outcome::kRedundant);
  EXPECT_EQ(placements[0].visible_from, Position{3});
  EXPECT_EQ(placements[1].outcome, Outcome::kPlaced);
  EXPECT_EQ(placements[1].visible_from, Position{1});
}

TEST(Rebuild, AnotherKeyReachesNothing) {
  PrefixIndex index;
  const Tokens tokens{1, 2, 3};
  const NamedSegment segment{{Position{0}, Position{3}}, name({}), name(tokens), tokens};
  EXPECT_EQ(rebuild(index, FingerprintHash{{8}}, {segment}).front().outcome, Outcome::kOrphan);
}

// ---- mutants: directories read wrongly, which the comparison must catch ----

TEST(Rebuild, TheComparisonCatchesMutants) {
  const std::vector<File> files{{{0, 1, 1}, 0}, {{0, 1, 0}, 2}, {{0, 1, 0, 1}, 3}};
  PrefixIndex skips;  // one segment is never placed
  auto placements = rebuild_from(skips, {files[0], files[2], files[2]});
  EXPECT_NE(difference(skips, files, placements), "");
  PrefixIndex shifted;  // hangs at its parent's end instead of in its middle
  placements = rebuild_from(shifted, files);
  ASSERT_EQ(difference(shifted, files, placements), "");
  std::swap(placements[0], placements[1]);
  EXPECT_NE(difference(shifted, files, placements), "");
  std::swap(placements[0], placements[1]);
  std::swap(placements[1].within, placements[2].within);
  EXPECT_NE(difference(shifted, files, placements), "");
  std::swap(placements[1].within, placements[2].within);
  placements[1].visible_from = Position{1};
  EXPECT_NE(difference(shifted, files, placements), "");
  std::vector<File> believed = files;  // a wrong hash that was believed
  believed[0].wrong_hash = true;
  EXPECT_NE(difference(shifted, believed, placements), "");
}

TEST(Rebuild, TheComparisonCatchesMutantsOfLeaves) {
  const std::vector<File> files{{{0, 1, 1}, 0}, {{0, 1}, 2, false, PartKind::kPoint}};
  PrefixIndex index;
  auto placements = rebuild_from(index, files);
  ASSERT_EQ(difference(index, files, placements), "");
  index.erase(placements[1].segment);  // lost
  EXPECT_NE(difference(index, files, placements), "");
  const auto insert_leaf = [&](std::uint32_t at, PartKind kind, const Tokens& prefix) {
    return index.insert_leaf({placements[0].segment, Position{at}}, kind, Position{at}, name(prefix), name(prefix));
  };
  placements[1].segment = insert_leaf(3, PartKind::kPoint, {0, 1});  // elsewhere
  EXPECT_NE(difference(index, files, placements), "");
  index.erase(placements[1].segment);
  placements[1].segment = insert_leaf(2, PartKind::kPoint, {0, 1, 1});  // another's name
  EXPECT_NE(difference(index, files, placements), "");
  index.erase(placements[1].segment);
  placements[1].segment = insert_leaf(2, PartKind::kPoint, {0, 1});
  ASSERT_EQ(difference(index, files, placements), "");
  insert_leaf(2, PartKind::kWhole, {0, 1});  // one too many
  EXPECT_NE(difference(index, files, placements), "");
}

}  // namespace
}  // namespace kvkeep::index::rebuild_twin
