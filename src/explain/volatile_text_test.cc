#include <gtest/gtest.h>

#include <string>

#include "explain/cache_break.h"

namespace kvkeep::explain {
namespace {

TEST(VolatileText, IsNamedByItsWords) {
  struct Case {
    ChangedText text;
    VolatileText named;
  };
  const Case cases[] = {
      {{"x-anthropic-billing-header: cc_version=2.1.329.", "bbc", "ef1", "; cc_entrypoint=sdk-cli;\n"},
       VolatileText::kBillingLine},
      {{"Today's date: 2026-05-0", "4", "5", "\n"}, VolatileText::kDate},
      {{"Today is ", "Monday, May 4", "Tuesday, May 5", ".\n"}, VolatileText::kDate},
      {{"<current_date>", "5/4/26", "5/5/26", "</current_date>"}, VolatileText::kDate},
      {{"Day: ", "Sunday", "Friday", "\n"}, VolatileText::kDate},
      {{"It is 2026-05-04 17:", "05", "06", "\n"}, VolatileText::kTime},
      {{"now: ", "9:05:00", "9:06:10", ""}, VolatileText::kTime},
      {{"gitStatus: a snapshot\nCurrent branch: main\n\nStatus:\n", "M README.md", "?? new.txt", "\n"},
       VolatileText::kGitStatus},
      {{"Recent commits:\n", "a41c Add x", "b77e Fix y", "\n"}, VolatileText::kGitStatus},
      {{"Day: ", "04.05.2026", "05.05.2026", "\n"}, VolatileText::kDate},
      {{"version = \"0.", "2.0", "1.0", "\"\n"}, VolatileText::kNumber},
      {{"listens on 127.0.0.", "1:8080", "2:8080", "\n"}, VolatileText::kNumber},
      {{"session ", "4811", "4812", "\n"}, VolatileText::kNumber},
      {{"id: ", "7f3c-09aa", "8e11-ab01", "\n"}, VolatileText::kNumber},
      {{"The user is ", "Ann", "Bob", "\n"}, VolatileText::kNone},
      {{"", "", "", ""}, VolatileText::kNone},
      {{"maybe ", "one", "two", " of 3\n"}, VolatileText::kNone},
      {{"A march of ", "ants", "bees", " goes on"}, VolatileText::kNone},
      {{"x-anthropic-billing-header: a\nThe user is ", "Ann", "Bob", "\n"}, VolatileText::kNone},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(to_string(volatile_text(one.text)), to_string(one.named)) << one.text.before << one.text.here;
  }
}

// A date that only one side has is a text that was put in.
TEST(VolatileText, BothSidesMustBeAlike) {
  EXPECT_EQ(volatile_text({"Note: ", "2026-05-04", "none", "\n"}), VolatileText::kNone);
  EXPECT_EQ(volatile_text({"Note: ", "none", "17:05", "\n"}), VolatileText::kNone);
}

TEST(VolatileText, LineBeforeIsTheLastLineCutAtCharacters) {
  EXPECT_EQ(line_before("one\ntwo "), "two ");
  EXPECT_EQ(line_before("one\n"), "");
  EXPECT_EQ(line_before("abcdef", 4), "cdef");
  EXPECT_EQ(line_before("aéé", 3), "é");
}

}  // namespace
}  // namespace kvkeep::explain
