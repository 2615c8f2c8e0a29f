#include "bench/spelling.h"

#include <gtest/gtest.h>

#include <string>

namespace kvkeep::bench {
namespace {

constexpr std::string_view kKnown[] = {"turn", "kill", "branch", "small-context"};

TEST(NearestWord, OneMistakeOfEachKind) {
  EXPECT_EQ(nearest_word("tun", kKnown), "turn");       // a letter left out
  EXPECT_EQ(nearest_word("tuurn", kKnown), "turn");     // one too many
  EXPECT_EQ(nearest_word("turm", kKnown), "turn");      // another one
  EXPECT_EQ(nearest_word("trun", kKnown), "turn");      // two swapped
  EXPECT_EQ(nearest_word("barnch", kKnown), "branch");  // swapped further back
  EXPECT_EQ(nearest_word("smallcontex", kKnown), "small-context");
}

TEST(NearestWord, NothingThatIsFar) {
  EXPECT_EQ(nearest_word("tuxx", kKnown), "");
  EXPECT_EQ(nearest_word("", kKnown), "");
  EXPECT_EQ(nearest_word("context", kKnown), "");
  EXPECT_EQ(nearest_word("turn", {}), "");
}

TEST(NearestWord, TheNearestThenTheFirst) {
  constexpr std::string_view kAlike[] = {"session-10", "session-1", "session-2"};
  EXPECT_EQ(nearest_word("session-2", kAlike), "session-2");
  EXPECT_EQ(nearest_word("session-3", kAlike), "session-1");
}

TEST(NearestWord, LongWordsAreNotLookedUp) {
  const std::string longest(64, 'a');
  const std::string_view known[] = {longest};
  EXPECT_EQ(nearest_word(longest, known), longest);
  EXPECT_EQ(nearest_word(longest + "a", known), "");
}

}  // namespace
}  // namespace kvkeep::bench
