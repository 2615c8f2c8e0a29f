#include "model_maker/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "model_maker/sample_text.h"

namespace kvkeep::gguf {
namespace {

using testing::ElementsAre;

TEST(SplitPretokensTest, CutsAsQwen2Does) {
  EXPECT_THAT(split_pretokens("It's 42 days,\n\n  really"),
              ElementsAre("It", "'s", " ", "4", "2", " days", ",\n\n", " ", " really"));
  EXPECT_THAT(split_pretokens("\tif (x) {\n"), ElementsAre("\tif", " (", "x", ")", " {\n"));
  EXPECT_THAT(split_pretokens("a   b  \n  c "), ElementsAre("a", "  ", " b", "  \n", " ", " c", " "));
  EXPECT_THAT(split_pretokens(""), ElementsAre());
}

TEST(BytePairsTest, MergesTheMostFrequentPairFirst) {
  const std::array<std::string_view, 1> text = {"aab aab aab ab"};
  const BytePairs pairs = train_byte_pairs(text, 2);
  ASSERT_EQ(pairs.merges.size(), 2u);
  EXPECT_EQ(pairs.merges[0], (std::pair<TokenId, TokenId>{'a', 'b'}));  // 4 times; "aa" and " a" come 3 times
  EXPECT_EQ(pairs.tokens[256], "ab");
}

TEST(BytePairsTest, StopsWhenNoPairIsLeft) {
  const std::array<std::string_view, 1> text = {"abc"};
  EXPECT_EQ(train_byte_pairs(text, 100).merges.size(), 2u);
}

TEST(BytePairsTest, EncodingKeepsEveryByte) {
  const std::array<std::string_view, 2> texts = {sample_prose(), sample_code()};
  const BytePairs pairs = train_byte_pairs(texts, 500);
  const BytePairEncoder encoder(pairs);
  const std::string text = "Gr\xC3\xBC\xC3\x9F\x65 \xF0\x9F\x98\x80 \x01\xFF\t\r\n  x\n\n\nend   ";
  std::string decoded;
  for (const TokenId id : encoder.encode(text)) decoded += pairs.tokens[id];
  EXPECT_EQ(decoded, text);
}

}  // namespace
}  // namespace kvkeep::gguf
