// LineLimits of piece_stream.h.

#include <gtest/gtest.h>

#include <utility>

#include "chat/tools/piece_stream.h"

namespace kvkeep::chat::tools {
namespace {

// The text that passes, if each piece comes after so many milliseconds; "|" marks the end by a limit.
std::string limited(const LineLimitOptions& options, const std::vector<std::pair<const char*, double>>& sampled) {
  LineLimits limits(options);
  std::string text;
  for (const auto& [piece, ms] : sampled) {
    std::vector<ReplyPiece> pieces = {{piece}};
    limits.apply(pieces, ms);
    for (const ReplyPiece& one : pieces) text += one.text;
  }
  return limits.reached() ? text + "|" : text;
}

TEST(LineLimits, WithoutLimitsAllTextPasses) { EXPECT_EQ(limited({}, {{"a\n", 1e9}, {"\nb", 1e9}}), "a\n\nb"); }

TEST(LineLimits, AReplyThatIsLateEndsWithItsLine) {
  const LineLimitOptions second{.longest_ms = 1000};
  EXPECT_EQ(limited(second, {{"a\nb", 900}, {"c", 1100}, {"d\ne", 1200}, {"f", 1300}}), "a\nbcd\n|");
  EXPECT_EQ(limited(second, {{"a", 900}, {"b", 1100}}), "ab") << "its line has not ended";
  EXPECT_EQ(limited(second, {{"a\n", 1000}}), "a\n");
}

TEST(LineLimits, AReplyEndsAtALineThatIsIndentedLess) {
  const LineLimitOptions four{.least_indent = 4};
  EXPECT_EQ(limited(four, {{"x = 1\n    y\n  z\n", 0}}), "x = 1\n    y\n  |");
  EXPECT_EQ(limited(four, {{"x\n ", 0}, {"  ", 0}, {"\ty", 0}, {"\n", 0}, {"z", 0}}), "x\n   \ty\n|");
  EXPECT_EQ(limited(four, {{"x\n\n    y", 0}}), "x\n|") << "an empty line";
  EXPECT_EQ(limited(four, {{"  x", 0}}), "  x") << "the first line goes on after the prompt";
  EXPECT_EQ(limited(four, {{"x\n  ", 0}}), "x\n  ") << "more blanks may come";
}

TEST(LineLimits, NothingPassesAfterTheEnd) {
  LineLimits limits({.least_indent = 1});
  std::vector<ReplyPiece> pieces = {{"a\n"}, {"b"}, {"<tag>", true}};
  limits.apply(pieces, 0);
  EXPECT_EQ(pieces, std::vector<ReplyPiece>{{"a\n"}});
  pieces = {{"c"}};
  limits.apply(pieces, 0);
  EXPECT_TRUE(pieces.empty());
}

}  // namespace
}  // namespace kvkeep::chat::tools
