// Characters as UTF-8, and a few of each property. All of Unicode is compared with Python by tests/jinja.

#include "base/unicode.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvkeep {
namespace {

std::vector<char32_t> forwards(std::string_view text) {
  std::vector<char32_t> codes;
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).bytes) {
    codes.push_back(character_at(text, at).code);
  }
  return codes;
}

std::vector<char32_t> backwards(std::string_view text) {
  std::vector<char32_t> codes;
  for (std::size_t end = text.size(); end > 0; end -= character_before(text, end).bytes) {
    codes.insert(codes.begin(), character_before(text, end).code);
  }
  return codes;
}

std::string written(const std::vector<char32_t>& codes) {
  std::string text;
  for (const char32_t code : codes) append_character(text, code);
  return text;
}

TEST(Unicode, EveryCharacterIsReadAsItIsWritten) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    const std::string text = written({code});
    ASSERT_EQ(forwards(text), std::vector{code});
    ASSERT_EQ(backwards(text), std::vector{code});
  }
}

// Overlong forms, surrogates, what lies above U+10FFFF, cut and stray bytes: all strings of three bytes around the
// bounds.
TEST(Unicode, AByteOfNoCharacterIsOneByItselfFromBothSides) {
  const std::string bytes = "a\x7f\x80\x90\x9f\xa0\xbf\xc0\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5\xff";
  for (const char first : bytes) {
    for (const char second : bytes) {
      for (const char third : bytes) {
        const std::string text{first, second, third};
        ASSERT_EQ(forwards(text), backwards(text));
        ASSERT_EQ(written(forwards(text)), text);
      }
    }
  }
  EXPECT_EQ(forwards("\xC0\xAF\xED\xA0\x80"), (std::vector<char32_t>{0xDCC0, 0xDCAF, 0xDCED, 0xDCA0, 0xDC80}));
}

TEST(Unicode, CaseOfOneCharacterMayBeSeveral) {
  struct Row {
    char32_t code;
    std::string upper, title, lower, folded;
  };
  for (const Row& row : std::vector<Row>{{U'a', "A", "A", "a", "a"},
                                         {U'ж', "Ж", "Ж", "ж", "ж"},
                                         {U'ß', "SS", "Ss", "ß", "ss"},
                                         {U'ẞ', "ẞ", "ẞ", "ß", "ss"},
                                         {U'ﬁ', "FI", "Fi", "ﬁ", "fi"},
                                         {U'ǆ', "Ǆ", "ǅ", "ǆ", "ǆ"},
                                         {U'ᾳ', "ΑΙ", "ᾼ", "ᾳ", "αι"},
                                         {U'ŉ', "ʼN", "ʼN", "ŉ", "ʼn"},
                                         {U'İ', "İ", "İ", "i\u0307", "i\u0307"},
                                         {U'中', "中", "中", "中", "中"},
                                         {0xDC80, "\x80", "\x80", "\x80", "\x80"}}) {
    std::string upper, title, lower, folded;
    append_upper(upper, row.code);
    append_title(title, row.code);
    append_lower(lower, row.code);
    append_folded(folded, row.code);
    EXPECT_EQ(std::vector({upper, title, lower, folded}), std::vector({row.upper, row.title, row.lower, row.folded}));
  }
}

TEST(Unicode, ATerminalGivesWideOnesTwoColumnsAndCombiningOnesNone) {
  EXPECT_EQ(columns_of_character(U'a'), 1);
  EXPECT_EQ(columns_of_character(U'é'), 1);
  EXPECT_EQ(columns_of_character(U'中'), 2);
  EXPECT_EQ(columns_of_character(U'😀'), 2);
  EXPECT_EQ(columns_of_character(0x301), 0);
  EXPECT_EQ(columns_of_character(0xFFFD), 1);
}

}  // namespace
}  // namespace kvkeep
