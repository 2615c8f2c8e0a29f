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

}  // namespace
}  // namespace kvkeep::cli
