#include "chat/grammar/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "base/unicode.h"
#include "chat/grammar/gbnf_player_fixture.h"

namespace kvkeep::chat::grammar {
namespace {

using testing::HasSubstr;

// JSON text between the quotes, in its usual form.
std::string written(const std::string& text) {
  const std::string quoted = nlohmann::json(text).dump();
  return quoted.substr(1, quoted.size() - 2);
}

std::optional<GbnfPlayer> player_of(const std::string& pattern, const LengthBounds& length = {}) {
  GrammarBuilder grammar;
  const auto expression = pattern_expression(grammar, pattern, length);
  if (!expression) return std::nullopt;
  return GbnfPlayer(*grammar.text(grammar.add("text", *expression)));
}

std::string pattern_error(const std::string& pattern, const LengthBounds& length = {}) {
  GrammarBuilder grammar;
  const auto expression = pattern_expression(grammar, pattern, length);
  return expression ? "none" : expression.error().message;
}

// All texts of up to three characters out of a few, against the standard library's expressions.
TEST(Pattern, AgreesWithAnotherEngine) {
  const std::string alphabet = "ab1-\"\\\n ";
  std::vector<std::string> texts = {""};
  for (std::size_t from = 0, round = 0; round < 3; ++round) {
    const std::size_t to = texts.size();
    for (; from < to; ++from) {
      for (const char one : alphabet) texts.push_back(texts[from] + one);
    }
  }
  for (const std::string pattern : {"^a*b+$",
                                    "^[ab1]{2}$",
                                    "^(a|b1|)$",
                                    "a",
                                    "^a",
                                    "b$",
                                    "^(?:ab?){1,2}$",
                                    "^[^a]*$",
                                    "^\\d?\\w$",
                                    "^\\s$",
                                    "^\\S\\S$",
                                    "^[\\w-]+$",
                                    "^a|b$",
                                    "^(a|(b|1)+)$",
                                    "^\\D+$",
                                    "^\\W{2,}$",
                                    "^.$",
                                    "^\\x61\\u0062?$",
                                    "^[\"\\\\]+$",
                                    "^a{2,3}?$",
                                    "^(a?){2}$",
                                    "^((b*)+1?)a$",
                                    "^(?:(a{0,2}){1,2})$",
                                    "^(b?){0}a$",
                                    "^\\n\\-?$",
                                    "^[a-b]{0}1$",
                                    "^[]-]$|^1$"}) {
    const auto player = player_of(pattern);
    if (pattern == "^[]-]$|^1$") {
      EXPECT_EQ(pattern_error(pattern), "a class matches nothing");
      continue;
    }
    ASSERT_TRUE(player) << pattern << ": " << pattern_error(pattern);
    const std::regex other(pattern, std::regex::ECMAScript);
    for (const std::string& text : texts) {
      const bool expected = std::regex_search(text, other);
      ASSERT_EQ(player->matches(written(text)), expected) << pattern << " on " << written(text);
      ASSERT_EQ(*matches_pattern(pattern, text), expected) << pattern << " on " << written(text);
    }
  }
}

TEST(Pattern, CharactersAreWrittenAsJsonWritesThem) {
  const auto any = player_of("^[^]$");  // no character is left out
  ASSERT_TRUE(any);
  for (char32_t one = 0; one < 0x3000; ++one) {
    std::string text;
    append_character(text, one);
    EXPECT_TRUE(any->matches(written(text))) << static_cast<std::uint32_t>(one);
  }
  EXPECT_FALSE(any->matches("\n") || any->matches("\"") || any->matches("\\u0041") || any->matches("\\/"));
}

TEST(Pattern, LengthsAreObeyedWhereTheyCanBe) {
  const auto identifier = player_of("^[a-z][a-z0-9-]*$", {.min = 2, .max = 4});
  ASSERT_TRUE(identifier);
  EXPECT_FALSE(identifier->matches("a"));
  EXPECT_TRUE(identifier->matches("ab"));
  EXPECT_TRUE(identifier->matches("ab-4"));
  EXPECT_FALSE(identifier->matches("ab-45"));
  EXPECT_EQ(pattern_error("^\\d{4}$", {.min = 1, .max = 10}), "none");
  EXPECT_EQ(pattern_error("x", {.min = 1}), "none");
  EXPECT_THAT(pattern_error("^\\d{4}$", {.min = 5}), HasSubstr("minLength"));
  EXPECT_THAT(pattern_error("^a*b*$", {.min = 2}), HasSubstr("minLength"));
}

TEST(Pattern, UnknownPartsAreRefusedByName) {
  EXPECT_EQ(pattern_error("^(?=a)b$"), "lookaround cannot be enforced");
  EXPECT_EQ(pattern_error("(?<!a)b"), "lookaround cannot be enforced");
  EXPECT_EQ(pattern_error("^(a)\\1$"), "backreferences cannot be enforced");
  EXPECT_EQ(pattern_error("\\bword\\b"), "word boundaries (\\b) cannot be enforced");
  EXPECT_EQ(pattern_error("^\\p{L}+$"), "Unicode properties (\\p) cannot be enforced");
  EXPECT_EQ(pattern_error("^a(b$|c)d"), "an anchor is inside the pattern");
  EXPECT_EQ(pattern_error("^(a*b*)*$"), "an expression that may be empty is repeated without end");
  EXPECT_EQ(pattern_error("(a"), "a group has no end");
  EXPECT_EQ(pattern_error("a)"), "')' closes nothing");
  EXPECT_EQ(pattern_error("[a"), "a class has no end");
  EXPECT_EQ(pattern_error("*a"), "there is nothing before '*'");
  EXPECT_EQ(pattern_error("a**"), "a repetition is repeated");
  EXPECT_EQ(pattern_error("[z-a]"), "a range of a class ends before it begins");
  EXPECT_EQ(pattern_error("a{3,2}"), "a count's maximum is below its minimum");
  EXPECT_EQ(pattern_error(std::string(1'000, '(')), "groups are nested too deep");
  EXPECT_EQ(pattern_error("\\ud800"), "a surrogate has no partner");
  EXPECT_EQ(pattern_error("^(?<year>\\d{4})$"), "none");
  EXPECT_EQ(pattern_error("^a{,2}$"), "none") << "counts nothing: braces stand for themselves";
}

// libllama would follow "aaa" through every three of the 300 places.
TEST(Pattern, RepeatedRepetitionsAreWrittenAsOne) {
  for (const char* pattern : {"^(a?){300}$", "^((a{0,3})?){100}$"}) {
    const auto player = player_of(pattern);
    ASSERT_TRUE(player) << pattern_error(pattern);
    EXPECT_TRUE(player->matches("")) << pattern;
    EXPECT_TRUE(player->matches(std::string(300, 'a'))) << pattern;
    EXPECT_FALSE(player->matches(std::string(301, 'a'))) << pattern;
  }
}

TEST(Pattern, CheckingATextEnds) {
  const auto slow = matches_pattern("^(a+)+(a+)+$", std::string(100'000, 'a'));
  EXPECT_TRUE(!slow || *slow);
  EXPECT_TRUE(*matches_pattern("^(a|aa)+$", std::string(50, 'a')));
}

}  // namespace
}  // namespace kvkeep::chat::grammar
