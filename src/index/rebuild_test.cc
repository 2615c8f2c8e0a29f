// rebuild() against a naive twin: a segment counts as soon as the prefix it continues is known, until nothing changes.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "index/prefix_index.h"

namespace kvkeep::index {
namespace {

[[maybe_unused]] const bool seeded = seed_rapidcheck();

using Tokens = std::vector<TokenId>;
using Outcome = Placement::Outcome;

constexpr FingerprintHash kKey{{7}};

Tokens first(const Tokens& tokens, std::size_t count) { return {tokens.begin(), tokens.begin() + count}; }

PrefixHash name(const Tokens& prefix) {
  PrefixHasher hasher(kKey);
  hasher.append(prefix);
  return hasher.current();
}

// A file: the tokens [begin, path.size()) of one prefix. It owns what NamedSegment points to.
struct File {
  Tokens path;
  std::size_t begin = 0;
  bool wrong_hash = false;
  Tokens tokens() const { return {path.begin() + begin, path.end()}; }
};

std::ostream& operator<<(std::ostream& out, const File& file) {
  for (std::size_t i = 0; i < file.path.size(); ++i) out << (i == file.begin ? "|" : "") << file.path[i];
  return out << (file.wrong_hash ? "!" : "");
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
    NamedSegment segment{
        {Position{begin}, Position{end}}, name(first(files[i].path, begin)), name(files[i].path), tokens[i]};
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
        if (file.wrong_hash || !known.contains(first(file.path, file.begin))) continue;
        for (std::size_t end = file.begin + 1; end <= file.path.size(); ++end) {
          grew |= known.insert(first(file.path, end)).second;
        }
      }
    }
  }
};

std::string wrong_placement(const PrefixIndex& index, const Twin& twin, const File& file, const Placement& placement) {
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
  return "";
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

// Directories of files over a few conversations, given in two portions: the second finds the first in the index.
TEST(Rebuild, AgreesWithTheTwinOnRandomDirectoriesInTwoPortions) {
  const auto file = rc::gen::exec([] {
    File made;
    made.path = *rc::gen::resize(14, rc::gen::nonEmpty(rc::gen::container<Tokens>(rc::gen::inRange<TokenId>(0, 2))));
    made.begin = *rc::gen::inRange<std::size_t>(0, made.path.size());
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
  placements[1].visible_from = Position{1};
  EXPECT_NE(difference(shifted, files, placements), "");
  std::vector<File> believed = files;  // a wrong hash that was believed
  believed[0].wrong_hash = true;
  EXPECT_NE(difference(shifted, believed, placements), "");
}

}  // namespace
}  // namespace kvkeep::index
