#include "bench/workloads/words.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <vector>

#include "base/hash.h"

namespace kvkeep::bench {
namespace {

using Phrases = std::span<const std::string_view>;

constexpr std::array<std::string_view, 15> kSubjects = {"the parser",   "a worker",       "the scheduler", "our client",
                                                        "the index",    "this module",    "a test",        "the writer",
                                                        "the old loop", "the new reader", "each request",  "the build",
                                                        "the server",   "a thread",       "the table"};
constexpr std::array<std::string_view, 20> kVerbs = {
    "reads", "writes", "checks", "returns",   "keeps",      "drops",    "counts",  "moves",   "opens",  "closes",
    "holds", "sends",  "finds",  "waits for", "depends on", "replaces", "ignores", "updates", "prints", "needs"};
constexpr std::array<std::string_view, 18> kObjects = {
    "the first line", "every file",     "an empty list", "the last value", "two numbers",    "the error message",
    "the wrong path", "a small buffer", "the config",    "another copy",   "the whole page", "its own state",
    "the result",     "a short name",   "the next step", "some old data",  "the time limit", "the main branch"};
constexpr std::array<std::string_view, 14> kEndings = {
    "before the call",  "after a restart",       "when the queue is full", "in most cases",
    "without a lock",   "as the comment says",   "on every platform",      "if the flag is set",
    "until it fails",   "once per run",          "for the second time",    "with the default options",
    "during the night", "at the end of the loop"};

// The generator splitmix64, seeded with a label. The library's distributions differ between standard libraries.
class Chance {
 public:
  explicit Chance(std::string_view label) {
    ByteHasher hasher;
    hasher.append_field(label);
    const auto hash = hasher.finish<Hash256<struct LabelTag>>();
    for (std::size_t i = 0; i < 8; ++i) state_ |= std::uint64_t{hash.bytes[i]} << (8 * i);
  }

  // A number in [0, limit). Precondition: 0 < limit < 2^32. The bias of limit / 2^32 does not matter here.
  std::size_t below(std::size_t limit) {
    state_ += 0x9e37'79b9'7f4a'7c15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58'476d'1ce4'e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d0'49bb'1331'11eb;
    return ((mixed ^ (mixed >> 31)) >> 32) * limit >> 32;
  }
  std::string_view among(Phrases phrases) { return phrases[below(phrases.size())]; }

 private:
  std::uint64_t state_ = 0;
};

char upper(char letter) { return static_cast<char>(letter - 'a' + 'A'); }

// The label's endless text, made as far as it is needed.
class Story {
 public:
  explicit Story(std::string_view label) : chance_(label) { append(name()); }

  // Valid until the next call.
  std::string_view first_words(std::size_t count) {
    if (count == 0) return {};
    while (ends_.size() < count) append(sentence());
    return std::string_view(text_).substr(0, ends_[count - 1]);
  }

 private:
  // Makes a name such as "Kovarinelu:", one of 3 * 10^9.
  std::string name() {
    constexpr std::string_view kConsonants = "bdfghjklmnprstvz";
    constexpr std::string_view kVowels = "aeiou";
    std::string word;
    for (int syllable = 0; syllable < 5; ++syllable) {
      word += kConsonants[chance_.below(kConsonants.size())];
      word += kVowels[chance_.below(kVowels.size())];
    }
    word[0] = upper(word[0]);
    return word + ":";
  }

  std::string sentence() {
    std::string made;
    for (const Phrases phrases : {Phrases(kSubjects), Phrases(kVerbs), Phrases(kObjects), Phrases(kEndings)})
      made.append(made.empty() ? "" : " ").append(chance_.among(phrases));
    made[0] = upper(made[0]);
    if (chance_.below(5) == 0) made += fmt::format(" (see line {})", chance_.below(1000));
    return made + ".";
  }

  void append(std::string_view words) {
    if (!text_.empty()) text_ += ' ';
    const std::size_t begin = text_.size();
    text_ += words;
    for (std::size_t blank = text_.find(' ', begin); blank != std::string::npos; blank = text_.find(' ', blank + 1))
      ends_.push_back(blank);
    ends_.push_back(text_.size());
  }

  Chance chance_;
  std::string text_;
  std::vector<std::size_t> ends_;  // of each word
};

// Returns a number of words with more than `tokens` tokens. A word nearly always has at least one token: the first
// guess is right unless `count` is an odd one.
Result<std::size_t> too_many_words(Story& story, std::size_t tokens, const CountTokens& count) {
  constexpr int kDoublings = 6;
  std::size_t words = tokens + 1;
  for (int i = 0; i <= kDoublings; ++i, words *= 2) {
    TRY_ASSIGN(const std::size_t found, count(story.first_words(words)));
    if (found > tokens) return words;
  }
  return invalid(fmt::format("a text of {} words has {} tokens or fewer, by the tokenizer's count", words / 2, tokens));
}

}  // namespace

Result<std::string> text_of_tokens(std::string_view label, std::size_t tokens, const CountTokens& count) {
  if (tokens == 0) return std::string();
  Story story(label);
  TRY_ASSIGN(std::size_t too_many, too_many_words(story, tokens, count));
  std::size_t fitting = 0;  // this many words never have too many tokens
  while (fitting + 1 < too_many) {
    const std::size_t middle = fitting + (too_many - fitting) / 2;
    TRY_ASSIGN(const std::size_t found, count(story.first_words(middle)));
    if (found <= tokens) {
      fitting = middle;
    } else {
      too_many = middle;
    }
  }
  return std::string(story.first_words(fitting));
}

}  // namespace kvkeep::bench
