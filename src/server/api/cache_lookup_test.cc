#include "server/api/cache_lookup.h"

#include <gtest/gtest.h>

namespace kvkeep::server::api {
namespace {

RequestDefaults defaults(bool cache_prompt) {
  RequestDefaults defaults;
  defaults.vocabulary_size = 1000;
  defaults.cache_prompt = cache_prompt;
  return defaults;
}

TEST(CacheLookup, CachePromptIsTheRequestsElseTheServers) {
  for (const bool of_server : {true, false}) {
    EXPECT_EQ(parse_lookup(R"({"tokens": [1]})", defaults(of_server))->cache_prompt, of_server);
    EXPECT_EQ(parse_lookup(R"({"prompt": "a", "cache_prompt": null})", defaults(of_server))->cache_prompt, of_server);
    EXPECT_TRUE(parse_lookup(R"({"tokens": [1], "cache_prompt": true})", defaults(of_server))->cache_prompt);
    EXPECT_FALSE(parse_lookup(R"({"prompt": "a", "cache_prompt": false})", defaults(of_server))->cache_prompt);
  }
  const auto wrong = parse_lookup(R"({"tokens": [1], "cache_prompt": "no"})", defaults(true));
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(wrong.error().message.find("'cache_prompt'"), std::string::npos) << wrong.error().message;
}

}  // namespace
}  // namespace kvkeep::server::api
