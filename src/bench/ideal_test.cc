#include "bench/ideal.h"

#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

// A token per byte.
std::vector<TokenId> bytes(std::string_view text) { return {text.begin(), text.end()}; }

TEST(Ideal, IsTheShareOfTheTextThatIsNew) {
  IdealCounter ideal;
  EXPECT_EQ(ideal.take_prompt("abcdefgh", 100, bytes), 100U);
  EXPECT_EQ(ideal.take_prompt("abcdefgh", 100, bytes), 0U) << "the same again";
  EXPECT_EQ(ideal.take_prompt("abcdefghij", 110, bytes), 22U) << "two of ten";
  EXPECT_EQ(ideal.take_prompt("abXdefgh", 100, bytes), 75U) << "all behind the first difference";
  EXPECT_EQ(ideal.take_prompt("", 100, bytes), 0U);
  EXPECT_EQ(ideal.take_prompt("zzz", 0, bytes), 0U) << "the server does not say";
}

TEST(Ideal, CountsRepliesAsDecoded) {
  IdealCounter ideal;
  EXPECT_EQ(ideal.take_prompt("ask:", 8, bytes), 8U);
  ideal.take_decoded("ask:answer", bytes);
  EXPECT_EQ(ideal.take_prompt("ask:answer:more", 30, bytes), 10U);
}

TEST(PseudoTokens, AreFourBytesEach) {
  EXPECT_EQ(pseudo_tokens("").size(), 0U);
  EXPECT_EQ(pseudo_tokens("abcde").size(), 2U);
  EXPECT_EQ(pseudo_tokens("abcdx")[0], pseudo_tokens("abcdy")[0]);
  EXPECT_NE(pseudo_tokens("abcd"), pseudo_tokens("abce"));
}

}  // namespace
}  // namespace kvkeep::bench
