#include "chat/marker_set.h"

#include <gtest/gtest.h>

#include "chat/fake_vocabulary_test.h"

namespace kvkeep::chat {
namespace {

SpecialToken defined(std::string spelling) { return {.id = 1, .spelling = std::move(spelling), .control = false}; }

TEST(IsMarker, ControlTokensAlways) { EXPECT_TRUE(is_marker({.id = 1, .spelling = "\n", .control = true}, "")); }

TEST(IsMarker, UserDefinedTokensThatATemplateOrAFormatWrites) {
  EXPECT_TRUE(is_marker(defined("<think>"), ""));
  EXPECT_TRUE(is_marker(defined("<|fim_prefix|>"), ""));
  EXPECT_TRUE(is_marker(defined("<start_of_turn>"), "{{ '<start_of_turn>' + role }}"));
  EXPECT_FALSE(is_marker(defined("<start_of_turn>"), "{{ role }}"));
  EXPECT_TRUE(is_marker(defined("<｜User｜>"), "'<｜User｜>' + content"));
}

TEST(IsMarker, TextThatHappensToBeUserDefinedStaysText) {
  const std::string_view source = "a template with \n\n newlines,  spaces, the word user and [ brackets";
  for (const char* spelling : {"\n", "\n\n", "  ", "▁▁▁", "user", "<table>", "[", "a"}) {
    EXPECT_FALSE(is_marker(defined(spelling), source)) << spelling;
  }
}

// The scanner's naive twin: try every marker at every position.
std::optional<std::pair<std::size_t, std::size_t>> naive_next(const MarkerSet& set, std::string_view text,
                                                              std::size_t from) {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::size_t longest = 0;
    for (const Marker& marker : set.markers()) {
      if (text.substr(begin).starts_with(marker.spelling)) longest = std::max(longest, marker.spelling.size());
    }
    if (longest > 0) return std::pair{begin, begin + longest};
  }
  return std::nullopt;
}

std::vector<SpecialToken> overlapping_special() {
  std::vector<SpecialToken> tokens;
  for (const char* spelling : {"ab", "abc", "bca", "aa", "cab<", "<a>"}) {
    tokens.push_back({.id = 0, .spelling = spelling, .control = true});
  }
  return tokens;
}

TEST(MarkerSet, ScannerAgreesWithItsTwinOnAllShortTexts) {
  const FakeVocabulary vocabulary(overlapping_special());
  const MarkerSet set(vocabulary, "");
  const std::string alphabet = "abc<>";
  for (std::size_t number = 0; number < std::size_t{5} * 5 * 5 * 5 * 5 * 5; ++number) {
    std::string text;
    for (std::size_t rest = number, i = 0; i < 6; ++i, rest /= 5) text += alphabet[rest % 5];
    for (std::size_t from = 0; from <= text.size(); ++from) {
      const auto match = set.next(text, from);
      const auto expected = naive_next(set, text, from);
      ASSERT_EQ(match.has_value(), expected.has_value()) << text << " from " << from;
      if (!match) continue;
      ASSERT_EQ(std::pair(match->begin, match->end), *expected) << text << " from " << from;
    }
  }
}

TEST(MarkerSet, OpenTailsAgreeWithTheirTwinOnAllShortTexts) {
  const FakeVocabulary vocabulary(overlapping_special());
  const MarkerSet set(vocabulary, "");
  const std::string alphabet = "abc<>";
  for (std::size_t number = 0; number < std::size_t{5} * 5 * 5 * 5; ++number) {
    std::string text;
    for (std::size_t rest = number, i = 0; i < 4; ++i, rest /= 5) text += alphabet[rest % 5];
    std::size_t tail = 0;
    for (const Marker& marker : set.markers()) {
      const std::string& spelling = marker.spelling;
      for (std::size_t n = 1; n < spelling.size() && n <= text.size(); ++n) {
        if (text.ends_with(spelling.substr(0, n))) tail = std::max(tail, n);
      }
    }
    ASSERT_EQ(set.open_tail(text), tail) << text;
  }
}

TEST(MarkerSet, OnlyUserDefinedSpellingsNeedACutAndItLiesInside) {
  const FakeVocabulary vocabulary;
  const MarkerSet set(vocabulary, "");
  for (const Marker& marker : set.markers()) {
    EXPECT_EQ(marker.forms_from_text, !marker.control) << marker.spelling;
    if (marker.control) continue;
    EXPECT_GT(marker.split_at, 0u);
    EXPECT_LT(marker.split_at, marker.spelling.size());
  }
  EXPECT_FALSE(set.contains(*vocabulary.id_of("\n\n\n")));
  EXPECT_FALSE(set.contains(*vocabulary.id_of("<table>")));
  EXPECT_TRUE(set.contains(*vocabulary.id_of("<think>")));
}

}  // namespace
}  // namespace kvkeep::chat
