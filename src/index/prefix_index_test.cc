// The trie against a naive twin: the set of all known prefixes. Exhaustive over small histories, then random ones.

#include "index/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "index/prefix_fixture.h"

namespace kvkeep::index::prefix_twin {
namespace {

[[maybe_unused]] const bool seeded = seed_rapidcheck();

// The trie as histories use it. Mutants override what they get wrong.
class Trie {
 public:
  virtual ~Trie() = default;
  virtual std::vector<Step> match(const Tokens& prompt) const { return index.match(prompt); }
  // Inserts what is not known of the tokens, in segments of at most `piece` tokens.
  virtual void learn(const Tokens& tokens, std::size_t piece) {
    Cursor at = index.advance({}, tokens);
    while (at.at.value() < tokens.size()) {
      const std::size_t end = std::min(tokens.size(), at.at.value() + piece);
      const TokenSpan part = TokenSpan(tokens).subspan(at.at.value(), end - at.at.value());
      const SegmentId id = index.insert(at, part, name(first(tokens, at.at.value())), name(first(tokens, end)));
      at = {id, Position{static_cast<std::uint32_t>(end)}};
    }
  }
  virtual void forget(SegmentId end) { index.erase(end); }

  // Segments without children, in an order that does not depend on ids.
  std::vector<SegmentId> ends() const {
    auto found = index.childless();
    std::ranges::sort(found, {}, [this](SegmentId id) { return path_of(id); });
    return found;
  }
  Tokens path_of(SegmentId id) const { return index.path_tokens({id, index.info(id).range.end}); }

  PrefixIndex index;
};

struct Twin {
  std::set<Tokens> known;
  void learn(const Tokens& tokens) {
    for (std::size_t count = 1; count <= tokens.size(); ++count) known.insert(first(tokens, count));
  }
  void forget(const Tokens& path, Position begin) {
    for (std::size_t count = begin.value() + 1; count <= path.size(); ++count) known.erase(first(path, count));
  }
  std::size_t match(const Tokens& prompt) const {
    std::size_t count = 0;
    while (count < prompt.size() && known.contains(first(prompt, count + 1))) ++count;
    return count;
  }
};

std::string wrong_path(const Trie& trie, const Tokens& prompt, const std::vector<Step>& steps) {
  Cursor at;
  for (const Step& step : steps) {
    if (step.range.begin != at.at || step.range.empty()) return "steps have gaps";
    const SegmentInfo& info = trie.index.info(step.segment);
    if (info.range.begin != step.range.begin || info.parent != at.segment) return "a step that no segment begins";
    at = {step.segment, step.range.end};
  }
  if (trie.index.path_tokens(at) != first(prompt, at.at.value())) return "other tokens";
  for (std::size_t cut = 0; cut <= prompt.size(); ++cut) {
    const Cursor middle = trie.index.advance({}, TokenSpan(prompt).first(cut));
    if (middle.at.value() < cut) continue;
    if (trie.index.advance(middle, TokenSpan(prompt).subspan(cut)) != at) return "advance in two goes";
  }
  return "";
}

std::string wrong_segments(const Trie& trie, const Twin& twin) {
  std::size_t segments = 0;
  for (std::uint32_t i = 1; i < trie.index.id_bound(); ++i) {
    const SegmentId id{i};
    if (!trie.index.contains(id)) continue;
    ++segments;
    const SegmentInfo& info = trie.index.info(id);
    const Tokens path = trie.path_of(id);
    if (!twin.known.contains(path)) return "a segment that was never learnt";
    if (info.begin_hash != name(first(path, info.range.begin.value())) || info.end_hash != name(path)) return "hashes";
    if (!std::ranges::equal(trie.index.tokens(id), TokenSpan(path).subspan(info.range.begin.value()))) return "tokens";
    const auto children = trie.index.children(id);
    if (children.size() != info.children) return "child count";
    for (const SegmentId child : children) {
      if (trie.index.info(child).parent != id) return "a child of another parent";
    }
    auto path_above = trie.index.path(info.parent);
    path_above.push_back(id);
    if (trie.index.path(id) != path_above) return "path";
  }
  return segments == trie.index.segment_count() ? "" : "segment count";
}

// Empty: trie and twin agree about everything that can be asked.
std::string difference(const Trie& trie, const Twin& twin, const std::vector<Tokens>& prompts) {
  if (trie.index.token_count() != twin.known.size()) return "token count";
  for (const Tokens& prompt : prompts) {
    const auto steps = trie.match(prompt);
    const std::size_t matched = steps.empty() ? 0 : steps.back().range.end.value();
    if (matched != twin.match(prompt)) return "match";
    if (const auto wrong = wrong_path(trie, prompt, steps); !wrong.empty()) return wrong;
  }
  return wrong_segments(trie, twin);
}

// A step of a history: learn the tokens, or (tokens empty) forget the segment without children of that number.
struct Action {
  Tokens tokens;
  std::size_t number = 0;  // learn: piece length; forget: which of those segments
};

void apply(const Action& action, Trie& trie, Twin& twin) {
  if (!action.tokens.empty()) {
    trie.learn(action.tokens, action.number);
    twin.learn(action.tokens);
    return;
  }
  const auto ends = trie.ends();
  if (ends.empty()) return;
  const SegmentId last = ends[action.number % ends.size()];
  const Position begin = trie.index.info(last).range.begin;
  twin.forget(trie.path_of(last), begin);
  trie.forget(last);
}

std::vector<Tokens> all_sequences(TokenId alphabet, std::size_t longest) {
  std::vector<Tokens> all;
  std::function<void(Tokens)> extend = [&](Tokens tokens) {
    if (!tokens.empty()) all.push_back(tokens);
    if (tokens.size() == longest) return;
    for (TokenId token = 0; token < alphabet; ++token) {
      tokens.push_back(token);
      extend(tokens);
      tokens.pop_back();
    }
  };
  extend({});
  return all;
}

struct Universe {
  TokenId alphabet;
  std::size_t longest;
  std::size_t depth;
  std::vector<std::size_t> pieces;
  std::size_t forgettable;
};

// Every history of exactly `depth` steps; the first difference, or empty.
template <typename TrieType>
std::string explore(const Universe& universe) {
  std::vector<Action> actions;
  for (const Tokens& tokens : all_sequences(universe.alphabet, universe.longest)) {
    for (const std::size_t piece : universe.pieces) actions.push_back({tokens, piece});
  }
  for (std::size_t end = 0; end < universe.forgettable; ++end) actions.push_back({{}, end});
  const auto prompts = all_sequences(universe.alphabet, universe.longest + 1);
  std::vector<std::size_t> history(universe.depth, 0);
  while (true) {
    TrieType trie;
    Twin twin;
    for (const std::size_t action : history) apply(actions[action], trie, twin);
    if (auto found = difference(trie, twin, prompts); !found.empty()) return found;
    std::size_t digit = 0;
    while (digit < history.size() && ++history[digit] == actions.size()) history[digit++] = 0;
    if (digit == history.size()) return "";
  }
}

TEST(PrefixIndex, AgreesWithTheTwinOnEverySmallHistory) {
  EXPECT_EQ(explore<Trie>({.alphabet = 2, .longest = 3, .depth = 3, .pieces = {1, 2, 9}, .forgettable = 3}), "");
  EXPECT_EQ(explore<Trie>({.alphabet = 3, .longest = 2, .depth = 4, .pieces = {9}, .forgettable = 2}), "");
}

// ---- mutants: what the comparison must catch ----

struct IgnoresBranchesInTheMiddle final : Trie {
  std::vector<Step> match(const Tokens& prompt) const override {
    auto steps = index.match(prompt);
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      if (steps[i].range.end != index.info(steps[i].segment).range.end) steps.resize(i + 1);
    }
    return steps;
  }
};

struct LosesTheLastToken final : Trie {
  std::vector<Step> match(const Tokens& prompt) const override {
    auto steps = index.match(prompt);
    if (!steps.empty() && steps.back().range.size() > 1) {
      steps.back().range.end = Position{steps.back().range.end.value() - 1};
    }
    return steps;
  }
};

struct SkipsASegment final : Trie {
  std::vector<Step> match(const Tokens& prompt) const override {
    auto steps = index.match(prompt);
    if (steps.size() == 3) steps.erase(steps.begin() + 1);
    return steps;
  }
};

struct ForgetsNothing final : Trie {
  void forget(SegmentId) override {}
};

struct ForgetsTheParentToo final : Trie {
  void forget(SegmentId end) override {
    const SegmentId parent = index.info(end).parent;
    index.erase(end);
    if (parent != kRootSegment && index.info(parent).children == 0) index.erase(parent);
  }
};

struct NamesBySegmentAlone final : Trie {
  void learn(const Tokens& tokens, std::size_t) override {
    const Cursor at = index.advance({}, tokens);
    if (at.at.value() == tokens.size()) return;
    const Tokens part(tokens.begin() + at.at.value(), tokens.end());
    index.insert(at, part, name(first(tokens, at.at.value())), name(part));
  }
};

TEST(PrefixIndex, TheTwinCatchesEveryMutant) {
  const Universe universe{.alphabet = 2, .longest = 3, .depth = 2, .pieces = {1, 2, 9}, .forgettable = 2};
  EXPECT_NE(explore<IgnoresBranchesInTheMiddle>(universe), "");
  EXPECT_NE(explore<LosesTheLastToken>(universe), "");
  EXPECT_NE(explore<SkipsASegment>(universe), "");
  EXPECT_NE(explore<ForgetsNothing>(universe), "");
  EXPECT_NE(explore<ForgetsTheParentToo>(universe), "");
  EXPECT_NE(explore<NamesBySegmentAlone>(universe), "");
}

// ---- random histories ----

rc::Gen<Tokens> arbitrary_tokens() {
  return rc::gen::nonEmpty(rc::gen::container<Tokens>(rc::gen::inRange<TokenId>(0, 3)));
}

TEST(PrefixIndex, AgreesWithTheTwinOnRandomHistories) {
  EXPECT_TRUE(rc::check("trie and twin agree after every step", [] {
    Trie trie;
    Twin twin;
    std::vector<Tokens> prompts;
    const auto steps = *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>());
    for (const bool learns : steps) {
      if (learns) prompts.push_back(*arbitrary_tokens());
      const auto number = *rc::gen::inRange<std::size_t>(1, 12);
      apply({learns ? prompts.back() : Tokens{}, number}, trie, twin);
      RC_ASSERT(difference(trie, twin, prompts) == "");
    }
  }));
}

TEST(PrefixIndex, IdsAreReusedAndStrangersAreNotContained) {
  Trie trie;
  trie.learn({1, 2, 3}, 9);
  trie.forget(trie.ends().front());
  EXPECT_EQ(trie.index.segment_count(), 0U);
  EXPECT_FALSE(trie.index.contains(SegmentId{1}));
  EXPECT_FALSE(trie.index.contains(SegmentId{99}));
  EXPECT_TRUE(trie.index.contains(kRootSegment));
  trie.learn({4}, 9);
  EXPECT_EQ(trie.index.id_bound(), 2U);
  PrefixIndex moved = std::move(trie.index);
  EXPECT_EQ(moved.match(Tokens{4, 5}).size(), 1U);
}

TEST(PrefixIndex, SampledIdsOfAPromptAreMarkedAndForgottenWithIt) {
  PrefixIndex index;
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const SegmentId above = index.insert({}, TokenSpan(tokens).first(4), {}, {});
  const SegmentId below = index.insert({above, Position{4}}, TokenSpan(tokens).subspan(4), {}, {});
  const SegmentId beside = index.insert({above, Position{2}}, Tokens{7}, {}, {});
  const Cursor end{below, Position{9}};
  index.mark_sampled(end, {Position{6}, Position{7}});
  index.mark_sampled(end, {Position{8}, Position{99}});  // as far as the cursor
  EXPECT_EQ(index.sampled_ranges(below),
            (std::vector<TokenRange>{{Position{6}, Position{7}}, {Position{8}, Position{9}}}));
  EXPECT_TRUE(index.sampled_children(above).empty()) << "its first id was not";
  index.mark_sampled(end, {Position{3}, Position{8}});
  EXPECT_EQ(index.sampled_ranges(below), (std::vector<TokenRange>{{Position{4}, Position{9}}}));
  EXPECT_EQ(index.sampled_ranges(above), (std::vector<TokenRange>{{Position{3}, Position{4}}}));
  EXPECT_TRUE(index.sampled_ranges(beside).empty());
  EXPECT_EQ(index.sampled_children(above), std::vector<SegmentId>{below});
  EXPECT_EQ(index.children(above).size(), 2U);
  index.erase(below);
  EXPECT_EQ(index.children(above), std::vector<SegmentId>{beside});
  const SegmentId again = index.insert({above, Position{4}}, TokenSpan(tokens).subspan(4), {}, {});
  EXPECT_TRUE(index.sampled_ranges(again).empty());
}

TEST(PrefixIndex, SegmentsAreFoundByTheNameOfTheirEndWhileTheyExist) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6};
  const PrefixHash middle = name({1, 2, 3});
  const PrefixHash end = name(tokens);
  PrefixIndex index;
  const SegmentId above = index.insert({}, TokenSpan(tokens).first(3), {}, middle);
  const SegmentId below = index.insert({above, Position{3}}, TokenSpan(tokens).subspan(3), middle, end);
  const SegmentId point = index.insert_leaf({below, Position{6}}, format::PartKind::kPoint, Position{6}, end, end);
  EXPECT_EQ(index.ending_with(middle), std::vector<SegmentId>{above});
  EXPECT_THAT(index.ending_with(end), testing::UnorderedElementsAre(below, point));
  index.erase(point);
  EXPECT_EQ(index.ending_with(end), std::vector<SegmentId>{below});
  index.erase(below);
  EXPECT_TRUE(index.ending_with(end).empty());
  EXPECT_TRUE(index.ending_with(name({9})).empty());
}

TEST(PrefixIndexDeathTest, BugsEndTheProcess) {
  Trie trie;
  trie.learn({1, 2, 3}, 2);
  const SegmentId parent = trie.index.path(trie.ends().front()).front();
  EXPECT_DEATH(trie.index.erase(parent), "children stays");
  EXPECT_DEATH(trie.index.erase(kRootSegment), "root stays");
  EXPECT_DEATH(trie.index.erase(SegmentId{9}), "is in the index");
  EXPECT_DEATH((void)trie.index.info(kRootSegment), "root is no segment");
  EXPECT_DEATH(trie.index.insert({}, {}, {}, {}), "has tokens");
  EXPECT_DEATH(trie.index.insert({}, Tokens{1}, {}, {}), "no other child");
  EXPECT_DEATH(trie.index.insert({parent, Position{1}}, Tokens{2}, {}, {}), "does not go on");
  EXPECT_DEATH(trie.index.insert({parent, Position{3}}, Tokens{2}, {}, {}), "cursor is in the trie");
}

}  // namespace
}  // namespace kvkeep::index::prefix_twin
