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

TEST(ApiKeys, ARefusalTellsNoKeyFromAWrongOneAndHowKeysAreSent) {
  const std::string missing = key_refusal("", " ");
  const std::string wrong = key_refusal("Bearer sesame", "");
  const std::string bare = key_refusal("sesame", "");
  EXPECT_TRUE(missing.starts_with("No API key was sent;")) << missing;
  EXPECT_TRUE(wrong.starts_with("The API key is wrong;")) << wrong;
  EXPECT_EQ(key_refusal("", "sesame"), wrong);
  EXPECT_TRUE(bare.starts_with("The Authorization field does not contain 'Bearer KEY';")) << bare;
  for (const std::string& text : {missing, wrong, bare}) {
    EXPECT_NE(text.find("'Authorization: Bearer KEY' or as 'x-api-key: KEY'"), std::string::npos) << text;
    EXPECT_EQ(text.find("sesame"), std::string::npos) << "what was sent may be somebody's key elsewhere: " << text;
  }
}

TEST(ApiKeys, KeyFilesMayHoldCommentsBlanksAndWindowsLineEnds) {
  EXPECT_EQ(parse_key_lines("# mine\r\n one \r\n\n#two\nthree"), (std::vector<std::string>{"one", "three"}));
  EXPECT_TRUE(parse_key_lines("").empty());
}

}  // namespace
}  // namespace kvkeep::server
