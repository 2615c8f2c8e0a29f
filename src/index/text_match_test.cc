// Text matching against a naive twin that knows every prefix and compares whole texts: exhaustive over small tries and
// prompts, then random ones; and mutants that the check must catch.

#include "index/text_match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <string>

#include "base/test_seed.h"
#include "base/word_vocabulary_test.h"

namespace kvkeep::index {
namespace {

using Tokens = std::vector<TokenId>;
using format::Origin;

// A marker that is written as text is, and an id without text.
constexpr TokenId kMarker = 3;
constexpr TokenId kSilent = 6;
const WordVocabulary& vocabulary() {
  static const WordVocabulary made({"a", "b", "ab", "ab", "ba", "aab", ""}, {kMarker});
  return made;
}
const TokenTexts& texts() {
  static const TokenTexts made(vocabulary(), [](TokenId id) { return vocabulary().is_marker(id); });
  return made;
}

Tokens first(const Tokens& tokens, std::size_t count) { return {tokens.begin(), tokens.begin() + count}; }

std::string to_string(const Tokens& tokens) {
  std::string text;
  for (const TokenId id : tokens) text.append(" ").append(std::to_string(id));
  return text;
}

// A request: a prompt and what was sampled after it.
struct Request {
  Tokens prompt;
  Tokens sampled;
};

// Who knows what: each known prefix, and where its last id comes from.
using Twin = std::map<Tokens, Origin>;

PrefixHash name(const Tokens& prefix) {
  PrefixHasher hasher(FingerprintHash{});
  hasher.append(prefix);
  return hasher.current();
}

class Trie {
 public:
  // Inserts what is not known, in segments of one origin and at most `piece` ids.
  void learn(const Request& run, std::size_t piece) {
    Tokens all = run.prompt;
    all.insert(all.end(), run.sampled.begin(), run.sampled.end());
    Cursor at = index.advance({}, all);
    while (at.at.value() < all.size()) {
      const std::size_t begin = at.at.value();
      const bool sampled = begin >= run.prompt.size();
      const std::size_t end = std::min(sampled ? all.size() : run.prompt.size(), begin + piece);
      const Origin origin = sampled ? Origin::kSampled : Origin::kPrompt;
      const SegmentId id = index.insert(at, TokenSpan(all).subspan(begin, end - begin), name(first(all, begin)),
                                        name(first(all, end)), origin);
      for (std::size_t i = begin + 1; i <= end; ++i) twin[first(all, i)] = origin;
      at = {id, Position{} + end};
    }
  }
  // The segment and all below cannot be had.
  void lose(SegmentId segment) {
    const Tokens begin = index.path_tokens({segment, index.info(segment).range.begin + 1});
    lost.insert(segment);
    std::erase_if(twin, [&](const auto& known) {
      return known.first.size() >= begin.size() && first(known.first, begin.size()) == begin;
    });
  }
  TextMatch match(const Tokens& prompt, const TokenTexts& with = texts()) const {
    return match_text(index, prompt, with, [this](SegmentId id) { return !lost.contains(id); });
  }

  PrefixIndex index;
  std::set<SegmentId> lost;
  Twin twin;
};

// ---- the twin's rule ----

// An id as letters: what matches as an id alone has a letter of its own.
std::string letters(TokenId id) {
  if (vocabulary().is_marker(id) || vocabulary().piece(id, true).empty()) return std::string(1, static_cast<char>(id));
  return vocabulary().piece(id, true);
}

std::string letters(const Tokens& tokens) {
  std::string text;
  for (const TokenId id : tokens) text += letters(id);
  return text;
}

// Ids by the letter they begin at.
std::map<std::size_t, TokenId> places(const Tokens& tokens) {
  std::map<std::size_t, TokenId> found;
  std::size_t at = 0;
  for (const TokenId id : tokens) {
    found[at] = id;
    at += letters(id).size();
  }
  return found;
}

// "": `head` may stand for the first `count` ids of the prompt.
std::string wrong_head(const Twin& twin, const Tokens& head, const Tokens& prompt, std::size_t count) {
  if (letters(head) != letters(first(prompt, count))) return "other text";
  const std::map<std::size_t, TokenId> theirs = places(prompt);
  std::size_t at = 0;
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto known = twin.find(first(head, i + 1));
    if (known == twin.end()) return "ids that nobody computed";
    const auto same = theirs.find(at);
    const bool own = same != theirs.end() && same->second == head[i];
    if (!own && known->second != Origin::kSampled) return "ids of a prompt stand for others";
    at += letters(head[i]).size();
  }
  return "";
}

std::size_t longest(const Twin& twin, const Tokens& prompt) {
  std::size_t best = 0;
  for (const auto& [head, origin] : twin) {
    for (std::size_t count = prompt.size(); count > best; --count) {
      if (wrong_head(twin, head, prompt, count).empty()) best = count;
    }
  }
  return best;
}

std::string wrong_match(const Twin& twin, const Tokens& prompt, const TextMatch& match) {
  if (match.prompt_tokens > prompt.size()) return "more than the prompt";
  const std::string head = wrong_head(twin, match.head, prompt, match.prompt_tokens);
  if (!head.empty()) return head;
  const std::size_t expected = longest(twin, prompt);
  if (match.prompt_tokens < expected) return std::string("shorter than ") + std::to_string(expected);
  if (!std::ranges::is_sorted(match.sampled)) return "sampled ranges out of order";
  for (std::size_t i = 0; i < match.head.size(); ++i) {
    const RangeSide side = side_of(match.sampled, Position{} + i);
    const bool sampled = twin.at(first(match.head, i + 1)) == Origin::kSampled;
    if (side.inside != sampled) return std::string("id ") + std::to_string(i) + " of another origin";
  }
  if (!match.sampled.empty() && match.sampled.back().end > Position{} + match.head.size()) return "sampled beyond it";
  return "";
}

// Replacements are exactly where ids differ, each as short as can be, and positions move with them.
std::string wrong_effective(const Tokens& prompt, const TextMatch& match, const EffectivePrompt& effective) {
  Tokens expected = match.head;
  expected.insert(expected.end(), prompt.begin() + static_cast<std::ptrdiff_t>(match.prompt_tokens), prompt.end());
  if (effective.tokens != expected) return "other ids";
  std::map<std::size_t, TokenId> after = places(effective.tokens);
  after[letters(effective.tokens).size()] = 0;  // the end
  Tokens restored;
  std::size_t at = 0;  // in effective.tokens
  for (const Replacement& one : effective.replacements) {
    if (one.prompt.begin.value() < restored.size() || one.effective.begin.value() < at) return "overlapping";
    const std::size_t same = one.effective.begin.value() - at;
    restored.insert(restored.end(), expected.begin() + static_cast<std::ptrdiff_t>(at),
                    expected.begin() + static_cast<std::ptrdiff_t>(at + same));
    if (one.prompt.begin.value() != restored.size()) return "replacement at another place";
    restored.insert(restored.end(), prompt.begin() + static_cast<std::ptrdiff_t>(one.prompt.begin.value()),
                    prompt.begin() + static_cast<std::ptrdiff_t>(one.prompt.end.value()));
    at = one.effective.end.value();
  }
  restored.insert(restored.end(), expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end());
  if (restored != prompt) return "replacements do not lead back to the prompt";
  // A position is where the last common end at or before it is.
  std::size_t letter = 0, common = 0;
  for (std::size_t i = 0; i <= prompt.size(); ++i) {
    const auto here = after.find(letter);
    if (here != after.end()) common = static_cast<std::size_t>(std::distance(after.begin(), here));
    if (effective.moved(Position{} + i).value() != common) return std::string("position ") + std::to_string(i) + " moved elsewhere";
    if (i < prompt.size()) letter += letters(prompt[i]).size();
  }
  return "";
}

std::string wrong(const Twin& twin, const Tokens& prompt, const TextMatch& match) {
  const std::string found = wrong_match(twin, prompt, match);
  return found.empty() ? wrong_effective(prompt, match, effective_prompt(match, prompt, texts())) : found;
}

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

// A random trie and prompts that share text with it.
class RandomCase {
 public:
  explicit RandomCase(std::uint64_t seed) : random_(seed) {
    const std::size_t requests = 1 + random_() % 5;
    for (std::size_t i = 0; i < requests; ++i) runs.push_back({some(known(), 4), some({}, 8)});
    for (const Request& run : runs) trie.learn(run, 1 + random_() % 4);
  }
  Tokens prompt() { return some(retokenized(known()), 4); }

  std::vector<Request> runs;
  Trie trie;

 private:
  Tokens some(Tokens tokens, std::size_t most) {
    for (std::size_t i = random_() % (most + 1); i > 0; --i) {
      tokens.push_back(random_() % 8 == 0 ? (random_() % 2 == 0 ? kMarker : kSilent)
                                          : static_cast<TokenId>(Tokens{0, 1, 2, 4, 5}[random_() % 5]));
    }
    return tokens;
  }
  // The beginning of an earlier request.
  Tokens known() {
    if (runs.empty()) return {};
    const Request& run = runs[random_() % runs.size()];
    Tokens all = run.prompt;
    all.insert(all.end(), run.sampled.begin(), run.sampled.end());
    return first(all, random_() % (all.size() + 1));
  }
  // The same text in other ids: stretches between what is no text are tokenized anew.
  Tokens retokenized(const Tokens& tokens) {
    Tokens result;
    std::string text;
    const auto flush = [&] {
      for (const TokenId id : vocabulary().tokenize_text(text)) result.push_back(id);
      text.clear();
    };
    for (const TokenId id : tokens) {
      if (id == kMarker || id == kSilent) {
        flush();
        result.push_back(id);
      } else {
        text += vocabulary().piece(id, true);
        if (random_() % 6 == 0) flush();
      }
    }
    flush();
    return result;
  }

  std::mt19937_64 random_;
};

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

// Whether any of many random cases is found wrong.
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
  // Prompts' ids stand for others.
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
  // Ids alone.
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
  // It ends in the middle of a piece, or one id late.
  EXPECT_TRUE(caught([](RandomCase& made, const Tokens& prompt) {
    TextMatch match = made.trie.match(prompt);
    if (match.prompt_tokens < prompt.size()) ++match.prompt_tokens;
    return match;
  }));
  // The origin is told wrongly.
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

}  // namespace
}  // namespace kvkeep::index
