#include "bench/workloads/words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

namespace kvkeep::bench {
namespace {

std::size_t words_of(std::string_view text) {
  return text.empty() ? 0 : 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), ' '));
}

std::size_t bytes_over_four(std::string_view text) { return (text.size() + 3) / 4; }

// Words have one token, two or three.
std::size_t pieces_of_words(std::string_view text) {
  std::size_t tokens = 0;
  std::size_t length = 0;
  for (const char letter : text) {
    length = letter == ' ' ? 0 : length + 1;
    if (length == 1 || length == 5 || length == 9) ++tokens;
  }
  return tokens;
}

// Words that share tokens: a longer text may have no more tokens than a shorter one.
std::size_t pairs_of_words(std::string_view text) { return (words_of(text) + 1) / 2; }

// No tokenizer should do this, and some may: a longer text with fewer tokens.
std::size_t uneven(std::string_view text) {
  const std::size_t words = words_of(text);
  return words > 7 && words % 7 == 0 ? words - 2 : words;
}

using Count = std::size_t (*)(std::string_view);
constexpr Count kCounts[] = {words_of, bytes_over_four, pieces_of_words, pairs_of_words, uneven};

std::string text_of(std::string_view label, std::size_t tokens, Count count) {
  const Result<std::string> text = text_of_tokens(label, tokens, [count](std::string_view t) { return count(t); });
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : "";
}

TEST(Words, AsManyTokensAsFitAndNoMore) {
  for (const std::string_view label : {"system coder", "turn main 3", ""}) {
    const std::string whole = text_of(label, 2'000, words_of) + " ";
    for (const Count count : kCounts) {
      for (std::size_t tokens = 0; tokens < 300; ++tokens) {
        const std::string text = text_of(label, tokens, count);
        ASSERT_LE(count(text), tokens);
        ASSERT_EQ(text, whole.substr(0, text.size()));
        if (!text.empty()) {
          ASSERT_EQ(whole[text.size()], ' ') << "cut within a word";
        }
        if (tokens > 0) {
          const std::size_t next_end = whole.find(' ', text.empty() ? 0 : text.size() + 1);
          ASSERT_GT(count(std::string_view(whole).substr(0, next_end)), tokens);
        }
      }
    }
  }
}

TEST(Words, ReachTheCountWhereEveryWordIsAToken) {
  for (const std::size_t tokens : {1u, 2u, 60u, 900u, 100'000u})
    EXPECT_EQ(words_of(text_of("a", tokens, words_of)), tokens);
}

TEST(Words, FewCountsOfShortTexts) {
  for (const std::size_t tokens : {1u, 10u, 100u, 1'000u, 10'000u}) {
    std::size_t calls = 0;
    std::size_t longest = 0;
    const auto text = text_of_tokens("a", tokens, [&](std::string_view asked) {
      ++calls;
      longest = std::max(longest, words_of(asked));
      return pieces_of_words(asked);
    });
    ASSERT_TRUE(text.ok());
    EXPECT_LE(calls, 1u + std::bit_width(tokens));
    EXPECT_LE(longest, tokens + 1);
  }
}

TEST(Words, DependOnlyOnTheLabel) {
  EXPECT_EQ(text_of("a", 50, words_of), text_of("a", 50, words_of));
  EXPECT_NE(text_of("a", 50, words_of), text_of("b", 50, words_of));
}

// Committed figures of benchmarks depend on this: after a change they must be measured again.
TEST(Words, AreTheSameOnEveryMachine) {
  EXPECT_EQ(text_of("turn main 1", 24, words_of),
            "Tetuzilova: The index depends on an empty list before the call. "
            "The parser closes the next step once per run (see line 473). A");
}

TEST(Words, DifferFromTheFirstWordOn) {
  std::set<std::string> first_words;
  for (int i = 0; i < 2'000; ++i) first_words.insert(text_of("turn main " + std::to_string(i), 1, words_of));
  EXPECT_EQ(first_words.size(), 2'000u);
}

TEST(Words, ErrorsOfTheCountArePassedOn) {
  int calls = 0;
  const CountTokens fails_later = [&calls](std::string_view text) -> Result<std::size_t> {
    if (++calls == 3) return io_error("the server is gone");
    return words_of(text);
  };
  const Result<std::string> text = text_of_tokens("a", 100, fails_later);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().kind, ErrorKind::kIo);
  EXPECT_EQ(text.error().message, "the server is gone");
}

TEST(Words, ACountThatNeverGrowsIsAnError) {
  const Result<std::string> text = text_of_tokens("a", 9, [](std::string_view) -> Result<std::size_t> { return 0; });
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(text.error().message, "a text of 640 words has 9 tokens or fewer, by the tokenizer's count");
}

}  // namespace
}  // namespace kvkeep::bench
