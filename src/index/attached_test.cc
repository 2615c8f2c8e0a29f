// Leaves against a naive twin: a map from (prefix, kind) to where the leaf begins, and a trie without leaves
// that must match the same. Exhaustive over small histories.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "index/prefix_fixture.h"
#include "index/prefix_index.h"

namespace kvkeep::index::leaf_twin {
namespace {

using format::PartKind;

Position position(std::size_t at) { return Position{static_cast<std::uint32_t>(at)}; }

// The trie as histories use it. Mutants override what they get wrong.
class Trie {
 public:
  virtual ~Trie() = default;
  virtual SegmentId leaf_at(Cursor at, PartKind kind) const { return index.leaf(at, kind); }
  virtual std::vector<SegmentId> leaves_of(SegmentId segment) const { return index.leaves_of(segment); }
  virtual void forget(SegmentId id) { index.erase(id); }
  virtual void add_leaf(Cursor at, PartKind kind, Position begin, const Tokens& prefix) {
    index.insert_leaf(at, kind, begin, name(first(prefix, begin.value())), name(prefix));
  }
  void learn(const Tokens& tokens) { learn_in(index, tokens); }

  static void learn_in(PrefixIndex& index, const Tokens& tokens) {
    const Cursor at = index.advance({}, tokens);
    if (at.at.value() == tokens.size()) return;
    const TokenSpan fresh = TokenSpan(tokens).subspan(at.at.value());
    index.insert(at, fresh, name(first(tokens, at.at.value())), name(tokens));
  }

  PrefixIndex index;
};

struct Twin {
  PrefixIndex rows;  // never has a leaf
  std::map<std::pair<Tokens, PartKind>, Position> leaves;
};

std::vector<TokenRange> ranges(const std::vector<Step>& steps) {
  std::vector<TokenRange> found;
  for (const Step& step : steps) found.push_back(step.range);
  return found;
}

std::string wrong_leaf(const Trie& trie, SegmentId id, Cursor at, const Tokens& prefix, PartKind kind, Position begin) {
  if (!trie.index.contains(id)) return "a leaf that is not there";
  const SegmentInfo& info = trie.index.info(id);
  if (info.kind != kind || info.range != TokenRange{begin, position(prefix.size())}) return "kind or range";
  if (info.parent != at.segment || info.children != 0) return "hangs elsewhere";
  if (info.begin_hash != name(first(prefix, begin.value())) || info.end_hash != name(prefix)) return "hashes";
  if (!std::ranges::equal(trie.index.tokens(id), TokenSpan(prefix).subspan(begin.value()))) return "tokens";
  if (trie.index.path_tokens({id, info.range.end}) != prefix) return "path tokens";
  auto path = trie.index.path(at.segment);
  path.push_back(id);
  return trie.index.path(id) == path ? "" : "path";
}

std::string wrong_lists(const Trie& trie) {
  std::size_t childless = 0;
  std::size_t leaves = 0;
  for (std::uint32_t i = 1; i < trie.index.id_bound(); ++i) {
    const SegmentId id{i};
    if (!trie.index.contains(id)) continue;
    const auto children = trie.index.children(id);
    if (children.size() != trie.index.info(id).children) return "child count";
    childless += children.empty() ? 1 : 0;
    const auto here = trie.leaves_of(id);
    leaves += here.size();
    for (const SegmentId leaf : here) {
      if (std::ranges::count(children, leaf) != 1) return "a leaf that is no child";
      if (trie.index.info(leaf).kind == PartKind::kRows) return "rows as a leaf";
    }
    const auto key = [&](SegmentId leaf) {
      return std::pair(trie.index.info(leaf).range.end, trie.index.info(leaf).kind);
    };
    if (!std::ranges::is_sorted(here, {}, key)) return "not ascending";
  }
  if (leaves != trie.index.leaf_count()) return "leaf count";
  return childless == trie.index.childless().size() ? "" : "childless";
}

// Returns the empty string if trie and twin agree about everything that can be asked.
std::string difference(const Trie& trie, const Twin& twin, const std::vector<Tokens>& prompts) {
  if (trie.index.leaf_count() != twin.leaves.size()) return "number of leaves";
  if (trie.index.segment_count() != twin.rows.segment_count()) return "number of segments";
  if (trie.index.token_count() != twin.rows.token_count()) return "number of tokens";
  for (const Tokens& prompt : prompts) {
    if (ranges(trie.index.match(prompt)) != ranges(twin.rows.match(prompt))) return "match";
    const Cursor at = trie.index.advance({}, prompt);
    if (at.at.value() < prompt.size()) continue;
    for (const PartKind kind : {PartKind::kWindowRows, PartKind::kPoint, PartKind::kWhole}) {
      const SegmentId id = trie.leaf_at(at, kind);
      const auto known = twin.leaves.find({prompt, kind});
      if ((id != kRootSegment) != (known != twin.leaves.end())) return "a leaf lost or invented";
      if (id == kRootSegment) continue;
      if (auto wrong = wrong_leaf(trie, id, at, prompt, kind, known->second); !wrong.empty()) return wrong;
    }
  }
  return wrong_lists(trie);
}

// A step of a history.
struct Action {
  enum class Kind { kLearn, kAddLeaf, kForget } what = Kind::kLearn;
  Tokens tokens;
  PartKind kind = PartKind::kPoint;  // of the leaf at the end of the tokens
  std::size_t number = 0;            // of a leaf: tokens that it covers; forget: which of those without children
};

void add_leaf(const Action& action, Trie& trie, Twin& twin) {
  const Cursor at = trie.index.advance({}, action.tokens);
  if (at.at.value() < action.tokens.size() || twin.leaves.contains({action.tokens, action.kind})) return;
  const Position begin = position(action.tokens.size() - action.number);
  if (begin < trie.index.info(at.segment).range.begin) return;
  trie.add_leaf(at, action.kind, begin, action.tokens);
  twin.leaves[{action.tokens, action.kind}] = begin;
}

void forget(const Action& action, Trie& trie, Twin& twin) {
  // In an order that does not depend on ids.
  std::vector<std::tuple<Tokens, PartKind, SegmentId>> childless;
  for (const SegmentId id : trie.index.childless()) {
    const SegmentInfo& info = trie.index.info(id);
    childless.emplace_back(trie.index.path_tokens({id, info.range.end}), info.kind, id);
  }
  if (childless.empty()) return;
  std::ranges::sort(childless);
  const auto& [path, kind, id] = childless[action.number % childless.size()];
  trie.forget(id);
  if (kind == PartKind::kRows) {
    twin.rows.erase(twin.rows.advance({}, path).segment);
  } else {
    twin.leaves.erase({path, kind});
  }
}

void apply(const Action& action, Trie& trie, Twin& twin) {
  switch (action.what) {
    case Action::Kind::kLearn:
      trie.learn(action.tokens);
      Trie::learn_in(twin.rows, action.tokens);
      return;
    case Action::Kind::kAddLeaf: return add_leaf(action, trie, twin);
    case Action::Kind::kForget: return forget(action, trie, twin);
  }
}

std::vector<Tokens> all_prompts(std::size_t longest) {
  std::vector<Tokens> all;
  for (std::size_t length = 1; length <= longest; ++length) {
    for (std::uint32_t bits = 0; bits < (1U << length); ++bits) {
      Tokens prompt;
      for (std::size_t i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(bits >> i & 1U));
      all.push_back(prompt);
    }
  }
  return all;
}

std::vector<Action> all_actions(std::size_t longest, std::size_t forgettable) {
  std::vector<Action> actions;
  for (const Tokens& prompt : all_prompts(longest)) {
    actions.push_back({Action::Kind::kLearn, prompt});
    actions.push_back({Action::Kind::kAddLeaf, prompt, PartKind::kPoint, 0});
    actions.push_back({Action::Kind::kAddLeaf, prompt, PartKind::kWindowRows, 1});
    if (prompt.size() > 1) actions.push_back({Action::Kind::kAddLeaf, prompt, PartKind::kWindowRows, 2});
  }
  for (std::size_t i = 0; i < forgettable; ++i) actions.push_back({Action::Kind::kForget, {}, {}, i});
  return actions;
}

// Plays every history of `depth` steps after learning `begin`. Returns the first difference, or the empty string.
template <typename TrieType>
std::string explore(const Tokens& begin, std::size_t longest, std::size_t depth) {
  const auto actions = all_actions(longest, 3);
  const auto prompts = all_prompts(longest + 1);
  std::vector<std::size_t> history(depth, 0);
  while (true) {
    TrieType trie;
    Twin twin;
    apply({Action::Kind::kLearn, begin}, trie, twin);
    for (const std::size_t action : history) apply(actions[action], trie, twin);
    if (auto found = difference(trie, twin, prompts); !found.empty()) return found;
    std::size_t digit = 0;
    while (digit < history.size() && ++history[digit] == actions.size()) history[digit++] = 0;
    if (digit == history.size()) return "";
  }
}

TEST(Leaves, AgreesWithTheTwinOnEverySmallHistory) {
  EXPECT_EQ(explore<Trie>({0, 1}, 2, 4), "");
  EXPECT_EQ(explore<Trie>({0, 1, 1}, 3, 2), "");
}

// ---- mutants that the comparison must catch ----

struct FindsAnyKind final : Trie {
  SegmentId leaf_at(Cursor at, PartKind kind) const override {
    const SegmentId own = index.leaf(at, kind);
    return own == kRootSegment ? index.leaf(at, PartKind::kPoint) : own;
  }
};

struct FindsLeavesOfTheWholeSegment final : Trie {
  SegmentId leaf_at(Cursor at, PartKind kind) const override {
    const Position end = index.info(at.segment).range.end;
    const SegmentId last = index.leaf({at.segment, end}, kind);
    return last == kRootSegment ? index.leaf(at, kind) : last;
  }
};

struct ListsBackwards final : Trie {
  std::vector<SegmentId> leaves_of(SegmentId segment) const override {
    auto found = index.leaves_of(segment);
    std::ranges::reverse(found);
    return found;
  }
};

struct ListsOnlyTheFirst final : Trie {
  std::vector<SegmentId> leaves_of(SegmentId segment) const override {
    auto found = index.leaves_of(segment);
    if (found.size() > 1) found.resize(1);
    return found;
  }
};

struct KeepsLeaves final : Trie {
  void forget(SegmentId id) override {
    if (index.info(id).kind == PartKind::kRows) index.erase(id);
  }
};

struct ForgetsTheSegmentToo final : Trie {
  void forget(SegmentId id) override {
    const SegmentInfo leaving = index.info(id);
    index.erase(id);
    if (leaving.kind != PartKind::kRows && index.info(leaving.parent).children == 0) index.erase(leaving.parent);
  }
};

struct WindowsBeginWithTheirSegment final : Trie {
  void add_leaf(Cursor at, PartKind kind, Position begin, const Tokens& prefix) override {
    if (kind == PartKind::kWindowRows) begin = index.info(at.segment).range.begin;
    Trie::add_leaf(at, kind, begin, prefix);
  }
};

struct MovesLeavesToTheSegmentsEnd final : Trie {
  void add_leaf(Cursor at, PartKind kind, Position begin, const Tokens&) override {
    at.at = index.info(at.segment).range.end;
    if (index.leaf(at, kind) != kRootSegment) return;
    Trie::add_leaf(at, kind, kind == PartKind::kWindowRows ? begin : at.at, index.path_tokens(at));
  }
};

TEST(Leaves, TheTwinCatchesEveryMutant) {
  EXPECT_NE(explore<FindsAnyKind>({0, 1}, 2, 2), "");
  EXPECT_NE(explore<FindsLeavesOfTheWholeSegment>({0, 1}, 2, 2), "");
  EXPECT_NE(explore<ListsBackwards>({0, 1}, 2, 2), "");
  EXPECT_NE(explore<ListsOnlyTheFirst>({0, 1}, 2, 2), "");
  EXPECT_NE(explore<KeepsLeaves>({0, 1}, 2, 2), "");
  EXPECT_NE(explore<ForgetsTheSegmentToo>({0, 1}, 2, 2), "");
  EXPECT_NE(explore<WindowsBeginWithTheirSegment>({0, 1}, 2, 2), "");
  EXPECT_NE(explore<MovesLeavesToTheSegmentsEnd>({0, 1}, 2, 2), "");
}

TEST(LeavesDeathTest, BugsEndTheProcess) {
  PrefixIndex index;
  const SegmentId head = index.insert({}, Tokens{1, 2}, {}, {});
  const SegmentId tail = index.insert({head, position(2)}, Tokens{3, 4}, {}, {});
  const SegmentId point = index.insert_leaf({tail, position(3)}, PartKind::kPoint, position(3), {}, {});
  const auto add_leaf = [&](SegmentId to, std::size_t at, PartKind kind, std::size_t begin) {
    index.insert_leaf({to, position(at)}, kind, position(begin), {}, {});
  };
  EXPECT_DEATH(add_leaf(tail, 4, PartKind::kRows, 3), "rows are no leaf");
  EXPECT_DEATH(add_leaf(kRootSegment, 0, PartKind::kPoint, 0), "no leaf hangs in the root");
  EXPECT_DEATH(add_leaf(tail, 2, PartKind::kPoint, 2), "cursor is in the trie");
  EXPECT_DEATH(add_leaf(tail, 5, PartKind::kPoint, 5), "cursor is in the trie");
  EXPECT_DEATH(add_leaf(tail, 4, PartKind::kPoint, 3), "covers nothing");
  EXPECT_DEATH(add_leaf(tail, 4, PartKind::kWhole, 3), "covers nothing");
  EXPECT_DEATH(add_leaf(tail, 4, PartKind::kWindowRows, 4), "within their segment");
  EXPECT_DEATH(add_leaf(tail, 4, PartKind::kWindowRows, 1), "within their segment");
  EXPECT_DEATH(add_leaf(tail, 3, PartKind::kPoint, 3), "no leaf of this kind");
  EXPECT_DEATH(add_leaf(point, 3, PartKind::kWhole, 3), "below a leaf");
  EXPECT_DEATH(index.insert({point, position(3)}, Tokens{9}, {}, {}), "below a leaf");
  EXPECT_DEATH(index.erase(tail), "children stays");
}

}  // namespace
}  // namespace kvkeep::index::leaf_twin
