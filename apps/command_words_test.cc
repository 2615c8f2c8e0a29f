#include "command_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

using testing::ElementsAre;

TEST(CommandWordsTest, WordsAreSplitAsAShellDoes) {
  EXPECT_THAT(command_words("llama-server").value(), ElementsAre("llama-server"));
  EXPECT_THAT(command_words("  a\t b\n c ").value(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(command_words("a 'b c'd \"e 'f\" ''").value(), ElementsAre("a", "b cd", "e 'f", ""));
  EXPECT_THAT(command_words(R"(a\ b "c\"d\e" 'f\')").value(), ElementsAre("a b", R"(c"d\e)", "f\\"));
  EXPECT_THAT(command_words("a $HOME *").value(), ElementsAre("a", "$HOME", "*"));
}

TEST(CommandWordsTest, OpenQuotesAndNothingAreRefused) {
  for (const char* bad : {"", "  ", "a 'b", "a \"b", "\"a\\\""}) {
    const auto words = command_words(bad);
    ASSERT_FALSE(words.ok()) << bad;
    EXPECT_EQ(words.error().kind, ErrorKind::kInvalid);
  }
}

TEST(Suggest, NearestIsGivenOnlyWhenNear) {
  const std::vector<std::string> known = {"--port", "--host", "--parallel"};
  EXPECT_EQ(nearest("--prot", known), "--port");
  EXPECT_EQ(nearest("--paralell", known), "--parallel");
  EXPECT_EQ(nearest("--zzzzzzzz", known), "");
  EXPECT_EQ(did_you_mean("--prot", known), "; did you mean '--port'?");
}

TEST(Suggest, AnotherWordIsNoSlip) {
  const std::vector<std::string> known = {"--cache-ram", "--kv-disk-dir", "--model", "--chat-template-file",
                                          "--log-file"};
  EXPECT_EQ(nearest("--cache-dir", known), "--kv-disk-dir");
  EXPECT_EQ(nearest("--cache-rma", known), "--cache-ram");
  EXPECT_EQ(nearest("--kv-disk-dri", known), "--kv-disk-dir");
  EXPECT_EQ(nearest("--kvdisk-dir", known), "--kv-disk-dir");
  EXPECT_EQ(nearest("--key-file", known), "") << "several end so";
}

TEST(Suggest, BeginningsAreCompleted) {
  const std::vector<std::string> types = {"f16", "q8_0", "q4_0", "q4_1"};
  EXPECT_EQ(nearest("q8", types), "q8_0");
  EXPECT_EQ(nearest("q4", types), "") << "which of them?";
  EXPECT_EQ(nearest("q", types), "");
}

TEST(Suggest, ShortWordsAreNotTakenForOthers) {
  const std::vector<std::string> known = {"--port", "-c", "-m", "-fa", "--seed"};
  for (const char* word : {"--poll", "-x", "-fx", "-C", "--", "-", ""}) EXPECT_EQ(nearest(word, known), "") << word;
  EXPECT_EQ(nearest("--sede", known), "--seed");
}

TEST(Suggest, ALastWordOfALetterOrTwoSaysNothing) {
  EXPECT_EQ(nearest("--cache-dir", {"--kv-disk-dir", "--repeat-last-n"}), "--kv-disk-dir");
  EXPECT_EQ(nearest("--grp-attn-n", {"--kv-disk-dir", "--repeat-last-n"}), "");
}

TEST(Suggest, CommandsAreShownAsTheyWereTyped) {
  EXPECT_EQ(as_typed("serve"), "kvkeep serve");
  set_typed_program("my builds/kvkeep");
  EXPECT_EQ(as_typed("cache ls"), "'my builds/kvkeep' cache ls");
  set_typed_program("kvkeep");
}

TEST(MendedLine, TellsAllThatIsWrongOnceAndWhatToType) {
  MendedLine line("kvkeep serve");
  EXPECT_TRUE(line.is_sound());
  line.keep("-m");
  line.keep("my model.gguf");
  line.note(invalid("unknown flag '--x'; did you mean '--y'?"), true);
  line.put("--y 1");
  for (int i = 0; i < 2; ++i) line.note(unsupported("--z is not supported: it is not"), true);
  EXPECT_EQ(line.error().message,
            "unknown flag '--x'; did you mean '--y'? --z is not supported: it is not. Try: kvkeep serve -m 'my "
            "model.gguf' --y 1");
  EXPECT_EQ(line.error().kind, ErrorKind::kUnsupported);
}

TEST(MendedLine, GivesNoLineWhereSomethingIsNotUnderstood) {
  MendedLine line("kvkeep serve");
  line.note(invalid("unknown flag '--qqq'"), false);
  EXPECT_EQ(line.error().message, "unknown flag '--qqq'");
  EXPECT_EQ(line.error().kind, ErrorKind::kInvalid);
}

TEST(MendedLine, WordsAreQuotedAsAShellNeedsThem) {
  EXPECT_EQ(quoted_word("/a/b-c_1.gguf"), "/a/b-c_1.gguf");
  EXPECT_EQ(quoted_word(""), "''");
  EXPECT_EQ(quoted_word("$HOME; rm x"), "'$HOME; rm x'");
  EXPECT_EQ(quoted_word("it's"), "'it'\\''s'");
}

}  // namespace

}  // namespace kvkeep::cli
