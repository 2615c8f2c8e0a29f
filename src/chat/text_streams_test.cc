#include "chat/text_streams.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvkeep::chat {
namespace {

std::string whole(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.feed(bytes);
  return text + stream.finish();
}

const std::vector<std::pair<std::string, std::string>> utf8_cases = {
    {"plain", "plain"},
    {"gr\xC3\xBC\xC3\x9F"
     "e",
     "grüße"},
    {"\xE2\x82\xAC\xF0\x9F\x98\x80", "€😀"},
    {"\xC3", "\xEF\xBF\xBD"},                                  // ends inside a code point
    {"\xF0\x9F\x98", "\xEF\xBF\xBD"},                          // one replacement for one beginning
    {"\x80\xBF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // no beginning at all
    {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // overlong
    {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // surrogate
    {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xE2\x82"
     "a",
     "\xEF\xBF\xBD"
     "a"},  // cut short by ASCII
    {std::string("a\0b", 3), std::string("a\0b", 3)},
};

TEST(Utf8Stream, ReplacesWhatCannotBecomeValid) {
  for (const auto& [bytes, expected] : utf8_cases) EXPECT_EQ(whole(bytes), expected);
}

TEST(Utf8Stream, AnyTwoCutsGiveTheSameTextAndEveryChunkIsValid) {
  std::string all;
  for (const auto& [bytes, expected] : utf8_cases) all += bytes + "|";
  const std::string expected = whole(all);
  for (std::size_t first = 0; first <= all.size(); ++first) {
    for (std::size_t second = first; second <= all.size(); ++second) {
      Utf8Stream stream;
      std::string text;
      for (const std::string& piece : {all.substr(0, first), all.substr(first, second - first), all.substr(second)}) {
        const std::string chunk = stream.feed(piece);
        ASSERT_TRUE(is_valid_utf8(chunk));
        text += chunk;
      }
      ASSERT_EQ(text + stream.finish(), expected) << first << " " << second;
    }
  }
}

TEST(Utf8Stream, ByteByByteHoldsBackNoMoreThanACodePoint) {
  const std::string text = "a€b😀c";
  Utf8Stream stream;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += stream.feed(text.substr(i, 1));
    EXPECT_GE(out.size() + 3, i + 1);
  }
  EXPECT_EQ(out, text);
  EXPECT_EQ(stream.finish(), "");
}

TEST(IsValidUtf8, AgreesWithTheStream) {
  for (const auto& [bytes, expected] : utf8_cases) EXPECT_EQ(is_valid_utf8(bytes), bytes == expected);
}

struct Outcome {
  std::string text;
  std::optional<std::string> found;
  bool operator==(const Outcome&) const = default;
};

// The naive twin: after each byte, look whether the text ends with a stop string.
Outcome naive(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::string> longest;
    for (const std::string& stop : stops) {
      if (!stop.empty() && text.substr(0, end).ends_with(stop) && (!longest || stop.size() > longest->size()))
        longest = stop;
    }
    if (longest) return {text.substr(0, end - longest->size()), longest};
  }
  return {text, std::nullopt};
}

// Feeds the text cut where `cuts` has a bit set.
Outcome fed(const std::vector<std::string>& stops, const std::string& text, std::size_t cuts) {
  StopStrings finder(stops);
  std::string out;
  std::size_t begin = 0;
  for (std::size_t end = 1; end <= text.size(); ++end) {
    if (end < text.size() && (cuts >> end & 1) == 0) continue;
    out += finder.feed(std::string_view(text).substr(begin, end - begin));
    begin = end;
  }
  return {out + finder.finish(), finder.found()};
}

TEST(StopStrings, AgreesWithItsTwinForAllShortTextsAndAllCuts) {
  const std::vector<std::vector<std::string>> sets = {{"ab"},      {"aab"},     {"aba", "b"},   {"abb", "bb"},
                                                      {"a", "ab"}, {"", "bab"}, {"aaaa", "ba"}, {}};
  for (const auto& stops : sets) {
    for (std::size_t number = 0; number < 128; ++number) {
      std::string text;
      for (std::size_t bit = 0; bit < 7; ++bit) text += (number >> bit & 1) != 0 ? 'b' : 'a';
      const Outcome expected = naive(stops, text);
      for (std::size_t cuts = 0; cuts < 128; ++cuts) ASSERT_EQ(fed(stops, text, cuts), expected) << text << " " << cuts;
    }
  }
}

TEST(StopStrings, LetsThroughWhatCannotBecomeAStop) {
  StopStrings finder({"\n\nUser:"});
  EXPECT_EQ(finder.feed("Hello\n"), "Hello");
  EXPECT_EQ(finder.feed("again\n\nUse"), "\nagain");
  EXPECT_EQ(finder.feed("less"), "\n\nUseless");
  EXPECT_EQ(finder.feed("\n\nUser: more"), "");
  EXPECT_EQ(finder.found(), "\n\nUser:");
  EXPECT_EQ(finder.feed("anything"), "");
  EXPECT_EQ(finder.finish(), "");
}

}  // namespace

}  // namespace kvkeep::chat
