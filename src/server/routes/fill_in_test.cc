#include "server/routes/fill_in.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

namespace kvkeep::server {
namespace {

constexpr FillTokens kGap{.prefix = 901, .suffix = 902, .middle = 903};

FillText run_of(TokenId first, std::size_t count) {
  FillText text(count);
  std::iota(text.begin(), text.end(), first);
  return text;
}

std::vector<TokenId> joined_fill(const FillParts& parts, std::size_t room) {
  const auto all = join_fill(parts, kGap, room);
  EXPECT_TRUE(all.has_value());
  EXPECT_LE(all.value_or(FillText()).size(), room);
  return all.value_or(FillText());
}

TEST(JoinFill, OrdersTheParts) {
  const FillParts parts{.begin = {1}, .files = {{2, 3}, {4}}, .own_file = {5}, .before = {6, 7}, .after = {8}};
  EXPECT_EQ(joined_fill(parts, 100), (FillText{1, 2, 3, 4, 5, 901, 6, 7, 902, 8, 903}));
  EXPECT_EQ(joined_fill(parts, 11), joined_fill(parts, 100));
}

TEST(FillText, TheEndOfALongTextBeginsAtTheSameByteForAWhile) {
  std::string text;
  for (int i = 0; text.size() < 1'000; ++i) text += std::to_string(i);
  EXPECT_EQ(end_of_text(text, 1'000'000), text);
  const std::string_view kept = end_of_text(text, 80);
  EXPECT_LE(kept.size(), 80U);
  EXPECT_GT(kept.size(), 70U);
  EXPECT_TRUE(text.ends_with(kept));
  std::set<std::size_t> begins;
  for (std::size_t size = 500; size < 900; ++size) {
    begins.insert(size - end_of_text(std::string_view(text).substr(0, size), 80).size());
  }
  EXPECT_LE(begins.size(), 400U / 10 + 1);
  EXPECT_EQ(end_of_text("abc", 0), "");
}

TEST(FillText, IsCutBetweenCharacters) {
  EXPECT_EQ(beginning_of_text("a\u00fcb", 4), "a\u00fcb");
  EXPECT_EQ(beginning_of_text("a\u00fcb", 3), "a\u00fc");
  EXPECT_EQ(beginning_of_text("a\u00fcb", 2), "a");
  EXPECT_EQ(end_of_text("a\u00fcb", 3), "\u00fcb");
  EXPECT_EQ(end_of_text("a\u00fcb", 2), "b");
}

TEST(JoinFill, TheSuffixMayComeFirst) {
  EXPECT_EQ(join_fill({.begin = {1}, .before = {6, 7}, .after = {8}}, kGap, 100, FillOrder::kSuffixFirst),
            (FillText{1, 902, 8, 901, 6, 7, 903}));
}

TEST(JoinFill, OtherFilesLeaveWholeTheFirstOnesFirst) {
  const FillParts parts{.files = {{2, 3}, {4}, {5, 5}}, .before = {6}, .after = {8}};
  EXPECT_EQ(joined_fill(parts, 9), (FillText{4, 5, 5, 901, 6, 902, 8, 903}));
  EXPECT_EQ(joined_fill(parts, 7), (FillText{5, 5, 901, 6, 902, 8, 903}));
  EXPECT_EQ(joined_fill(parts, 6), (FillText{901, 6, 902, 8, 903}));
}

TEST(JoinFill, KeepsTheTextNextToTheGap) {
  const FillText all = joined_fill({.before = run_of(1, 300), .after = run_of(500, 300)}, 103);
  const auto suffix = std::ranges::find(all, 902);
  EXPECT_EQ(*(suffix - 1), 300);
  EXPECT_EQ(*(suffix + 1), 500);
  EXPECT_EQ(all.end() - suffix - 2, 25) << "a quarter";
  EXPECT_GE(suffix - all.begin() - 1, 75 - 12);
}

TEST(JoinFill, AShortSideLeavesItsRoomToTheOther) {
  EXPECT_EQ(joined_fill({.before = run_of(1, 10), .after = run_of(500, 300)}, 103).size(), 103U);
  EXPECT_GE(joined_fill({.before = run_of(1, 300), .after = run_of(500, 10)}, 103).size(), 103U - 12);
}

TEST(JoinFill, TheBeginningStaysWhileTheUserTypesOn) {
  std::vector<TokenId> firsts;
  for (std::size_t typed = 100; typed < 140; ++typed) {
    firsts.push_back(joined_fill({.before = run_of(1, typed), .after = run_of(500, 50)}, 103)[1]);
  }
  EXPECT_TRUE(std::ranges::is_sorted(firsts));
  firsts.erase(std::ranges::unique(firsts).begin(), firsts.end());
  EXPECT_LE(firsts.size(), 5U);
}

TEST(JoinFill, NeedsTheTokensOfAGapAndSomeRoom) {
  for (auto FillTokens::* lacking : {&FillTokens::prefix, &FillTokens::suffix, &FillTokens::middle}) {
    FillTokens tokens = kGap;
    (tokens.*lacking).reset();
    EXPECT_FALSE(join_fill({}, tokens, 100).has_value());
  }
  EXPECT_FALSE(join_fill({.begin = {1, 2}}, kGap, 5).has_value());
}

}  // namespace
}  // namespace kvkeep::server
