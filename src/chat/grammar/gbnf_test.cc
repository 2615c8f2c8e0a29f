#include "chat/grammar/gbnf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/grammar/gbnf_cost.h"
#include "chat/grammar/gbnf_player_fixture.h"

namespace kvkeep::chat::grammar {
namespace {

using testing::HasSubstr;

std::string gbnf_error(const std::string& text, const GbnfLimits& limits = {}) {
  const auto read = read_gbnf(text, limits);
  return read ? "none" : read.error().message;
}

TEST(Gbnf, ReadsWhatLibllamaReads) {
  const GbnfPlayer player(R"gbnf(# a comment
root  ::= greeting (", " name | "!"){1,2}   # another
greeting ::= ("hello" |
              "good" [ \t]+ "day")
name ::= [A-Z] [^A-Z\x20!,]* "\u00e9"? "\""?
)gbnf");
  EXPECT_TRUE(player.matches("hello, Ann!"));
  EXPECT_TRUE(player.matches("good \tday, Ren\u00e9"));
  EXPECT_TRUE(player.matches("hello, X\""));
  EXPECT_FALSE(player.matches("hello"));
  EXPECT_FALSE(player.matches("hello, ann"));
  EXPECT_FALSE(player.matches("hello!!!"));
}

TEST(Gbnf, EveryKindOfRepetition) {
  const auto matches = [](const std::string& item, const std::string& text) {
    return GbnfPlayer(fmt::format("root ::= {}", item)).matches(text);
  };
  EXPECT_TRUE(matches("\"ab\"*", "") && matches("\"ab\"*", "abab") && !matches("\"ab\"*", "aba"));
  EXPECT_TRUE(!matches("\"ab\"+", "") && matches("\"ab\"+", "ab"));
  EXPECT_TRUE(matches("\"ab\"?", "") && !matches("\"ab\"?", "abab"));
  EXPECT_TRUE(matches("[a]{3}", "aaa") && !matches("[a]{3}", "aa") && !matches("[a]{3}", "aaaa"));
  EXPECT_TRUE(matches("[a]{2,}", "aaaa") && !matches("[a]{2,}", "a"));
  EXPECT_TRUE(matches("[a]{0}", "") && !matches("[a]{0}", "a"));
  EXPECT_TRUE(matches("[a]{ 1 , 2 }", "aa"));
  EXPECT_TRUE(matches(". \"b\"", "€b"));
}

TEST(Gbnf, LiteralsAreCollected) {
  const auto read = read_gbnf("root ::= \"<tool_call>\" \"a\\nb\" [<] <think> <[7]> !<[8]>");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->literals, "<tool_call>\na\nb\n");
  std::vector<std::string> tokens;
  for (const Symbol& symbol : read->rules[read->root].alternatives[0]) {
    if (!symbol.token.empty()) tokens.push_back(symbol.token);
  }
  EXPECT_EQ(tokens, (std::vector<std::string>{"<think>", "<[7]>", "<[8]>"}));
}

TEST(Gbnf, ErrorsNameTheLine) {
  EXPECT_EQ(gbnf_error("root ::= a\na ::= b"), "line 2: there is no rule 'b'");
  EXPECT_EQ(gbnf_error("a ::= \"b\""), "there is no rule 'root', where a grammar begins");
  EXPECT_EQ(gbnf_error(""), "there is no rule 'root', where a grammar begins");
  EXPECT_EQ(gbnf_error("root := \"b\""), "line 1: '::=' is expected");
  EXPECT_EQ(gbnf_error("root ::= \"b"), "line 1: a literal or a class has no end");
  EXPECT_EQ(gbnf_error("root ::= [b"), "line 1: a literal or a class has no end");
  EXPECT_EQ(gbnf_error("root ::= (\"a\""), "line 1: ')' is expected");
  EXPECT_EQ(gbnf_error("root ::= \"a\" )"), "line 1: ')' is not expected");
  EXPECT_EQ(gbnf_error("\n\nroot ::= *"), "line 3: there is nothing before a repetition");
  EXPECT_EQ(gbnf_error("root ::= \"\\q\""), "line 1: an escape that GBNF does not know");
  EXPECT_EQ(gbnf_error("root ::= \"\\u12\""), "line 1: an escape has too few hexadecimal digits");
  EXPECT_EQ(gbnf_error("root ::= \"a\"{2,1}"), "line 1: a count's maximum is below its minimum");
  EXPECT_THAT(gbnf_error("root ::= \"a\"{2000}"), HasSubstr("larger than 1999"));
  EXPECT_THAT(gbnf_error("root ::= \"a\"{0,99999999999999999999}"), HasSubstr("larger than 1999"));
  EXPECT_THAT(gbnf_error("root ::= (\"a\" | b){999} {999}\nb ::= \"b\""), HasSubstr("more rules than libllama takes"));
}

TEST(Gbnf, ARuleThatBeginsWithItselfIsRefused) {
  EXPECT_EQ(gbnf_error("root ::= root \"a\""), "rule 'root' begins with itself");
  EXPECT_EQ(gbnf_error("root ::= a\na ::= b\nb ::= a | \"c\""), "rule 'b' begins with itself");
  // Hidden after what may be empty, also in two steps.
  EXPECT_EQ(gbnf_error("root ::= e root \"a\"\ne ::= f\nf ::= \"x\" | "), "rule 'root' begins with itself");
  EXPECT_EQ(gbnf_error("root ::= (\"a\"?)*"), "rule 'root' begins with itself");
  EXPECT_EQ(gbnf_error("root ::= \"a\" root | \"b\""), "none");
}

TEST(Gbnf, AGrammarThatWouldTakeLibllamaForEverIsRefused) {
  std::string doubling = "root ::= a0\n";
  for (int i = 0; i < 40; ++i) {
    doubling += fmt::format("a{0} ::= a{1} \"x\" | a{1} \"y\"\n", i, i + 1);
  }
  EXPECT_EQ(gbnf_error(doubling + "a40 ::= \"z\""), "its rules begin with each other in too many ways");
  std::string deep = "root ::= a0\n";
  for (int i = 0; i < 20'000; ++i) deep += fmt::format("a{} ::= a{}\n", i, i + 1);
  EXPECT_EQ(gbnf_error(deep + "a20000 ::= \"z\""), "its rules begin with each other too deep");
  EXPECT_THAT(gbnf_error(fmt::format("root ::= {:(>100000}\"a\"{:)>100000}", "", "")), HasSubstr("nested too deep"));
  EXPECT_THAT(gbnf_error(fmt::format("root ::= a{{1900}}\na ::= b{{1900}}\nb ::= \"{:x>1000}\"{{1900}}", "")),
              HasSubstr("too large once its repetitions are written out"));
  EXPECT_THAT(gbnf_error(fmt::format("root ::= \"{:a>600000}\"", "")), HasSubstr("longer than 524288 bytes"));
}

constexpr const char* kMuchWork =
    "one letter of a text takes libllama more than 100 million comparisons: too much may be left out or repeated there";

// libllama holds every way of reading "aaa" as a stack of its own: their number doubles with each letter.
TEST(Gbnf, ATextThatCanBeReadInEverMoreWaysIsRefused) {
  const std::string many = "a text can be read in more than 10000 ways at once";
  EXPECT_EQ(gbnf_error("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"x\""), many);
  EXPECT_EQ(gbnf_error("root ::= ([a-z] root \"1\")* ([a-m] root \"2\")* \"x\""), many);
  // Where a letter that leads nowhere has more readers, and after a text longer than the search goes.
  EXPECT_EQ(gbnf_error("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\" [e] | \"d\" [ef] | \"d\" [eg] | \"x\""),
            many);
  EXPECT_EQ(gbnf_error("root ::= \"" + std::string(200, 'y') + "\" r\nr ::= \"a\" r \"b\" | \"a\" r \"c\" | \"x\""),
            many + ", as rule 'r'");
  std::string nested = "root ::= a0\n";
  for (int i = 0; i < 40; ++i) nested += fmt::format("a{0} ::= \"a\" a{1} \"b\" | \"a\" a{1} \"c\"\n", i, i + 1);
  EXPECT_EQ(gbnf_error(nested + "a40 ::= \"z\""), many);
}

// Sequences whose parts may all be empty, as long as they may be: nothing here recurses over them, and libllama would
// look for each of the stacks among all others.
TEST(Gbnf, LongRowsOfWhatMayBeEmptyAreRefused) {
  const std::string many = "a text can be read in more than 10000 ways at once";
  const std::string x = "\nx ::= \"a\" | \"\"";
  std::string repeated = "root ::=";
  for (int i = 0; i < 49; ++i) repeated += " x{1999}";
  EXPECT_EQ(gbnf_error(repeated + x), many);
  std::string plain = "root ::=";
  for (int i = 0; i < 90'000; ++i) plain += " x";
  EXPECT_EQ(gbnf_error(plain + x), many);
  EXPECT_EQ(gbnf_error("root ::= \"b\" r\nr ::= x{1999}" + x), kMuchWork);
  // Few stacks, but libllama reads "aaa" in as many ways as there are three of them.
  EXPECT_EQ(gbnf_error("root ::= x{300}" + x), kMuchWork);
  EXPECT_EQ(gbnf_error("root ::= x{8}" + x), "none");
}

TEST(Gbnf, ManyDeepStacksAreRefused) {
  std::string deep = "root ::= a0\n";
  for (int i = 0; i < 3000; ++i) deep += fmt::format("a{} ::= a{} \"x\"\n", i, i + 1);
  EXPECT_EQ(gbnf_error(deep + "a3000 ::= \"y\""), "none");
  deep += "a3000 ::= \"y\"";
  for (int i = 0; i < 1000; ++i) deep += fmt::format(" | \"{}\"", i);
  EXPECT_EQ(gbnf_error(deep), kMuchWork);
}

// `count` alternatives that begin with the same class of 2,000 ranges.
std::string of_wide_classes(int count) {
  std::string text = "root ::= c \"0\"";
  for (int i = 1; i < count; ++i) text += fmt::format(" | c \"{}\"", i % 10);
  text += "\nc ::= [";
  for (int i = 0; i < 2000; ++i) text += fmt::format("\\U{:08x}", 0x10000 + 2 * i);
  return text + "]";
}

TEST(Gbnf, WideClassesThatAreComparedAtOnceAreRefused) {
  EXPECT_EQ(gbnf_error(of_wide_classes(20'000)), "a text can be read in more than 10000 ways at once");
  EXPECT_EQ(gbnf_error(of_wide_classes(11)), "a letter of a text may be in more than 20000 ranges of characters");
  EXPECT_EQ(gbnf_error(of_wide_classes(5)), "none");
}

TEST(Gbnf, LookingForGrowthIsBounded) {
  GbnfLimits patient;
  patient.stacks = 1'000'000;
  patient.ranges = 1'000'000'000;
  patient.work = 1e30;
  patient.growth_steps = 0;
  const auto steps = [&](int classes, std::size_t most) {
    GbnfLimits limits = patient;
    const auto read = read_gbnf(of_wide_classes(classes), limits);
    limits.growth_steps = most;
    const auto spent = read ? check_growth(*read, limits) : Result<std::size_t>(read.error());
    return spent ? *spent : 0;
  };
  EXPECT_GE(steps(5, 1'000'000), 2U * 5U * 2000U) << "ranges count";
  EXPECT_EQ(steps(2000, 1'000'000), 1'000'000U);
  EXPECT_EQ(steps(2000, 1'000), 1'000U);
}

TEST(Gbnf, ManyWaysThatDoNotGrowAreFine) {
  std::string words = "root ::= \"m-0\"";
  for (int i = 1; i < 5000; ++i) words += fmt::format(" | \"m-{}\"", i);
  EXPECT_EQ(gbnf_error(words), "none");
  EXPECT_EQ(gbnf_error("root ::= \"a\"? [ab]* [abc]{0,500} \"a\"* [ab]{3}"), "none");
  EXPECT_EQ(gbnf_error("root ::= \"(\" root \")\" | \"[\" root \"]\" | \"x\""), "none");
}

}  // namespace
}  // namespace kvkeep::chat::grammar
