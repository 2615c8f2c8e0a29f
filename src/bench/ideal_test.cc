#include "bench/ideal.h"

#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

// A token per byte.
std::vector<TokenId> bytes(std::string_view text) { return {text.begin(), text.end()}; }

CanonicalTexts both(const std::string& text) { return {text, text}; }

TEST(Ideal, IsTheShareOfTheTextThatIsNew) {
  IdealCounter ideal;
  EXPECT_EQ(ideal.take_prompt(both("abcdefgh"), 100, bytes), 100U);
  EXPECT_EQ(ideal.take_prompt(both("abcdefgh"), 100, bytes), 0U) << "the same again";
  EXPECT_EQ(ideal.take_prompt(both("abcdefghij"), 110, bytes), 22U) << "two of ten";
  EXPECT_EQ(ideal.take_prompt(both("abXdefgh"), 100, bytes), 75U) << "all behind the first difference";
  EXPECT_EQ(ideal.take_prompt(both(""), 100, bytes), 0U);
  EXPECT_EQ(ideal.take_prompt(both("zzz"), 0, bytes), 0U) << "the server does not say";
}

TEST(Ideal, TakesTheOrderThatSharesMore) {
  IdealCounter ideal;
  EXPECT_EQ(ideal.take_prompt({"toolsSYSTEM", "SYSTEMtools"}, 11, bytes), 11U);
  EXPECT_EQ(ideal.take_prompt({"tolosSYSTEM", "SYSTEMtolos"}, 11, bytes), 3U) << "behind SYSTEMto";
  EXPECT_EQ(ideal.take_prompt({"toolsSYMTES", "SYMTEStools"}, 11, bytes), 4U) << "behind toolsSY";
}

TEST(Ideal, CountsRepliesAsDecoded) {
  IdealCounter ideal;
  EXPECT_EQ(ideal.take_prompt(both("ask:"), 8, bytes), 8U);
  ideal.take_decoded(both("ask:answer"), bytes);
  EXPECT_EQ(ideal.take_prompt(both("ask:answer:more"), 30, bytes), 10U);
}

TEST(PseudoTokens, AreFourBytesEach) {
  EXPECT_EQ(pseudo_tokens("").size(), 0U);
  EXPECT_EQ(pseudo_tokens("abcde").size(), 2U);
  EXPECT_EQ(pseudo_tokens("abcdx")[0], pseudo_tokens("abcdy")[0]);
  EXPECT_NE(pseudo_tokens("abcd"), pseudo_tokens("abce"));
}

}  // namespace
}  // namespace kvkeep::bench
