#include "server/http/api_keys.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

TEST(ApiKeys, NoKeysMeansOpen) { EXPECT_TRUE(ApiKeys().accepts("")); }

TEST(ApiKeys, EachOfSeveralKeysOpensAndNothingElseDoes) {
  const ApiKeys keys({"first", "second"});
  EXPECT_TRUE(keys.accepts("first"));
  EXPECT_TRUE(keys.accepts("second"));
  for (const char* wrong : {"", "firs", "firstt", "First", "firstsecond"}) EXPECT_FALSE(keys.accepts(wrong)) << wrong;
}

TEST(ApiKeys, BearerComesBeforeTheOtherField) {
  EXPECT_EQ(presented_key("Bearer a", "b"), "a");
  EXPECT_EQ(presented_key("bearer  a ", ""), "a");
  EXPECT_EQ(presented_key("", "b"), "b");
  EXPECT_EQ(presented_key("Basic a", "b"), "b");
  EXPECT_EQ(presented_key("Bearer ", ""), "");
}

TEST(ApiKeys, KeyFilesMayHoldCommentsBlanksAndWindowsLineEnds) {
  EXPECT_EQ(parse_key_lines("# mine\r\n one \r\n\n#two\nthree"), (std::vector<std::string>{"one", "three"}));
  EXPECT_TRUE(parse_key_lines("").empty());
}

}  // namespace
}  // namespace kvkeep::server
