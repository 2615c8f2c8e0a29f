#include "mended_line.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

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
