// Parts give the ids of the whole, and a caller may stop between two of them.

#include "chat/long_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/test_seed.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/marker_set.h"
#include "chat/tokenize.h"

namespace kvkeep::chat {
namespace {

const auto kNever = [] { return false; };

// Words that are tokens, that almost are, and that hold places which no cut may touch.
std::string random_text(std::mt19937_64& random, std::size_t bytes) {
  static const std::vector<std::string> words = {"hello",   " world", " the ", "th",   "ink",         "<s>",    " ",
                                                 "\n",      "call",   "user",  " a",   "b,",          "3.",     "да ",
                                                 "你。",    "\r\n",   "b ",    "ü",    "<tool_call>", " hello", "x y",
                                                 "<|end|>", "\n\n\n", "  ",    "word", " im_",        "1 2"};
  std::string text;
  while (text.size() < bytes) text += words[random() % words.size()];
  return text;
}

TEST(LongText, PartsGiveTheIdsOfTheWhole) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const bool add_bos : {false, true}) {
    const FakeVocabulary vocabulary(FakeVocabulary::standard_special(), add_bos);
    const LongText tokenizer(vocabulary);
    for (int i = 0; i < 3; ++i) {
      const std::string text = random_text(random, kPartBytes + random() % (3 * kPartBytes));
      for (const TokenizeOptions options :
           {TokenizeOptions{}, TokenizeOptions{.add_special = true, .parse_special = true}}) {
        const auto ids = tokenizer.tokenize(text, options, kNever);
        ASSERT_TRUE(ids.ok()) << ids.error().message;
        ASSERT_EQ(*ids, vocabulary.tokenize(text, options));
      }
    }
  }
}

// A caller with another tokenizer: here text in which no spelling may become a marker.
TEST(LongText, PartsOfPlainTextGiveItsIds) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const FakeVocabulary vocabulary;
  const MarkerSet markers(vocabulary, "<|end|><tool_call>");
  const LongText tokenizer(vocabulary);
  const auto plain = [&](std::string_view part) { return tokenize_plain(vocabulary, markers, part); };
  const std::string text = random_text(random, 3 * kPartBytes);
  for (const std::size_t part_bytes : {std::size_t{1} << 10, kPartBytes}) {
    const auto ids = tokenizer.in_parts(text, plain, kNever, part_bytes);
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    EXPECT_EQ(*ids, plain(text).value());
  }
}

TEST(LongText, ATextThatGoesOnHasTheSamePartsButForTheLast) {
  const FakeVocabulary vocabulary;
  const LongText tokenizer(vocabulary);
  std::string text;
  while (text.size() < 10'000) text += "some words, ";
  const auto parts_of = [&](const std::string& whole) {
    std::vector<std::string> parts;
    const auto ids_of = [&](std::string_view part) -> Result<std::vector<TokenId>> {
      parts.emplace_back(part);
      return vocabulary.tokenize(part, {});
    };
    EXPECT_TRUE(tokenizer.in_parts(whole, ids_of, kNever, 1000).ok());
    return parts;
  };
  std::vector<std::string> shorter = parts_of(text);
  const std::vector<std::string> longer = parts_of(text + " and more of them");
  EXPECT_GT(shorter.size(), 8U);
  shorter.pop_back();
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST(LongText, IsEndedBetweenParts) {
  const FakeVocabulary vocabulary;
  const LongText tokenizer(vocabulary);
  std::string text;
  while (text.size() < 10 * kPartBytes) text += " some words";
  int looks = 0;
  const auto ids = tokenizer.tokenize(text, {}, [&] { return ++looks == 3; });
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().kind, ErrorKind::kAborted);
  EXPECT_EQ(looks, 3);
}

// The looks tell how many parts there were.
TEST(LongText, TextsOfAllScriptsAreCut) {
  const FakeVocabulary vocabulary;
  const LongText tokenizer(vocabulary, /*part_bytes=*/100);
  for (const std::string line : {"В лесу родилась ёлочка\n", "他走进房间，看见桌上有一本书。", "17,3.5,\"x\"\r\n",
                                 "{\"id\":[1,true]},", "\tif(a[i]!=b){f(&a);}\n", "Ein Wort "}) {
    std::string text;
    while (text.size() < 10'000) text += line;
    std::size_t looks = 0;
    ASSERT_TRUE(tokenizer.tokenize(text, {}, [&] { return ++looks == 0; }).ok()) << line;
    EXPECT_GT(looks, text.size() / 200) << line;
  }
}

// Patterns read these otherwise, or a token spans the place: "the " is a word of the vocabulary.
TEST(LongText, NothingIsCutWherePatternsDisagree) {
  const FakeVocabulary vocabulary;
  const LongText tokenizer(vocabulary, /*part_bytes=*/1);
  for (const std::string line : {"x'", "x_", "x>", "e ", "!,", "\n\n", "\u0301,", "。", "🙂 "}) {
    std::string text;
    while (text.size() < 1000) text += line;
    std::size_t looks = 0;
    ASSERT_TRUE(tokenizer.tokenize(text, {}, [&] { return ++looks == 0; }).ok()) << line;
    EXPECT_EQ(looks, 1U) << line;
  }
}

TEST(LongText, ARunOfOneLetterIsRefusedByItsLength) {
  const FakeVocabulary vocabulary;
  const LongText tokenizer(vocabulary);
  EXPECT_TRUE(tokenizer.tokenize(std::string(kLongestRunBytes, 'a'), {}, kNever).ok());
  const auto ids = tokenizer.tokenize("two words " + std::string(kLongestRunBytes + kPartBytes, 'a'), {}, kNever);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(ids.error().message.find("at most 1048576 such bytes in a row"), std::string::npos) << ids.error().message;
}

}  // namespace
}  // namespace kvkeep::chat
