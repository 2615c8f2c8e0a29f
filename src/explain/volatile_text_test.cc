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
      // Lines of compilers and of grep, ports, paths and words that look like dates and times:
      {{"src/main.cc:", "12", "13", ":5: error"}, VolatileText::kNumber},
      {{"src/main.cc:", "12", "13", ":05: error"}, VolatileText::kNumber},
      {{"src/main.cc:", "12:05", "13:05", "\n"}, VolatileText::kNumber},
      {{"src/main.cc:12:", "05", "06", ": error"}, VolatileText::kNumber},
      {{"Makefile:", "12", "13", ":30: recipe failed"}, VolatileText::kNumber},
      {{"127.0.0.1:", "443", "444", "\n"}, VolatileText::kNumber},
      {{"127.0.0.", "1:44", "2:44", "\n"}, VolatileText::kNumber},
      {{"ratio 25:", "10", "11", "\n"}, VolatileText::kNumber},
      {{"took 3:", "75", "80", "\n"}, VolatileText::kNumber},
      {{"8:", "05:06:07", "06:06:07", ":09\n"}, VolatileText::kNumber},
      {{"You may use ", "3", "4", " tools"}, VolatileText::kNumber},
      {{"line ", "3", "4", " may be wrong"}, VolatileText::kNumber},
      {{"May I use ", "3", "4", " tools"}, VolatileText::kNumber},
      {{"lib/12/34/", "56", "57", "\n"}, VolatileText::kNumber},
      {{"lib/12/04/", "26", "27", "/x\n"}, VolatileText::kNumber},
      {{"call 555-", "12-34", "13-34", "\n"}, VolatileText::kNumber},
      {{"part 1-2-", "3", "4", "\n"}, VolatileText::kNumber},
      {{"version 12.11.", "3456", "3457", "\n"}, VolatileText::kNumber},
      {{"0000-13-", "41", "42", "\n"}, VolatileText::kNumber},
      // The same signs where they are dates and times:
      {{"at ", "4 May", "5 May", "\n"}, VolatileText::kDate},
      {{"at 04-May-20", "26", "27", "\n"}, VolatileText::kDate},
      {{"Since ", "May", "June", " 2026\n"}, VolatileText::kDate},
      {{"due 12/", "30/26", "31/26", "\n"}, VolatileText::kDate},
      {{"due 30/12/", "2026", "2027", "\n"}, VolatileText::kDate},
      {{"[2026/05/04 ", "23:59:59", "23:59:58", "] ready"}, VolatileText::kTime},
      {{"2026-05-04T", "17:05", "17:06", "Z"}, VolatileText::kTime},
      {{"now:", "17:05", "17:06", "\n"}, VolatileText::kTime},
      {{"It is 2026-05-04", " 17:05:09", "", "\n"}, VolatileText::kTime},
      {{"It is 2026-05-04", "", " 17:05:09", ".\n"}, VolatileText::kTime},
      {{"It is ", "2026-05-04 17:05", "2026-05-05", "\n"}, VolatileText::kDate},
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
