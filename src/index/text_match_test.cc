// Text matching against a naive twin that knows every prefix and compares whole texts: exhaustive over small tries and
// prompts, then random ones; and mutants that the check must catch.

#include "index/text_match.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "base/test_seed.h"
#include "index/text_match_twin_test.h"

namespace kvkeep::index {
namespace {

// ---- exhaustive and random ----

// All token runs of up to `size` ids.
std::vector<Tokens> all_runs(const Tokens& alphabet, std::size_t size) {
  std::vector<Tokens> runs = {{}};
  for (std::size_t begin = 0, length = 0; length < size; ++length) {
    const std::size_t end = runs.size();
    for (; begin < end; ++begin) {
      for (const TokenId id : alphabet) {
        Tokens longer = runs[begin];
        longer.push_back(id);
        runs.push_back(std::move(longer));
      }
    }
  }
  return runs;
}

TEST(TextMatch, FindsTheLongestForEverySmallReplyAndPrompt) {
  const Tokens alphabet = {0, 1, 2, kMarker};
  const std::vector<Tokens> prompts = all_runs(alphabet, 4);
  std::size_t replaced = 0;
  for (const Tokens& head : all_runs(alphabet, 1)) {
    for (const Tokens& sampled : all_runs(alphabet, 3)) {
      Trie trie;
      trie.learn({head, sampled}, 2);
      for (const Tokens& prompt : prompts) {
        const TextMatch match = trie.match(prompt);
        ASSERT_EQ(wrong(trie.twin, prompt, match), "")
            << "known" << to_string(head) << " |" << to_string(sampled) << ", prompt" << to_string(prompt);
        replaced += match.head != first(prompt, match.prompt_tokens);
      }
    }
  }
  EXPECT_GT(replaced, 1000U);
}

TEST(TextMatch, FindsTheLongestOfEveryTwoSmallReplies) {
  const Tokens alphabet = {0, 1, 2};
  const std::vector<Tokens> runs = all_runs(alphabet, 3);
  const std::vector<Tokens> prompts = all_runs(alphabet, 4);
  for (const Tokens& one : runs) {
    for (const Tokens& other : runs) {
      if (one.size() + other.size() < 4) continue;  // less than both of the next size
      Trie trie;
      trie.learn({{}, one}, 3);
      trie.learn({first(other, 1), {other.begin() + 1, other.end()}}, 1);
      for (std::size_t i = 0; i < prompts.size(); i += 3) {
        const Tokens& prompt = prompts[(i + one.size()) % prompts.size()];
        ASSERT_EQ(wrong(trie.twin, prompt, trie.match(prompt)), "")
            << "known |" << to_string(one) << " and" << to_string(other) << ", prompt" << to_string(prompt);
      }
    }
  }
}

TEST(TextMatch, FindsTheLongestInRandomTries) {
  const std::uint64_t seed = test_seed();
  std::size_t replaced = 0;
  for (std::uint64_t round = 0; round < 4000; ++round) {
    RandomCase made(seed + round);
    if (round % 3 == 0 && made.trie.index.id_bound() > 2) {
      const SegmentId lost{static_cast<std::uint32_t>(1 + round % (made.trie.index.id_bound() - 1))};
      made.trie.lose(lost);
    }
    for (int i = 0; i < 8; ++i) {
      const Tokens prompt = made.prompt();
      const TextMatch match = made.trie.match(prompt);
      ASSERT_EQ(wrong(made.trie.twin, prompt, match), "") << "seed " << seed + round << ", prompt" << to_string(prompt);
      replaced += match.head != first(prompt, match.prompt_tokens);
    }
  }
  EXPECT_GT(replaced, 2000U);
}

TEST(TextMatch, OneLiveSequenceMatchesAsATrieOfIt) {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t round = 0; round < 4000; ++round) {
    RandomCase made(seed + round);
    Tokens all = made.runs.back().prompt;
    const Position end = Position{} + all.size();
    all.insert(all.end(), made.runs.back().sampled.begin(), made.runs.back().sampled.end());
    Trie trie;
    trie.learn(made.runs.back(), 3);
    const std::vector<TokenRange> sampled = {{end, end + 1000}};
    for (int i = 0; i < 4; ++i) {
      const Tokens prompt = made.prompt();
      const TextMatch match = match_text(all, sampled, prompt, texts());
      ASSERT_EQ(wrong(trie.twin, prompt, match), "") << "seed " << seed + round << ", prompt" << to_string(prompt);
    }
  }
}

// ---- the check finds what is wrong ----

// Returns true if any of many random cases is found wrong.
template <typename Mutant>
bool caught(Mutant mutant) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    RandomCase made(seed);
    for (int i = 0; i < 8; ++i) {
      const Tokens prompt = made.prompt();
      if (!wrong_match(made.trie.twin, prompt, mutant(made, prompt)).empty()) return true;
    }
  }
  return false;
}

TEST(TextMatchMutants, AreCaught) {
  EXPECT_FALSE(caught([](RandomCase& made, const Tokens& prompt) { return made.trie.match(prompt); }));
  // Prompts' ids replace others.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    Trie careless;
    for (const Request& run : made.runs) {
      Tokens all = run.prompt;
      all.insert(all.end(), run.sampled.begin(), run.sampled.end());
      careless.learn({{}, all}, 3);
    }
    return careless.match(prompt);
  }));
  // Markers are text.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    const WordVocabulary written({"a", "b", "ab", "ab", "ba", "aab", ""}, {});
    return made.trie.match(prompt, TokenTexts(written, [](TokenId) { return false; }));
  }));
  // Letters are mistaken for each other.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    const WordVocabulary blurred({"a", "a", "aa", "ab", "aa", "aaa", ""}, {kMarker});
    return made.trie.match(prompt, TokenTexts(blurred, [](TokenId id) { return id == kMarker; }));
  }));
  // Only ids.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    const std::size_t known = made.trie.index.advance({}, prompt).at.value();
    TextMatch match = made.trie.match(first(prompt, known));
    return match;
  }));
  // Lost segments are found.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    if (made.trie.lost.empty() && made.trie.index.id_bound() > 1) made.trie.lose(SegmentId{1});
    return match_text(made.trie.index, prompt, texts(), [](SegmentId) { return true; });
  }));
  // The first alternative is taken, not the longest: what other requests left is forgotten.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    Trie one;
    one.learn(made.runs.front(), 3);
    return one.match(prompt);
  }));
  // An id that was a prompt's before it was sampled stays a prompt's.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    Trie forgetful;
    for (const Request& run : made.runs) forgetful.learn(run, 3, false);
    return forgetful.match(prompt);
  }));
  // It ends in the middle of a piece, or one id late.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    TextMatch match = made.trie.match(prompt);
    if (match.prompt_tokens < prompt.size()) ++match.prompt_tokens;
    return match;
  }));
  // The origin is wrong.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    TextMatch match = made.trie.match(prompt);
    match.sampled.clear();
    return match;
  }));
}

// ---- single facts ----

TEST(TextMatch, TheLastCommonEndIsInTheMiddleOfWhatWasSampled) {
  Trie trie;
  trie.learn({{kMarker}, {0, 0, 1, 0}}, 8);  // aaba
  const Tokens prompt = {kMarker, 5, 2};     // aab ab: pieces end at 3 in both
  const TextMatch match = trie.match(prompt);
  EXPECT_EQ(match.head, (Tokens{kMarker, 0, 0, 1}));
  EXPECT_EQ(match.prompt_tokens, 2U);
  const EffectivePrompt effective = effective_prompt(match, prompt, texts());
  EXPECT_EQ(effective.tokens, (Tokens{kMarker, 0, 0, 1, 2}));
  const std::vector<Replacement> expected = {{{Position{1}, Position{2}}, {Position{1}, Position{4}}}};
  EXPECT_EQ(effective.replacements, expected);
  EXPECT_EQ(effective.moved(Position{3}), Position{5});
}

TEST(TextMatch, IdsOfAPromptThatAreSampledLaterAreText) {
  Trie trie;
  trie.learn({{kMarker, 0, 1, 4}, {}}, 8);
  trie.learn({{kMarker}, {0, 1, 0}}, 8);  // ab, one by one, then another end
  const TextMatch match = trie.match({kMarker, 2, 0, 4});
  EXPECT_EQ(match.head, (Tokens{kMarker, 0, 1, 0}));
  EXPECT_EQ(match.sampled, (std::vector<TokenRange>{{Position{1}, Position{4}}}));
  EXPECT_EQ(trie.match({kMarker, 2, 4}).head, (Tokens{kMarker, 0, 1, 4})) << "ids that agree go on behind it";
  EXPECT_EQ(trie.match({kMarker, 2, 1, 0}).head, (Tokens{kMarker, 0, 1})) << "the prompt's own end was never sampled";
}

TEST(TextMatch, AMarkerInAReplyIsNotItsText) {
  Trie trie;
  trie.learn({{0}, {kMarker, 1}}, 8);
  EXPECT_EQ(trie.match({0, 2, 1}).prompt_tokens, 1U);
  EXPECT_EQ(trie.match({0, kMarker, 1}).prompt_tokens, 3U);
}

// Many replies to one prompt that all begin with the same text in other ids: the work is bounded, ids are still found.
TEST(TextMatch, LookAlikesCostNoMoreThanTheLimit) {
  Trie trie;
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    Tokens other;
    for (std::size_t letters = 0; letters + 2 <= 400;) {  // a run of "ab" as one id or two
      if (random() % 2 == 0) {
        other.push_back(2);
      } else {
        other.insert(other.end(), {0, 1});
      }
      letters += 2;
    }
    Cursor at = trie.index.advance({}, other);
    if (at.at.value() == other.size()) continue;
    trie.index.insert(at, TokenSpan(other).subspan(at.at.value()), {}, {}, Origin::kSampled);
  }
  Tokens prompt(200, 2);
  prompt.push_back(4);
  std::size_t asked = 0;
  const TextMatch match = match_text(trie.index, prompt, texts(), [&](SegmentId) { return ++asked > 0; });
  EXPECT_GE(match.prompt_tokens, trie.index.advance({}, prompt).at.value());
  EXPECT_LT(asked, 2 * 16384 + 4 * prompt.size());
}

// ---- pictures and sounds ----

TEST(TextMatch, IdsOfPicturesMatchOnlyAsIds) {
  const TokenId picture = std::numeric_limits<TokenId>::min() + 5;
  EXPECT_EQ(texts().text(picture), "");
  EXPECT_EQ(texts().text(-1), "");
  Trie trie;
  // "ab" after a picture was sampled as one id, before the picture as two.
  trie.learn({{0, picture}, {2, picture, 0, 1}}, 8);
  const TextMatch same = trie.match({0, picture, 0, 1, picture, 2});
  EXPECT_EQ(same.prompt_tokens, 6U);
  EXPECT_EQ(same.head, (Tokens{0, picture, 2, picture, 0, 1}));
  const TextMatch other = trie.match({0, picture, 0, 1, picture + 1, 2});
  EXPECT_EQ(other.prompt_tokens, 4U) << "another picture ends what is known";
  EXPECT_EQ(trie.match({0, picture + 1, 2}).prompt_tokens, 1U);
}

}  // namespace
}  // namespace kvkeep::index
