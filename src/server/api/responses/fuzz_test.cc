#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string_view>

#include "base/test_seed.h"
#include "server/api/body_fuzz_test.h"
#include "server/api/responses/request.h"

namespace kvkeep::server::api {
namespace {

constexpr auto kResponsesWords = std::to_array<std::string_view>({"input",
                                                                  "instructions",
                                                                  "role",
                                                                  "content",
                                                                  "type",
                                                                  "message",
                                                                  "text",
                                                                  "input_text",
                                                                  "output_text",
                                                                  "summary_text",
                                                                  "reasoning",
                                                                  "summary",
                                                                  "encrypted_content",
                                                                  "function_call",
                                                                  "function_call_output",
                                                                  "custom_tool_call",
                                                                  "custom_tool_call_output",
                                                                  "call_id",
                                                                  "name",
                                                                  "namespace",
                                                                  "arguments",
                                                                  "output",
                                                                  "item_reference",
                                                                  "id",
                                                                  "system",
                                                                  "developer",
                                                                  "user",
                                                                  "assistant",
                                                                  "tools",
                                                                  "function",
                                                                  "custom",
                                                                  "parameters",
                                                                  "format",
                                                                  "grammar",
                                                                  "definition",
                                                                  "tool_choice",
                                                                  "allowed_tools",
                                                                  "mode",
                                                                  "required",
                                                                  "auto",
                                                                  "effort",
                                                                  "low",
                                                                  "none",
                                                                  "max_output_tokens",
                                                                  "json_schema",
                                                                  "schema",
                                                                  "strict",
                                                                  "include",
                                                                  "truncation",
                                                                  "store",
                                                                  "stream",
                                                                  "temperature",
                                                                  "metadata",
                                                                  "previous_response_id",
                                                                  "background",
                                                                  "description",
                                                                  "",
                                                                  "kvkeep:x",
                                                                  "web_search_call"});

const char* const kValidResponses =
    R"({"model":"m","instructions":"i","max_output_tokens":5,"stream":true,"temperature":1,
  "input":[{"role":"developer","content":[{"type":"input_text","text":"x"}]},{"role":"user","content":"y"},
    {"type":"reasoning","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"kvkeep:t"},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"z"}]},
    {"type":"function_call","call_id":"i","name":"f","namespace":"n","arguments":"{}"},
    {"type":"custom_tool_call","call_id":"j","name":"g","input":"a"},
    {"type":"function_call_output","call_id":"i","output":[{"type":"input_text","text":"r"}]},
    {"type":"custom_tool_call_output","call_id":"j","output":"s"},{"type":"web_search_call"}],
  "tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]},
    {"type":"custom","name":"g","format":{"type":"grammar","syntax":"lark","definition":"d"}},{"type":"web_search"}],
  "tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f","namespace":"n"}]},
  "reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"json_schema","schema":{}}},
  "include":["reasoning.encrypted_content"],"store":false,"truncation":"auto","metadata":{"a":"b"}})";

TEST(ParseResponsesFuzz, NoBodyCrashesThrowsOrFailsWithoutAReason) {
  std::mt19937_64 random(test_seed());
  const Json valid = Json::parse(kValidResponses);
  ASSERT_TRUE(parse_responses(kValidResponses, {}).ok()) << parse_responses(kValidResponses, {}).error().message;
  int accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    Json body = round % 4 == 0 ? random_body_value(random, kResponsesWords, 4) : valid;
    if (round % 4 != 0) mutate_body(random, kResponsesWords, body);
    std::string bytes = body.dump();
    if (round % 8 == 7) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto request = parse_responses(bytes, {});
    const auto count = parse_input_tokens(bytes, {});
    accepted += request.ok() ? 1 : 0;
    ASSERT_TRUE(request.ok() || !request.error().message.empty());
    ASSERT_TRUE(count.ok() || !count.error().message.empty());
    ASSERT_TRUE(count.ok() || !request.ok()) << "counting asks for less: " << bytes;
    ASSERT_TRUE(!request.ok() || !to_line(request->echo).empty());
  }
  EXPECT_GT(accepted, 500) << "the mutations must leave some bodies valid";
}

}  // namespace
}  // namespace kvkeep::server::api
