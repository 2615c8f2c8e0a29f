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

TEST(CacheLookup, TheApiIsNamedByTheDialect) {
  EXPECT_EQ(prompt_api_of("").value(), PromptApi::kChat);
  EXPECT_EQ(prompt_api_of("chat").value(), PromptApi::kChat);
  EXPECT_EQ(prompt_api_of("messages").value(), PromptApi::kMessages);
  EXPECT_EQ(prompt_api_of("responses").value(), PromptApi::kResponses);
  for (const char* other : {"Chat", "anthropic", " "}) EXPECT_FALSE(prompt_api_of(other).ok()) << other;
}

TEST(CacheLookup, ARequestOfAnotherApiIsReadAsThatApiDoes) {
  RequestDefaults strict = defaults(true);
  strict.strict_fields = true;
  const auto messages = parse_lookup(
      R"({"system": "s", "messages": [{"role": "user", "content": "x"}], "index_only": true, "cache_prompt": false})",
      strict, PromptApi::kMessages);
  ASSERT_TRUE(messages.ok()) << messages.error().message;
  EXPECT_EQ(std::get<chat::RenderInput>(messages->prompt).messages.size(), 2U);
  EXPECT_TRUE(messages->index_only);
  EXPECT_FALSE(messages->cache_prompt);
  const auto responses = parse_lookup(R"({"instructions": "s", "input": "x", "cache_salt": "p", "slip": 1})",
                                      defaults(true), PromptApi::kResponses);
  ASSERT_TRUE(responses.ok()) << responses.error().message;
  EXPECT_EQ(std::get<chat::RenderInput>(responses->prompt).messages.size(), 2U);
  EXPECT_EQ(responses->cache_salt, "p");
  EXPECT_EQ(responses->unknown_fields, std::vector<std::string>{"slip"});
}

// Read as a chat's it would lose its system text or its tools, and still have a prompt.
TEST(CacheLookup, ARequestThatIsPlainlyOfAnotherApiIsRefused) {
  const std::string talk = R"("messages": [{"role": "user", "content": "x"}])";
  const auto refusal = [](const std::string& body) {
    const auto read = parse_lookup(body, defaults(true));
    return read ? std::string("accepted") : read.error().message;
  };
  const auto of = [](const std::string& api, const std::string& sign, const std::string& dialect) {
    return "this looks like a request of the " + api + " API, for it has '" + sign + "': add ?dialect=" + dialect +
           " to the path";
  };
  EXPECT_EQ(refusal(R"({"system": "s", )" + talk + "}"), of("Messages", "system", "messages"));
  EXPECT_EQ(refusal(R"({"tools": [{"name": "a", "input_schema": {}}], )" + talk + "}"),
            of("Messages", "input_schema", "messages"));
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]})"),
            of("Messages", "tool_result", "messages"));
  EXPECT_EQ(refusal(R"({"input": "x"})"), of("Responses", "input", "responses"));
  EXPECT_EQ(refusal(R"({"instructions": "s", "input": []})"), of("Responses", "input", "responses"));
  for (const std::string& own :
       {"{" + talk + R"(, "system": null, "slip": 1})", std::string(R"({"prompt": "x", "input": "y"})"),
        std::string(R"({"tokens": [1], "system": "s"})"),
        R"({"tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}], )" + talk + "}"}) {
    EXPECT_EQ(refusal(own), "accepted") << own;
  }
}

}  // namespace
}  // namespace kvkeep::server::api
