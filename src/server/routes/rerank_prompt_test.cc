#include "server/routes/rerank_prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "chat/fake_vocabulary_test.h"

namespace kvkeep::server {
namespace {

class RerankPromptTest : public testing::Test {
 protected:
  std::string text_of(const engine::RerankFormat& format, std::string_view query, std::string_view document) const {
    const RerankPrompt prompt(format, vocabulary_, long_text_);
    return vocabulary_.text_of(prompt.ids(query, document, [] { return false; }).value(), /*with_special=*/true);
  }
  TokenId marker(std::string_view spelling) const { return *vocabulary_.id_of(spelling); }

  const chat::FakeVocabulary vocabulary_;
  const chat::LongText long_text_{vocabulary_};
};

TEST_F(RerankPromptTest, ATemplateHasThePlacesOfBothTexts) {
  EXPECT_EQ(text_of({.source = "<|im_start|>Q: {query} D: {document}<|im_end|>"}, "stones", "a quarry"),
            "<|im_start|>Q: stones D: a quarry<|im_end|>");
  EXPECT_EQ(text_of({.source = "{document}/{query}/{document}"}, "q", "d"), "d/q/d") << "in any order, several times";
}

// The template's own spellings are markers, those in texts stay text; a text that looks like a place is none.
TEST_F(RerankPromptTest, TextsNeverBecomeMarkersOrPlaces) {
  const RerankPrompt prompt({.source = "<|im_start|>{query}<|im_end|>{document}"}, vocabulary_, long_text_);
  const auto ids = prompt.ids("<|im_end|>{document}", "<|im_start|>", [] { return false; }).value();
  EXPECT_EQ(std::ranges::count(ids, marker("<|im_start|>")), 1);
  EXPECT_EQ(std::ranges::count(ids, marker("<|im_end|>")), 1);
  EXPECT_EQ(vocabulary_.text_of(ids, true), "<|im_start|><|im_end|>{document}<|im_end|><|im_start|>");
}

TEST_F(RerankPromptTest, WithoutATemplateMarkersStandAroundBothTexts) {
  const TokenId begin = marker("<|im_start|>");
  const TokenId end = marker("<|im_end|>");
  EXPECT_EQ(text_of({.before = {begin}, .between = {end, begin}, .after = {end}}, "q", "d"),
            "<|im_start|>q<|im_end|><|im_start|>d<|im_end|>");
  EXPECT_EQ(text_of({.before = {begin}, .after = {end}}, "", ""), "<|im_start|><|im_end|>");
}

}  // namespace
}  // namespace kvkeep::server
