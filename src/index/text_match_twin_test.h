#pragma once

// For tests: tries of sampled and other ids over a small vocabulary, the naive twin that knows every prefix and
// compares whole texts, and random cases.

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/word_vocabulary_test.h"
#include "index/prefix_fixture.h"
#include "index/text_match.h"

namespace kvkeep::index {

using format::Origin;

// A marker that is written as text is, and an id without text.
constexpr TokenId kMarker = 3;
constexpr TokenId kSilent = 6;
inline const WordVocabulary& vocabulary() {
  static const WordVocabulary made({"a", "b", "ab", "ab", "ba", "aab", ""}, {kMarker});
  return made;
}
inline const TokenTexts& texts() {
  static const TokenTexts made(vocabulary(), [](TokenId id) { return vocabulary().is_marker(id); });
  return made;
}

inline std::string to_string(const Tokens& tokens) {
  std::string text;
  for (const TokenId id : tokens) text.append(" ").append(std::to_string(id));
  return text;
}

// A request: a prompt and what was sampled after it.
struct Request {
  Tokens prompt;
  Tokens sampled;
};

// Each known prefix, and where its last id comes from.
using Twin = std::map<Tokens, Origin>;

class Trie {
 public:
  // Inserts what is not known, in segments of one origin and at most `piece` ids; what is known and was sampled now is
  // marked.
  void learn(const Request& run, std::size_t piece, bool marks = true) {
    Tokens all = run.prompt;
    all.insert(all.end(), run.sampled.begin(), run.sampled.end());
    Cursor at = index.advance({}, all);
    if (marks) index.mark_sampled(at, {Position{} + run.prompt.size(), Position{} + all.size()});
    for (std::size_t i = run.prompt.size(); marks && i < at.at.value(); ++i) twin[first(all, i + 1)] = Origin::kSampled;
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

// An id as letters: an id that matches only as an id has a letter of its own.
inline std::string letters(TokenId id) {
  if (vocabulary().is_marker(id) || vocabulary().piece(id, true).empty()) return std::string(1, static_cast<char>(id));
  return vocabulary().piece(id, true);
}

inline std::string letters(const Tokens& tokens) {
  std::string text;
  for (const TokenId id : tokens) text += letters(id);
  return text;
}

// Ids by the letter they begin at.
inline std::map<std::size_t, TokenId> places(const Tokens& tokens) {
  std::map<std::size_t, TokenId> found;
  std::size_t at = 0;
  for (const TokenId id : tokens) {
    found[at] = id;
    at += letters(id).size();
  }
  return found;
}

// Returns "" if `head` may replace the first `count` ids of the prompt.
inline std::string wrong_head(const Twin& twin, const Tokens& head, const Tokens& prompt, std::size_t count) {
  if (letters(head) != letters(first(prompt, count))) return "other text";
  const std::map<std::size_t, TokenId> theirs = places(prompt);
  std::size_t at = 0;
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto known = twin.find(first(head, i + 1));
    if (known == twin.end()) return "ids that nobody computed";
    const auto same = theirs.find(at);
    const bool own = same != theirs.end() && same->second == head[i];
    if (!own && known->second != Origin::kSampled) return "ids of a prompt replace others";
    at += letters(head[i]).size();
  }
  return "";
}

inline std::size_t longest(const Twin& twin, const Tokens& prompt) {
  std::size_t best = 0;
  for (const auto& [head, origin] : twin) {
    for (std::size_t count = prompt.size(); count > best; --count) {
      if (wrong_head(twin, head, prompt, count).empty()) best = count;
    }
  }
  return best;
}

inline std::string wrong_match(const Twin& twin, const Tokens& prompt, const TextMatch& match) {
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
inline std::string wrong_effective(const Tokens& prompt, const TextMatch& match, const EffectivePrompt& effective) {
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
    if (effective.moved(Position{} + i).value() != common)
      return std::string("position ") + std::to_string(i) + " moved elsewhere";
    if (i < prompt.size()) letter += letters(prompt[i]).size();
  }
  return "";
}

inline std::string wrong(const Twin& twin, const Tokens& prompt, const TextMatch& match) {
  const std::string found = wrong_match(twin, prompt, match);
  return found.empty() ? wrong_effective(prompt, match, effective_prompt(match, prompt, texts())) : found;
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

}  // namespace kvkeep::index
