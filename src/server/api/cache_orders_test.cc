#include <gtest/gtest.h>

#include <utility>

#include "server/api/cache_lookup.h"

namespace kvkeep::server::api {
namespace {

const RequestDefaults kDefaults = [] {
  RequestDefaults defaults;
  defaults.vocabulary_size = 100;
  defaults.adapters = 2;
  return defaults;
}();

std::string prefix_refusal(const std::string& body) {
  const Result<NamedPrefix> read = parse_named_prefix(body, kDefaults);
  return read ? "accepted" : read.error().message;
}
std::string clear_refusal(const std::string& body) {
  const Result<ClearRequest> read = parse_clear(body, kDefaults);
  return read ? "accepted" : read.error().message;
}

TEST(CacheOrders, APrefixIsNamedByIdOrPrompt) {
  EXPECT_EQ(parse_named_prefix(R"({"id": "0123abcd"})", kDefaults)->id, "0123abcd");
  const NamedPrefix tokens = parse_named_prefix(R"({"tokens": [1, 2], "cache_salt": "s"})", kDefaults).value();
  EXPECT_EQ(std::get<std::vector<TokenId>>(tokens.prompt), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(tokens.cache_salt, "s");
  EXPECT_EQ(prefix_refusal(R"({"messages": [{"role": "user", "content": "x"}]})"), "accepted");
}

TEST(CacheOrders, AdaptersMayBeNamed) {
  const engine::AdapterScales half{0, 0.5};
  EXPECT_FALSE(parse_named_prefix(R"({"id": "0123abcd"})", kDefaults)->adapters);
  EXPECT_EQ(parse_named_prefix(R"({"prompt": "x", "lora": [{"id": 1, "scale": 0.5}]})", kDefaults)->adapters, half);
  EXPECT_FALSE(parse_clear(R"({"all": true})", kDefaults)->adapters);
  const ClearRequest all = parse_clear(R"({"all": true, "lora": [{"id": 1, "scale": 0.5}]})", kDefaults).value();
  EXPECT_EQ(all.adapters, half);
  EXPECT_TRUE(
      prefix_refusal(R"({"id": "0123abcd", "lora": [{"id": 2, "scale": 1}]})").starts_with("lora: there is no"));
  EXPECT_TRUE(clear_refusal(R"({"all": true, "lora": 1})").contains("lora"));
}

TEST(CacheOrders, OtherNamesAreRefused) {
  for (const char* id :
       {"", "0123abc", "0123ABCD", "0123abcx", "00000000000000000000000000000000000000000000000000000000000000000"}) {
    EXPECT_EQ(prefix_refusal(std::string(R"({"id": ")") + id + "\"}"),
              "'id' must be 8 to 64 lower-case hexadecimal digits")
        << id;
  }
  for (const char* body : {"{}", R"({"id": null})", R"({"id": "01234567", "prompt": "x"})", R"({"cache_salt": "s"})"}) {
    EXPECT_EQ(prefix_refusal(body), "exactly one of 'id', 'messages', 'prompt' and 'tokens' is required") << body;
  }
  EXPECT_EQ(prefix_refusal(R"({"prompt": "x", "tokens": [1]})"),
            "exactly one of 'messages', 'prompt' and 'tokens' is required");
  EXPECT_EQ(prefix_refusal(R"({"id": "01234567", "al": true})"), "unknown field 'al'");
  for (const char* body : {"", "[]", "nonsense", R"({"tokens": [100]})", R"({"id": 1})", R"({"tokens": []})"}) {
    EXPECT_NE(prefix_refusal(body), "accepted") << body;
  }
}

// As lookup takes it: the body of a request that was sent.
TEST(CacheOrders, APromptMayComeAsTheWholeRequest) {
  const std::string chat =
      R"("messages": [{"role": "user", "content": "x"}], "model": "m", "max_tokens": 9, "temperature": 0, "stream": true)";
  EXPECT_EQ(prefix_refusal("{" + chat + "}"), "accepted");
  EXPECT_EQ(clear_refusal("{" + chat + "}"), "accepted");
  EXPECT_EQ(prefix_refusal(R"({"prompt": "x", "n_predict": 9, "stop": ["y"]})"), "accepted");
  EXPECT_EQ(clear_refusal("{" + chat + R"(, "unused": 5})"), "unknown field 'unused' (did you mean 'unused_s'?)");
  EXPECT_EQ(clear_refusal(R"({"all": true, "max_tokens": 9})"), "unknown field 'max_tokens'") << "there is no prompt";
  EXPECT_EQ(prefix_refusal(R"({"id": "01234567", "stream": true})"), "unknown field 'stream'");
}

// The same for the other APIs, of which the caller names one.
TEST(CacheOrders, ARequestOfAnotherApiNamesItsPrompt) {
  const std::string messages =
      R"({"system": "s", "messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "stop_sequences": ["y"],)"
      R"( "tools": [{"name": "read", "input_schema": {"type": "object"}}], "cache_salt": "pepper"})";
  const std::string responses =
      R"({"instructions": "s", "input": "x", "max_output_tokens": 9, "store": false, "cache_salt": "pepper"})";
  for (const auto& [of, body] : {std::pair(PromptApi::kMessages, messages), {PromptApi::kResponses, responses}}) {
    const NamedPrefix named = parse_named_prefix(body, kDefaults, of).value();
    EXPECT_EQ(named.cache_salt, "pepper");
    const auto& prompt = std::get<chat::RenderInput>(named.prompt);
    EXPECT_EQ(prompt.messages.size(), 2U) << "the system text is one of them";
    const ClearRequest clear = parse_clear(body, kDefaults, of).value();
    ASSERT_TRUE(clear.prefix);
    EXPECT_EQ(std::get<chat::RenderInput>(clear.prefix->prompt).messages.size(), 2U);
    EXPECT_EQ(parse_named_prefix(R"({"id": "0123abcd"})", kDefaults, of)->id, "0123abcd");
    EXPECT_FALSE(parse_clear(R"({"all": true})", kDefaults, of)->prefix);
    for (const char* wrong : {"{}", R"({"tokens": [1]})", R"({"unused": 5, "all": true})"}) {
      EXPECT_FALSE(parse_named_prefix(wrong, kDefaults, of).ok()) << wrong;
      EXPECT_FALSE(parse_clear(wrong, kDefaults, of).ok()) << wrong;
    }
  }
  EXPECT_EQ(parse_named_prefix("{}", kDefaults, PromptApi::kMessages).error().message,
            "exactly one of 'id' and 'messages' is required");
  EXPECT_EQ(parse_clear(R"({"input": "x", "unused": 5})", kDefaults, PromptApi::kResponses).error().message,
            "unknown field 'unused' (did you mean 'unused_s'?)");
}

TEST(CacheOrders, ARequestOfAnotherApiIsNotTakenForAChat) {
  for (const char* body : {R"({"system": "s", "messages": []})", R"({"input": "x"})"}) {
    const char* api = std::string_view(body).contains("input") ? "?dialect=responses" : "?dialect=messages";
    EXPECT_TRUE(prefix_refusal(body).contains(api)) << prefix_refusal(body);
    EXPECT_TRUE(clear_refusal(body).contains(api)) << clear_refusal(body);
  }
}

TEST(CacheOrders, ClearingNamesItsScope) {
  EXPECT_FALSE(parse_clear(R"({"all": true})", kDefaults)->prefix);
  EXPECT_EQ(parse_clear(R"({"unused_s": 60})", kDefaults)->unused_s, 60);
  const ClearRequest both = parse_clear(R"({"unused_s": 0, "id": "01234567"})", kDefaults).value();
  EXPECT_EQ(both.unused_s, 0);
  EXPECT_EQ(both.prefix->id, "01234567");
  for (const char* body : {"{}", R"({"all": false})", R"({"all": true, "unused_s": 1})", R"({"cache_salt": "s"})",
                           R"({"all": true, "id": "01234567"})"}) {
    EXPECT_TRUE(clear_refusal(body).starts_with("exactly one of 'all': true, a prefix")) << body;
  }
  EXPECT_EQ(clear_refusal(R"({"unused": 5, "all": true})"), "unknown field 'unused' (did you mean 'unused_s'?)");
  EXPECT_EQ(clear_refusal(R"({"message": []})"), "unknown field 'message' (did you mean 'messages'?)");
  for (const char* body : {"", R"({"unused_s": -1})", R"({"unused_s": "1"})", R"({"all": 1})"}) {
    EXPECT_NE(clear_refusal(body), "accepted") << body;
  }
}

}  // namespace
}  // namespace kvkeep::server::api
