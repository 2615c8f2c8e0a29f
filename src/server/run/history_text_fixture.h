#pragma once

// Texts of ids for random histories, and a naive twin of text matching: it walks through everything that was ever
// computed, byte by byte, and lists every prompt that may be evaluated in place of the one that was sent.

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "base/word_vocabulary_test.h"
#include "index/text_match.h"
#include "server/run/history_talk_fixture.h"

namespace kvkeep::server {

// Markers, then numbers of one, two and three digits: sampled ids are single digits, which clients send back in ids of
// three digits wherever they fit.
inline WordVocabulary digits_vocabulary(int first_number) {
  std::vector<std::string> pieces;
  std::set<TokenId> markers;
  for (TokenId id = 0; id < kFirstTextToken; ++id) {
    markers.insert(id);
    pieces.push_back(std::string(1, static_cast<char>('a' + id)));
  }
  for (int digits = 1, count = 10; digits <= 3; ++digits, count *= 10) {
    for (int i = 0; i < count && pieces.size() < 1000; ++i) {
      std::string piece = std::to_string((i + first_number) % count);
      piece.insert(0, static_cast<std::size_t>(digits) - piece.size(), '0');
      pieces.push_back(piece);
    }
  }
  return {std::move(pieces), std::move(markers)};
}
inline const WordVocabulary& history_vocabulary() {
  static const WordVocabulary made = digits_vocabulary(0);
  return made;
}
inline const index::TokenTexts& history_texts() {
  static const index::TokenTexts made(history_vocabulary(), [](TokenId id) { return id < kFirstTextToken; });
  return made;
}
// A mistake: ids stand for other text than in the vocabulary.
inline const index::TokenTexts& texts_of_others() {
  static const index::TokenTexts made(digits_vocabulary(1), [](TokenId id) { return id < kFirstTextToken; });
  return made;
}

// The ids that a client would send back: greedy from the left, as the vocabulary would, without looking through all of
// it.
inline Tokens retokenized(const Tokens& tokens) {
  constexpr std::size_t kThreeDigits = 1000 - kFirstTextToken - 10 - 100;  // in the vocabulary
  std::string text = history_vocabulary().text_of(tokens, true);
  Tokens out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t digits = std::min<std::size_t>(3, text.size() - at);
    if (digits == 3 && std::stoul(text.substr(at, 3)) >= kThreeDigits) digits = 2;
    const int before = digits == 1 ? 0 : digits == 2 ? 10 : 110;
    out.push_back(kFirstTextToken + before + static_cast<TokenId>(std::stoul(text.substr(at, digits))));
    at += digits;
  }
  return out;
}

// A computed run of tokens, and which of them this server sampled.
struct Computed {
  Tokens tokens;
  std::vector<bool> sampled;
};

// A prompt that may be evaluated in place of one that was sent: known ids for the text of its first `matched` ids, then
// the rest of it.
struct Effective {
  Computed all;
  std::size_t matched = 0;
};

// Compares one known text with a prompt. Where ids differ, only sampled ids replace others, and markers never do.
class TextWalk {
 public:
  TextWalk(const Computed& known, const Tokens& prompt) : known_(known), prompt_(prompt) {}

  // The results differ in how many runs were replaced; each extends as far as ids agree after its last run.
  std::vector<Effective> all() {
    std::vector<Effective> found;
    do {
      while (known_at_ < known_.tokens.size() && at_ < prompt_.size() && known_.tokens[known_at_] == prompt_[at_]) {
        ++known_at_;
        ++at_;
      }
      found.push_back(effective());
    } while (replace_run());
    return found;
  }

 private:
  Effective effective() const {
    const auto end = static_cast<std::ptrdiff_t>(known_at_);
    Effective made{{Tokens(known_.tokens.begin(), known_.tokens.begin() + end),
                    std::vector<bool>(known_.sampled.begin(), known_.sampled.begin() + end)},
                   at_};
    made.all.tokens.insert(made.all.tokens.end(), prompt_.begin() + static_cast<std::ptrdiff_t>(at_), prompt_.end());
    made.all.sampled.resize(made.all.tokens.size(), false);
    return made;
  }
  // Goes to the next place where a piece ends on both sides. Returns false if there is none.
  bool replace_run() {
    std::string left;
    std::string right;
    do {
      const bool takes_left = left.size() <= right.size();
      const bool is_over = takes_left ? known_at_ == known_.tokens.size() : at_ == prompt_.size();
      if (is_over || (takes_left && !known_.sampled[known_at_])) return false;
      const TokenId id = takes_left ? known_.tokens[known_at_++] : prompt_[at_++];
      if (id < kFirstTextToken) return false;
      (takes_left ? left : right) += history_vocabulary().piece(id, true);
      const std::size_t both = std::min(left.size(), right.size());
      if (left.compare(0, both, right, 0, both) != 0) return false;
    } while (left.size() != right.size());
    return true;
  }

  const Computed& known_;
  const Tokens& prompt_;
  std::size_t known_at_ = 0;
  std::size_t at_ = 0;
};

// The request with the ids that are evaluated; its markers move to where the same markers are in these.
inline Ask asked_as(const Ask& asked, const Tokens& effective) {
  Ask other = asked;
  other.prompt = effective;
  std::vector<Position> places;
  for (std::size_t i = 0; i < effective.size(); ++i) {
    if (effective[i] < kFirstTextToken) places.push_back(Position{} + i);
  }
  const auto move = [&](Position& at) {
    const auto begin = asked.prompt.begin();
    const auto before = std::count_if(begin, begin + at.value(), [](TokenId id) { return id < kFirstTextToken; });
    at = places.at(static_cast<std::size_t>(before));
  };
  for (Position& at : other.markers.user_turns) move(at);
  for (Position& at : other.markers.assistant_turns) move(at);
  for (Position& at : other.markers.message_ends) move(at);
  if (other.markers.generation_prompt) move(*other.markers.generation_prompt);
  return other;
}

}  // namespace kvkeep::server
