#include "bench/workload_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LinesOfAText, EndWithEitherKindOfLineEnd) {
  EXPECT_THAT(lines_of(""), ElementsAre(""));
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
  EXPECT_THAT(lines_of("a"), ElementsAre("a"));
  EXPECT_THAT(lines_of("a\n"), ElementsAre("a"));
  EXPECT_THAT(lines_of("a\r\n\r\nb\n\n"), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(lines_of("a\rb\r"), ElementsAre("a\rb\r"));
}

TEST(WordsOfALine, AreSeparatedByBlanksAndTabs) {
  EXPECT_THAT(words_of(""), IsEmpty());
  EXPECT_THAT(words_of(" \t "), IsEmpty());
  EXPECT_THAT(words_of("a"), ElementsAre("a"));
  EXPECT_THAT(words_of("  a\tbc   d "), ElementsAre("a", "bc", "d"));
}

TEST(Trimmed, BothEnds) {
  EXPECT_EQ(trimmed("\t a b "), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \t"), "");
}

TEST(Printable, Utf8WithoutControlCharacters) {
  for (const std::string_view line : {"", "a\tb~", "\u00a0\u00e4\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"})
    EXPECT_TRUE(is_printable(line)) << line;
  for (const std::string_view line :
       {"\r", "\x1b[2J", "\x7f", "\xc2\x9b", "\x80", "a\xc3", "\xe2\x82", "\xc3(", "\xff", "\xc0\x80", "\xc1\xbf",
        "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
    EXPECT_FALSE(is_printable(line)) << line;
  EXPECT_FALSE(is_printable(std::string_view("\0", 1)));
}

TEST(InQuotes, IsCutBetweenCharacters) {
  const std::string forty(40, 'a');
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes(forty), "'" + forty + "'");
  EXPECT_EQ(in_quotes(forty + "b"), "'" + forty + "...'");
  const std::string thirty_nine(39, 'a');
  EXPECT_EQ(in_quotes(thirty_nine + "\u00e4"), "'" + thirty_nine + "...'");
  EXPECT_EQ(in_quotes(std::string(38, 'a') + "\u00e4b"), "'" + std::string(38, 'a') + "\u00e4...'");
}

}  // namespace
}  // namespace kvkeep::bench
