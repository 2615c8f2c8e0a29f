#include "inspect/prefix_tree.h"

#include <algorithm>

#include "inspect/sample_directory_test.h"

namespace kvkeep::inspect {
namespace {

using format::PartKind;

// Conversation 1 has four segments; conversation 2 leaves it after two, conversation 3 shares nothing.
std::vector<sim::SampleSegment> three_conversations() {
  return {sim::sample_segment(kModel, 1, 0, 100),
          sim::sample_segment(kModel, 1, 1, 100),
          sim::sample_segment(kModel, 1, 2, 100),
          sim::sample_segment(kModel, 1, 3, 100),
          branch(2, 2, 2, 1, 100),
          sim::sample_segment(kModel, 3, 0, 100),
          sim::sample_leaf(kModel, 1, 3, PartKind::kPoint, 50)};
}

class Trees : public testing::Test {
 protected:
  const std::vector<store::FoundSegment>& files() const { return forest_.directory.models.front().files.segments; }
  const PrefixTree& tree() const { return forest_.trees.front(); }
  void look() { forest_ = directory_.forest(); }

  SampleDirectory directory_;
  Forest forest_;
};

TEST_F(Trees, StraightRunsAreOne) {
  directory_.store(three_conversations());
  look();
  ASSERT_EQ(tree().runs.size(), 4U);
  ASSERT_EQ(tree().roots.size(), 2U);
  const inspect::Run& shared = tree().runs[tree().roots.front()];
  EXPECT_EQ(shared.range, (TokenRange{Position{0}, Position{16}}));
  EXPECT_EQ(shared.rows.size(), 2U);
  ASSERT_EQ(shared.children.size(), 2U);
  const inspect::Run& first = tree().runs[shared.children[0]];
  EXPECT_EQ(first.range, (TokenRange{Position{16}, Position{32}}));
  EXPECT_EQ(first.leaves.size(), 1U);
  EXPECT_EQ(first.depth, 1U);
  EXPECT_EQ(tree().runs[shared.children[1]].range, (TokenRange{Position{16}, Position{24}}));
  EXPECT_TRUE(tree().orphans.empty() && tree().misnamed.empty() && tree().redundant.empty());
}

TEST_F(Trees, ARunWithoutAParentIsAnOrphan) {
  const auto segments = three_conversations();
  directory_.store(segments);
  directory_.remove(segments[1]);
  look();
  EXPECT_EQ(tree().runs.size(), 2U);
  EXPECT_EQ(tree().orphans.size(), 4U);
  EXPECT_EQ(std::ranges::count(tree().run_of, kNone), 4);
}

TEST_F(Trees, TokensOfAPath) {
  directory_.store(three_conversations());
  look();
  const std::size_t leaf = tree().runs[tree().roots.front()].children[1];
  std::vector<TokenId> expected;
  for (TokenId i = 0; i < 24; ++i) expected.push_back((i < 16 ? 1000 : 2000) + i);
  EXPECT_EQ(path_tokens(tree(), files(), leaf), expected);
  EXPECT_EQ(own_tokens(tree(), files(), leaf), std::vector<TokenId>(expected.begin() + 16, expected.end()));
  EXPECT_EQ(own_tokens(tree(), files(), tree().roots.front()),
            std::vector<TokenId>(expected.begin(), expected.begin() + 16));
}

TEST_F(Trees, SubtreesHaveChildrenFirst) {
  directory_.store(three_conversations());
  look();
  const std::size_t root = tree().roots.front();
  const std::vector<std::size_t> found = subtree(tree(), root);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found.back(), root);
}

TEST_F(Trees, IdsLeadToRuns) {
  directory_.store(three_conversations());
  look();
  const std::size_t root = tree().roots.front();
  const std::string whole = tree().runs[root].end_hash.hex();
  EXPECT_EQ(forest_.ids.find(whole).value(), (IdTarget{0, root}));
  EXPECT_EQ(forest_.ids.find(forest_.ids.shown(tree().runs[root].end_hash)).value(), (IdTarget{0, root}));
  // Also the end of a segment within the run: an id that was noted before the run grew.
  EXPECT_EQ(forest_.ids.find(files()[tree().runs[root].rows.front()].header.name.end_hash.hex()).value(),
            (IdTarget{0, root}));
  EXPECT_EQ(forest_.ids.find("abc").error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(forest_.ids.find("xyzxyz").error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(forest_.ids.find(std::string(64, '0')).error().kind, ErrorKind::kNotFound);
}

TEST(PrefixIds, AreAsLongAsTheyMustBe) {
  PrefixHash a, b, c;
  a.bytes.fill(0x11);
  b = a;
  b.bytes[6] = 0x12;  // they differ in digit 14
  c.bytes.fill(0x22);
  PrefixIds ids;
  ids.add(a, {0, 0});
  ids.add(b, {0, 1});
  ids.add(c, {1, 0});
  ids.sort();
  EXPECT_EQ(ids.shown_length(), 14U);
  EXPECT_EQ(ids.find(ids.shown(b)).value(), (IdTarget{0, 1}));
  EXPECT_EQ(ids.find("2222").value(), (IdTarget{1, 0}));
  const Error ambiguous = ids.find("1111").error();
  EXPECT_EQ(ambiguous.kind, ErrorKind::kInvalid);
  EXPECT_NE(ambiguous.message.find("ambiguous: 11111111111111, 11111111111112"), std::string::npos)
      << ambiguous.message;
}

TEST(PrefixIds, OneRunIsNotAmbiguous) {
  PrefixHash a, b;
  b.bytes[31] = 1;
  PrefixIds ids;
  ids.add(a, {0, 0});
  ids.add(b, {0, 0});
  ids.sort();
  EXPECT_EQ(ids.shown_length(), 64U);
  EXPECT_EQ(ids.find("0000").value(), (IdTarget{0, 0}));
}

}  // namespace
}  // namespace kvkeep::inspect
