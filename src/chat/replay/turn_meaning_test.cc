// When two turns say the same.

#include "chat/replay/turn_meaning.h"

#include <gtest/gtest.h>

namespace kvkeep::chat {
namespace {

bool same(const char* sampled, const char* echoed, bool added = false) {
  const TurnMeaning a{.reasoning = {}, .text = {}, .calls = {{"f", read_arguments(sampled)}}};
  const TurnMeaning b{.reasoning = {}, .text = {}, .calls = {{"f", read_arguments(echoed)}}};
  return same_meaning(a, b, {.added_arguments = added});
}

TEST(TurnMeaning, OrderAndSpellingOfJsonDoNotCount) {
  EXPECT_TRUE(same(R"({"a": 1, "b": [true, null, {"c": "\u00e9\/"}]})", R"({"b":[true,null,{"c":"é/"}],"a":1})"));
  EXPECT_FALSE(same(R"({"a": [1, 2]})", R"({"a": [2, 1]})"));
  EXPECT_FALSE(same(R"({"a": 1})", R"({"a": "1"})"));
  EXPECT_FALSE(same(R"({"a": true})", R"({"a": 1})"));
  EXPECT_FALSE(same(R"({"a": null})", "{}"));
  EXPECT_FALSE(same("{}", "[]"));
  EXPECT_TRUE(same(R"({"a": 1, "a": 2})", R"({"a": 2})")) << "the last counts, as for every client";
  EXPECT_TRUE(same(R"([[[], {}], {"a": {"b": []}}])", R"( [ [ [ ],{ } ],{"a":{"b":[]}} ] )"));
}

TEST(TurnMeaning, NumbersAreComparedByTheirDecimalValue) {
  const std::vector<std::vector<const char*>> classes = {
      {"0", "-0", "0.0", "0e9", "-0.00e-3"},
      {"1", "1.0", "1.000", "10e-1", "0.1e1", "1E0", "1e+0"},
      {"100000000000000000000", "1e20", "1E+20", "1.0e20"},
      {"100000000000000000001"},
      {"18446744073709551615", "18446744073709551615.0"},
      {"18446744073709551616"},
      {"18446744073709551617"},
      {"-9223372036854775808"},
      {"-9223372036854775809"},
      {"9007199254740992"},
      {"9007199254740993"},
      {"0.1", "1e-1", "0.10"},
      {"0.1000000000000000055"},
      {"-1.5", "-15e-1"},
      {"1.5"},
      {"15"},
      {"1e-400"},
  };
  for (std::size_t i = 0; i < classes.size(); ++i) {
    for (std::size_t j = 0; j < classes.size(); ++j) {
      for (const char* a : classes[i]) {
        for (const char* b : classes[j]) EXPECT_EQ(same(a, b), i == j) << a << " and " << b;
      }
    }
  }
  EXPECT_FALSE(same("15", R"("15")"));
}

TEST(TurnMeaning, InvalidJsonEqualsNothing) {
  for (const char* text : {"", "{", "{\"a\":}", "nul", "1 2", "1e999", "1e-99999999999999999999", "\"\xff\""}) {
    EXPECT_FALSE(same(text, text)) << text;
  }
}

TEST(TurnMeaning, WhiteSpaceDoesNotCountWhereSomethingElseStood) {
  const auto same_text = [](const TurnMeaning& sampled, const std::string& echoed) {
    const bool text = same_meaning(sampled, {.reasoning = {}, .text = echoed, .calls = {}}, {});
    const TurnMeaning thought{
        .reasoning = sampled.text, .text = {}, .calls = {}, .text_breaks = {}, .reasoning_breaks = sampled.text_breaks};
    EXPECT_EQ(same_meaning(thought, {.reasoning = echoed, .text = {}, .calls = {}}, {}), text);
    return text;
  };
  const TurnMeaning parts{.reasoning = {}, .text = " I look.\nThen ", .calls = {}, .text_breaks = {1, 8, 9}};
  for (const char* echoed : {"I look.\nThen", "I look.Then", " I look. \n\n Then\n", "I look.\n\n\nThen"}) {
    EXPECT_TRUE(same_text(parts, echoed)) << echoed;
  }
  for (const char* echoed : {"", "I look.", "Then", "Ilook.Then", "I look.x Then", "I look. Then x", "I look. The n"}) {
    EXPECT_FALSE(same_text(parts, echoed)) << echoed;
  }
  const TurnMeaning whole{.reasoning = {}, .text = "I look.\nThen", .calls = {}};
  EXPECT_TRUE(same_text(whole, " I look.\nThen"));
  EXPECT_FALSE(same_text(whole, "I look. Then")) << "nothing stood there";
  EXPECT_TRUE(same_text({.reasoning = {}, .text = "", .calls = {}}, " \n"));
}

TEST(TurnMeaning, OnlyArgumentsThatSayNothingMayBeAdded) {
  for (const char* nothing : {"false", "null", "\"\"", "[]", "{}"}) {
    const std::string echo = std::string(R"({"x": )") + nothing + R"(, "a": 1.0})";
    EXPECT_TRUE(same(R"({"a": 1})", echo.c_str(), true)) << nothing;
    EXPECT_FALSE(same(R"({"a": 1})", echo.c_str())) << nothing;
  }
  EXPECT_FALSE(same(R"({"a": 1})", R"({"a": 1, "x": 0})", true));
  EXPECT_FALSE(same(R"({"a": 1})", R"({"a": 1, "x": "no"})", true));
  EXPECT_FALSE(same(R"({"a": 1, "x": false})", R"({"a": 1})", true)) << "sampled, and gone";
  EXPECT_FALSE(same(R"({"a": {"b": 1}})", R"({"a": {"b": 1, "x": false}})", true)) << "not at the top";
}

TEST(TurnMeaning, SpellingsAreFoundWhereverTextIs) {
  const auto meaning = [](const char* arguments) {
    return TurnMeaning{.reasoning = "r<x>", .text = "t<y>", .calls = {{"n<z>", read_arguments(arguments)}}};
  };
  const TurnMeaning turn = meaning(R"({"k<1>": [{"a": "v<2>"}, 3]})");
  for (const char* there : {"<x>", "<y>", "<z>", "<1>", "<2>"}) EXPECT_TRUE(spells(turn, there)) << there;
  for (const char* not_there : {"<3>", "3", "<x>t", "rt"}) EXPECT_FALSE(spells(turn, not_there)) << not_there;
}

}  // namespace
}  // namespace kvkeep::chat
