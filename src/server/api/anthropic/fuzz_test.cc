#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string_view>

#include "base/test_seed.h"
#include "server/api/anthropic/request.h"
#include "server/api/body_fuzz_test.h"

namespace kvkeep::server::api {
namespace {

constexpr auto kMessagesWords = std::to_array<std::string_view>({"messages",
                                                                 "role",
                                                                 "content",
                                                                 "type",
                                                                 "text",
                                                                 "tool_use",
                                                                 "tool_result",
                                                                 "thinking",
                                                                 "signature",
                                                                 "input",
                                                                 "id",
                                                                 "name",
                                                                 "tool_use_id",
                                                                 "is_error",
                                                                 "system",
                                                                 "user",
                                                                 "assistant",
                                                                 "tools",
                                                                 "input_schema",
                                                                 "tool_choice",
                                                                 "cache_control",
                                                                 "ephemeral",
                                                                 "ttl",
                                                                 "1h",
                                                                 "5m",
                                                                 "max_tokens",
                                                                 "stop_sequences",
                                                                 "metadata",
                                                                 "user_id",
                                                                 "output_config",
                                                                 "effort",
                                                                 "format",
                                                                 "json_schema",
                                                                 "schema",
                                                                 "image",
                                                                 "source",
                                                                 "stream",
                                                                 "temperature",
                                                                 "disabled",
                                                                 "budget_tokens",
                                                                 "auto",
                                                                 "any",
                                                                 "description",
                                                                 "strict",
                                                                 "redacted_thinking",
                                                                 "",
                                                                 "session_id",
                                                                 "tool_reference"});

const char* const kValidMessages = R"({"model":"m","max_tokens":5,"stream":true,"temperature":1,"stop_sequences":["a"],
  "system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}],
  "messages":[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"system","content":"y"},
    {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"z"},
      {"type":"tool_use","id":"i","name":"f","input":{"a":1}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"i","is_error":true,"content":[
      {"type":"text","text":"r"}]},{"type":"text","text":"u"}]}],
  "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
  "tool_choice":{"type":"auto","disable_parallel_tool_use":true},
  "thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"low"},
  "metadata":{"user_id":"{\"session_id\":\"s\"}"}})";

TEST(ParseMessagesFuzz, NoBodyCrashesThrowsOrFailsWithoutAReason) {
  std::mt19937_64 random(test_seed());
  const Json valid = Json::parse(kValidMessages);
  ASSERT_TRUE(parse_messages(kValidMessages, {}).ok());
  int accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    Json body = round % 4 == 0 ? random_body_value(random, kMessagesWords, 4) : valid;
    if (round % 4 != 0) mutate_body(random, kMessagesWords, body);
    std::string bytes = body.dump();
    if (round % 8 == 7) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto request = parse_messages(bytes, {});
    const auto count = parse_count_tokens(bytes, {});
    accepted += request.ok() ? 1 : 0;
    ASSERT_TRUE(request.ok() || !request.error().message.empty());
    ASSERT_TRUE(count.ok() || !count.error().message.empty());
    ASSERT_TRUE(count.ok() || !request.ok()) << "counting asks for less: " << bytes;
  }
  EXPECT_GT(accepted, 500) << "the mutations must leave some bodies valid";
}

}  // namespace
}  // namespace kvkeep::server::api
