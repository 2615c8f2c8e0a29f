#include "bench/sessions/dialect.h"

#include <gtest/gtest.h>

#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

TEST(Dialect, IsKnownByThePath) {
  EXPECT_EQ(dialect_of("POST", "/v1/chat/completions"), Dialect::kOpenAiChat);
  EXPECT_EQ(dialect_of("POST", "/api/paas/v4/chat/completions/"), Dialect::kOpenAiChat);
  EXPECT_EQ(dialect_of("POST", "/v1/completions"), Dialect::kOpenAiCompletion);
  EXPECT_EQ(dialect_of("POST", "/openai/v1/responses?x=/v1/messages"), Dialect::kOpenAiResponses);
  EXPECT_EQ(dialect_of("POST", "/v1/messages?beta=true"), Dialect::kAnthropic);
  EXPECT_EQ(dialect_of("POST", "/v1/messages/count_tokens?beta=true"), Dialect::kOther);
  EXPECT_EQ(dialect_of("POST", "/completions"), Dialect::kOther);
  EXPECT_EQ(dialect_of("GET", "/v1/responses"), Dialect::kOther);
  EXPECT_EQ(dialect_of("POST", ""), Dialect::kOther);
}

TEST(Dialect, PutsRequestsWhereOtherServersHaveThem) {
  EXPECT_EQ(path_on_server(Dialect::kOpenAiChat, "/paas/v4/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(path_on_server(Dialect::kAnthropic, "/api/v1/messages?beta=true"), "/v1/messages?beta=true");
  EXPECT_EQ(path_on_server(Dialect::kOther, "/api/hello?x"), "/api/hello?x");
}

std::string adapted(Dialect dialect, const char* body, const AdaptOptions& options) {
  return to_line(adapt_request(dialect, parse_json(body).value(), options));
}

TEST(AdaptRequest, ChangesOnlyModelLengthAndStreaming) {
  const AdaptOptions options{.model = "mine", .reply_tokens = 8, .stream = true};
  EXPECT_EQ(
      adapted(Dialect::kOpenAiChat, R"({"model":"x","max_tokens":100,"messages":[],"z":1})", options),
      R"({"model":"mine","max_tokens":8,"messages":[],"z":1,"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(
      adapted(Dialect::kOpenAiChat, R"({"max_completion_tokens":4,"stream_options":{"a":1}})", options),
      R"({"max_completion_tokens":4,"stream_options":{"a":1,"include_usage":true},"model":"mine","stream":true})");
  EXPECT_EQ(adapted(Dialect::kOpenAiResponses, R"({"max_output_tokens":9,"stream":false})", options),
            R"({"max_output_tokens":8,"stream":true,"model":"mine"})");
  EXPECT_EQ(adapted(Dialect::kAnthropic, R"({"model":"x"})", options),
            R"({"model":"mine","max_tokens":8,"stream":true})");
}

TEST(AdaptRequest, LeavesWhatIsNotAskedFor) {
  EXPECT_EQ(adapted(Dialect::kAnthropic, R"({"model":"x","max_tokens":5})", {}),
            R"({"model":"x","max_tokens":5,"stream":true})");
  EXPECT_EQ(adapted(Dialect::kOpenAiCompletion, R"({"stream":true,"stream_options":{}})",
                    {.model = "", .reply_tokens = std::nullopt, .stream = false}),
            R"({"stream":false})");
  EXPECT_EQ(
      adapted(Dialect::kOther, R"({"messages":[]})", {.model = "mine", .reply_tokens = std::nullopt, .stream = true}),
      R"({"messages":[]})");
  EXPECT_EQ(adapted(Dialect::kAnthropic, "[1]", {.model = "mine", .reply_tokens = std::nullopt, .stream = true}),
            "[1]");
}

}  // namespace
}  // namespace kvkeep::bench
