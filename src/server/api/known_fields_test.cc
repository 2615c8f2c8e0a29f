#include "server/api/known_fields.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic/request.h"
#include "server/api/cache_lookup.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"
#include "server/api/responses/request.h"

namespace kvkeep::server::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kMessages = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":9)";
constexpr const char* kPrompt = R"({"prompt":"hi")";
constexpr const char* kInput = R"({"input":"hi")";

std::vector<std::string> unknown_in(const std::string& body, Dialect dialect) {
  return unknown_fields(parse_body(body).value(), dialect, /*strict=*/false).value();
}

// The same misspelt field in each dialect, reported by its parser.
template <typename Parse>
void expect_told(const Parse& parse, const std::string& begin) {
  const auto told =
      parse(begin + R"(,"max_token":5,"temperature":1,"temprature":1,"nothing":null})", RequestDefaults{});
  ASSERT_TRUE(told.ok()) << told.error().message;
  EXPECT_THAT(*told, ElementsAre("max_token", "temprature"));
  const auto refused = parse(begin + R"(,"temprature":1})", RequestDefaults{.sampling = {}, .strict_fields = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(refused.error().message,
              HasSubstr("'temprature' is not a field of this request (did you mean 'temperature'?)"));
  EXPECT_TRUE(
      parse(begin + R"(,"nothing":null,"seed":1})", RequestDefaults{.sampling = {}, .strict_fields = true}).ok());
}

using Told = Result<std::vector<std::string>>;

TEST(UnknownFields, AreReportedInEveryDialectAndRefusedWhereItIsStrict) {
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(GenerationRequest request, parse_chat(body, defaults));
        return std::move(request.unknown_fields);
      },
      kMessages);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(GenerationRequest request, parse_completion(body, defaults));
        return std::move(request.unknown_fields);
      },
      kPrompt);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(MessagesRequest request, parse_messages(body, defaults));
        return std::move(request.generation.unknown_fields);
      },
      kMessages);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(CountRequest request, parse_count_tokens(body, defaults));
        return std::move(request.unknown_fields);
      },
      kMessages);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(ResponsesRequest request, parse_responses(body, defaults));
        return std::move(request.generation.unknown_fields);
      },
      kInput);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(CountRequest request, parse_input_tokens(body, defaults));
        return std::move(request.unknown_fields);
      },
      kInput);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(LookupRequest request, parse_lookup(body, defaults));
        return std::move(request.unknown_fields);
      },
      kPrompt);
}

TEST(UnknownFields, FieldsThatClientsSendOnPurposeAreKnown) {
  EXPECT_THAT(
      unknown_in(R"({"store":false,"metadata":{},"service_tier":"auto","n":1,"logprobs":false})", Dialect::kChat),
      IsEmpty());
  EXPECT_THAT(unknown_in(R"({"context_management":{},"metadata":{},"betas":[],"system":""})", Dialect::kMessages),
              IsEmpty());
  EXPECT_THAT(unknown_in(R"({"content":"x","model":"m"})", Dialect::kTokenize), IsEmpty());
  EXPECT_THAT(unknown_in(R"({"context":"x"})", Dialect::kTokenize), ElementsAre("context"));
}

// A header field and a log line contain the names.
TEST(UnknownFields, NamesAreFewShortAndPrintable) {
  std::string body = R"({"a\r\nSet-Cookie: x":1,"b,c":1)";
  for (int i = 0; i < 30; ++i) body += fmt::format(",\"{}{}\":1", std::string(100, 'x'), i);
  const std::vector<std::string> unknown = unknown_in(body + "}", Dialect::kChat);
  ASSERT_EQ(unknown.size(), kMostUnknownFields);
  EXPECT_EQ(unknown[0], "a??Set-Cookie:?x");
  EXPECT_EQ(unknown[1], "b?c");
  EXPECT_EQ(unknown[2], std::string(kMostFieldNameBytes, 'x'));
}

TEST(UnknownFields, BelowTheTopLevelAreNamedByTheirPlace) {
  EXPECT_THAT(unknown_in(R"({"max_token":1,"messages":[{"role":"user","content":"a"},
                             {"role":"assistant","contnet":"b","tool_calls":[{"id":"1","function":{"nam":"f"}}]},
                             {"role":"user","content":[{"type":"text","text":"c","txt":"d"}]}],
                             "tools":[{"type":"function","function":{"name":"f","desciption":"g"},"stict":true}]})",
                         Dialect::kChat),
              ElementsAre("max_token", "messages[1].contnet", "messages[1].tool_calls[0].function.nam",
                          "messages[2].content[0].txt", "tools[0].stict", "tools[0].function.desciption"));
  EXPECT_THAT(unknown_in(R"({"system":[{"type":"text","text":"a","cache_controll":{}}],
                             "messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","iserror":true,
                               "content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral","tll":"1h"}}]}]}],
                             "tools":[{"name":"f","input_schema":{"anything":1},"descriptoin":"g"}]})",
                         Dialect::kMessages),
              ElementsAre("system[0].cache_controll", "messages[0].content[0].iserror",
                          "messages[0].content[0].content[0].cache_control.tll", "tools[0].descriptoin"));
  EXPECT_THAT(unknown_in(R"({"input":[{"role":"user","contents":"a"},{"type":"function_call","callid":"1"},
                             {"type":"message","role":"user","content":[{"type":"input_text","test":"b"}]}],
                             "tools":[{"type":"namespace","name":"n","tools":[{"type":"function","nme":"f"}]}]})",
                         Dialect::kResponses),
              ElementsAre("input[0].contents", "input[1].callid", "input[2].content[0].test", "tools[0].tools[0].nme"));
}

// The same mistake in a thousand messages is one mistake.
TEST(UnknownFields, AreNamedOnceForAllMessages) {
  std::string body = R"({"messages":[)";
  for (int i = 0; i < 1'000; ++i) body += R"({"role":"user","content":"a","contnet":1},)";
  EXPECT_THAT(unknown_in(body + R"({"rol":"user"}]})", Dialect::kChat),
              ElementsAre("messages[0].contnet", "messages[1000].rol"));
}

TEST(UnknownFields, BelowTheTopLevelAreRefusedWhereItIsStrict) {
  const RequestDefaults strict{.sampling = {}, .strict_fields = true};
  const auto refused = parse_chat(R"({"messages":[{"role":"user","content":"hi","contnet":1}]})", strict);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message,
              HasSubstr("'messages[0].contnet' is not a field of this request (did you mean 'content'?)"));
}

// Fields that vendors' libraries define and agents send; kinds that are refused or left out are not checked.
TEST(UnknownFields, DocumentedOnesAreKnownBelowTheTopLevel) {
  EXPECT_THAT(unknown_in(R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"}],"name":"n"},
                     {"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]},
                     {"role":"assistant","content":null,"refusal":null,"annotations":[],"audio":null,"parsed":1,
                      "reasoning_content":"r","tool_calls":[{"index":0,"id":"1","type":"function","incomplete":true,
                      "function":{"name":"f","arguments":"{}","parsed_arguments":{}}}]},
                     {"role":"tool","tool_call_id":"1","content":"x"}],
                     "tools":[{"type":"function","function":{"name":"f","description":"d","strict":false,
                      "parameters":{"type":"object","properties":{"contnet":{"tpye":"string"}}}}}]})",
                         Dialect::kChat),
              IsEmpty());
  EXPECT_THAT(unknown_in(R"({"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}],
                     "messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},
                      {"type":"redacted_thinking","data":"d"},{"type":"text","text":"a","citations":[]},
                      {"type":"tool_use","id":"1","name":"f","input":{"contnet":1},"caller":{"type":"direct"}}]},
                     {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":false,
                      "content":[{"type":"tool_reference","tool_name":"f"},{"type":"image","source":{}}]},
                      {"type":"web_search_tool_result","anything":1}]}],
                     "tools":[{"type":"tool_search_tool_regex_20251119","name":"s","whatever":1},
                      {"name":"f","description":"d","input_schema":{"contnet":1},"defer_loading":true,"strict":true,
                       "eager_input_streaming":true,"input_examples":[],"allowed_callers":["direct"]}]})",
                         Dialect::kMessages),
              IsEmpty());
  EXPECT_THAT(
      unknown_in(R"({"input":[{"type":"message","role":"assistant","id":"1","status":"completed","phase":"final_answer",
                      "content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]},
                     {"type":"reasoning","id":"2","summary":[{"type":"summary_text","text":"s"}],"content":[],
                      "encrypted_content":"e","status":"completed"},
                     {"type":"function_call","id":"3","call_id":"c","name":"f","namespace":"n","arguments":"{}",
                      "status":"completed","caller":{"type":"direct"}},
                     {"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"u"}]},
                     {"type":"custom_tool_call","call_id":"d","name":"g","input":"i"},
                     {"type":"web_search_call","action":{},"anything":1}],
                     "tools":[{"type":"web_search","filters":{}},
                      {"type":"function","name":"f","description":"d","parameters":{"contnet":1},"strict":false,
                       "defer_loading":true,"output_schema":{},"allowed_callers":[]},
                      {"type":"custom","name":"g","format":{"type":"grammar","syntax":"lark","definition":"x"}},
                      {"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"h"}]}]})",
                 Dialect::kResponses),
      IsEmpty());
}

TEST(UnknownFields, OnlyANearFieldIsSuggested) {
  EXPECT_EQ(meant_field(Dialect::kMessages, "messages[7].content[2].tool_useid"), " (did you mean 'tool_use_id'?)");
  EXPECT_EQ(meant_field(Dialect::kChat, "max_token.s"), " (did you mean 'max_tokens'?)");
  EXPECT_EQ(meant_field(Dialect::kChat, "max_token"), " (did you mean 'max_tokens'?)");
  EXPECT_EQ(meant_field(Dialect::kTokenize, "contnet"), " (did you mean 'content'?)");
  EXPECT_EQ(meant_field(Dialect::kChat, "guided_json_object"), "");
}

}  // namespace
}  // namespace kvkeep::server::api
