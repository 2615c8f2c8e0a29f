#include "server/api/generation_fields.h"

#include <gtest/gtest.h>

#include <string>

namespace kvkeep::server::api {
namespace {

std::int64_t keep_s(const std::string& body) { return read_keep_s(Json::parse(body)).value(); }

std::string refusal(const std::string& body) {
  const Result<std::int64_t> read = read_keep_s(Json::parse(body));
  return read ? "accepted" : read.error().message;
}

TEST(CacheHints, SayHowLongAPromptIsKept) {
  EXPECT_EQ(keep_s("{}"), 0);
  EXPECT_EQ(keep_s(R"({"prompt_cache_retention": null, "prompt_cache_options": null})"), 0);
  EXPECT_EQ(keep_s(R"({"prompt_cache_retention": "in_memory"})"), 0);
  EXPECT_EQ(keep_s(R"({"prompt_cache_retention": "in-memory"})"), 0);
  EXPECT_EQ(keep_s(R"({"prompt_cache_retention": "24h"})"), 86'400);
  EXPECT_EQ(keep_s(R"({"prompt_cache_options": {"mode": "explicit"}})"), 0);
  EXPECT_EQ(keep_s(R"({"prompt_cache_options": {"mode": "implicit", "ttl": "30m"}})"), 1'800);
  EXPECT_EQ(keep_s(R"({"prompt_cache_options": {"ttl": "45s"}})"), 45);
  EXPECT_EQ(keep_s(R"({"prompt_cache_options": {"ttl": "24h"}})"), 86'400);
}

TEST(CacheHints, TheLongestTimeCounts) {
  EXPECT_EQ(keep_s(R"({"prompt_cache_retention": "24h", "prompt_cache_options": {"ttl": "30m"}})"), 86'400);
  EXPECT_EQ(keep_s(R"({"prompt_cache_retention": "in_memory", "prompt_cache_options": {"ttl": "30m"}})"), 1'800);
}

TEST(CacheHints, UnknownHintsAreRefusedByName) {
  EXPECT_EQ(refusal(R"({"prompt_cache_retention": "1h"})"), "'prompt_cache_retention' must be 'in_memory' or '24h'");
  EXPECT_EQ(refusal(R"({"prompt_cache_retention": 24})"), "'prompt_cache_retention' must be a string, not a number");
  EXPECT_EQ(refusal(R"({"prompt_cache_options": "30m"})"), "'prompt_cache_options' must be an object, not a string");
  EXPECT_EQ(refusal(R"({"prompt_cache_options": {"mode": "never"}})"),
            "'prompt_cache_options.mode' must be 'implicit' or 'explicit'");
  for (const std::string ttl :
       {"", "m", "30", "0m", "-1m", "25h", "1441m", "1d", "30 m", "30mm", "99999999999999999999s"}) {
    EXPECT_EQ(refusal(R"({"prompt_cache_options": {"ttl": ")" + ttl + "\"}}"),
              "'prompt_cache_options.ttl' must be a duration such as '30m', at most '24h'")
        << ttl;
  }
}

TEST(OrderHints, ThePriorityIsAnInteger) {
  const auto priority = [](const char* body) -> Result<int> {
    GenerationRequest request;
    TRY(read_generation_fields(Json::parse(body), {}, request));
    return request.priority;
  };
  EXPECT_EQ(priority("{}").value(), 0);
  EXPECT_EQ(priority(R"({"priority": -7})").value(), -7);
  for (const char* wrong : {R"({"priority": "high"})", R"({"priority": 1.5})", R"({"priority": 10000000000})"}) {
    EXPECT_FALSE(priority(wrong).ok()) << wrong;
  }
}

TEST(CacheHints, ASaltIsATextThatIsNotEmpty) {
  const auto salt = [](const std::string& body) { return read_cache_salt(Json::parse(body)); };
  EXPECT_EQ(salt("{}").value(), "");
  EXPECT_EQ(salt(R"({"cache_salt": null})").value(), "");
  EXPECT_EQ(salt(R"({"cache_salt": " x"})").value(), " x");
  const std::string longest(256, 'x');
  EXPECT_EQ(salt(R"({"cache_salt": ")" + longest + "\"}").value(), longest);
  for (const std::string& wrong :
       {std::string("\"\""), std::string("1"), std::string("[\"a\"]"), std::string("false"), "\"" + longest + "x\""}) {
    const Result<std::string> read = salt(R"({"cache_salt": )" + wrong + "}");
    ASSERT_FALSE(read.ok()) << wrong;
    EXPECT_EQ(read.error().message, "'cache_salt' must be a string of 1 to 256 bytes");
  }
}

}  // namespace
}  // namespace kvkeep::server::api
