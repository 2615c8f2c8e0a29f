#include "server/api/anthropic/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

constexpr CacheLifetime kShort = CacheLifetime::kFiveMinutes;

AnthropicReplyWriter message_writer(CacheLifetime cache = CacheLifetime::kNone, bool timings_per_token = false) {
  GenerationRequest request;
  request.timings_per_token = timings_per_token;
  return {{.id = "msg_1", .created_s = 5, .model = "m", .system_fingerprint = "b1"}, "req_1", request, cache};
}

GenerationResult message_result(FinishReason finish = FinishReason::kStop, std::string stop_string = "") {
  GenerationResult values;
  values.finish = finish;
  values.stop_string = std::move(stop_string);
  values.prompt_tokens = 10;
  values.timings.cache_n = 6;
  values.timings.prompt_n = 4;
  values.timings.predicted_n = 3;
  values.timings.cache_break = Json{{"kind", "volatile-text"}};
  return values;
}

const std::string kTimings = R"("timings":)" + to_line(timings_json(message_result().timings));
const std::string kUsage =
    R"("usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":6,"cache_creation":)"
    R"({"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":3,"service_tier":"standard"})";

std::string event(const std::string& type, const std::string& fields = "") {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + (fields.empty() ? "" : "," + fields) + "}\n\n";
}
std::string start(int index, const std::string& block) {
  return event("content_block_start", R"("index":)" + std::to_string(index) + R"(,"content_block":)" + block);
}
std::string piece(int index, const std::string& delta) {
  return event("content_block_delta", R"("index":)" + std::to_string(index) + R"(,"delta":)" + delta);
}
std::string stop(int index) { return event("content_block_stop", R"("index":)" + std::to_string(index)); }
std::string ending(const std::string& reason, const std::string& sequence = "null") {
  return event("message_delta", R"("delta":{"stop_reason":")" + reason + R"(","stop_sequence":)" + sequence + "}," +
                                    kUsage + "," + kTimings) +
         event("message_stop");
}
Delta call_begin(std::size_t index, std::string_view id, std::string_view name) {
  return {.kind = DeltaKind::kCallBegin, .call_index = index, .call_id = id, .call_name = name};
}
Delta arguments(std::size_t index, std::string_view text) {
  return {.kind = DeltaKind::kCallArguments, .text = text, .call_index = index};
}
Delta call_end(std::size_t index) { return {.kind = DeltaKind::kCallEnd, .call_index = index}; }

TEST(AnthropicStream, BeginsWithTheMessageAndAPing) {
  EXPECT_EQ(
      message_writer(kShort).first({.prompt_tokens = 10, .cached_tokens = 6}),
      event("message_start",
            R"("message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],)"
            R"("stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":3,)"
            R"("cache_read_input_tokens":6,"cache_creation":{"ephemeral_5m_input_tokens":3,)"
            R"("ephemeral_1h_input_tokens":0},"output_tokens":0,"service_tier":"standard"}})") +
          event("ping"));
}

TEST(AnthropicStream, ThoughtsTextAndCallsAreBlocksInTheirOrder) {
  AnthropicReplyWriter out = message_writer();
  std::string bytes;
  for (const Delta& delta : std::vector<Delta>{{.kind = DeltaKind::kReasoning, .text = "I "},
                                               {.kind = DeltaKind::kReasoning, .text = "see"},
                                               {.text = "a\"b"},
                                               {.text = ""},
                                               {.text = "ü"},
                                               call_begin(0, "c1", "ls"),
                                               arguments(0, "{\"path\":"),
                                               arguments(0, ""),
                                               arguments(0, "\"/\"}"),
                                               call_end(0),
                                               call_begin(1, "c2", "pwd"),
                                               arguments(1, "{}"),
                                               call_end(1)}) {
    bytes += out.delta(delta);
  }
  bytes += out.finish(message_result(FinishReason::kToolCalls));
  EXPECT_EQ(bytes, start(0, R"({"type":"thinking","thinking":"","signature":""})") +
                       piece(0, R"({"type":"thinking_delta","thinking":"I "})") +
                       piece(0, R"({"type":"thinking_delta","thinking":"see"})") +
                       piece(0, R"({"type":"signature_delta","signature":")" + thinking_signature("I see") + "\"}") +
                       stop(0) + start(1, R"({"type":"text","text":""})") +
                       piece(1, R"({"type":"text_delta","text":"a\"b"})") +
                       piece(1, R"({"type":"text_delta","text":"ü"})") + stop(1) +
                       start(2, R"({"type":"tool_use","id":"c1","name":"ls","input":{}})") +
                       piece(2, R"({"type":"input_json_delta","partial_json":"{\"path\":"})") +
                       piece(2, R"({"type":"input_json_delta","partial_json":"\"/\"}"})") + stop(2) +
                       start(3, R"({"type":"tool_use","id":"c2","name":"pwd","input":{}})") +
                       piece(3, R"({"type":"input_json_delta","partial_json":"{}"})") + stop(3) + ending("tool_use"));
}

TEST(AnthropicStream, EveryBlockIsStoppedHoweverTheReplyEnds) {
  AnthropicReplyWriter thinking = message_writer();
  thinking.delta({.kind = DeltaKind::kReasoning, .text = "x"});
  EXPECT_EQ(thinking.finish(message_result(FinishReason::kLength)),
            piece(0, R"({"type":"signature_delta","signature":")" + thinking_signature("x") + "\"}") + stop(0) +
                ending("max_tokens"));
  AnthropicReplyWriter call = message_writer();
  call.delta(call_begin(0, "c", "f"));
  EXPECT_EQ(call.finish(message_result(FinishReason::kLength)), stop(0) + ending("max_tokens"));
  AnthropicReplyWriter nothing = message_writer();
  EXPECT_EQ(nothing.finish(message_result()), ending("end_turn"));
  AnthropicReplyWriter two = message_writer();
  two.delta(call_begin(0, "c", "f"));
  EXPECT_EQ(two.delta(call_begin(1, "d", "g")),
            stop(0) + start(1, R"({"type":"tool_use","id":"d","name":"g","input":{}})"));
  EXPECT_EQ(two.delta({.text = "x"}),
            stop(1) + start(2, R"({"type":"text","text":""})") + piece(2, R"({"type":"text_delta","text":"x"})"));
  EXPECT_EQ(two.delta(arguments(1, "{}")), "") << "of a call that is not open";
}

TEST(AnthropicStream, StopSequences) {
  EXPECT_EQ(message_writer().finish(message_result(FinishReason::kStop, "E\"ND")),
            ending("stop_sequence", R"("E\"ND")"));
  EXPECT_EQ(message_writer().finish(message_result(FinishReason::kToolCalls, "E")), ending("tool_use"));
}

TEST(AnthropicStream, ProgressAndTimingsWhereAskedFor) {
  EXPECT_EQ(message_writer().progress({.total = 10, .cached = 6, .processed = 8, .time_ms = 3.7}),
            event("ping", R"("prompt_progress":{"total":10,"cache":6,"processed":8,"time_ms":3})"));
  const Timings timings = message_result().timings;
  AnthropicReplyWriter with = message_writer(CacheLifetime::kNone, true);
  EXPECT_THAT(with.delta({.text = "x", .timings = &timings}), HasSubstr(kTimings));
  AnthropicReplyWriter without = message_writer();
  EXPECT_THAT(without.delta({.text = "x", .timings = &timings}), testing::Not(HasSubstr("timings")));
}

TEST(AnthropicWhole, HasTheSamePartsAsAStream) {
  GenerationResult values = message_result(FinishReason::kToolCalls);
  values.content = {{.kind = PartKind::kReasoning, .text = "hm"},
                    {.kind = PartKind::kText, .text = "grüße"},
                    {.kind = PartKind::kText, .text = ""},
                    {.kind = PartKind::kCall, .text = R"({"z":1,"a":2})", .call_id = "c", .call_name = "f"}};
  EXPECT_EQ(message_writer().whole(values),
            R"({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[)"
            R"({"type":"thinking","thinking":"hm","signature":")" +
                thinking_signature("hm") +
                R"("},{"type":"text","text":"grüße"},{"type":"tool_use","id":"c","name":"f","input":{"z":1,"a":2}}],)"
                R"("stop_reason":"tool_use","stop_sequence":null,)" +
                kUsage + "," + kTimings + "}");
}

TEST(AnthropicWhole, ArgumentsThatAreNoObjectStayReadable) {
  GenerationResult values = message_result(FinishReason::kToolCalls);
  for (const auto& [text, input] : std::vector<std::pair<std::string, std::string>>{
           {"", "{}"}, {"{broken", R"({"arguments":"{broken"})"}, {"[1]", R"({"arguments":"[1]"})"}}) {
    values.content = {{.kind = PartKind::kCall, .text = text, .call_id = "c", .call_name = "f"}};
    EXPECT_THAT(message_writer().whole(values), HasSubstr(R"("input":)" + input));
  }
}

Json usage_of(CacheLifetime cache, std::size_t prompt, std::size_t cached) {
  GenerationResult values = message_result();
  values.prompt_tokens = prompt;
  values.timings.cache_n = cached;
  return Json::parse(message_writer(cache).whole(values))["usage"];
}

TEST(AnthropicUsage, CountsDoNotOverlap) {
  for (const CacheLifetime cache : {CacheLifetime::kNone, kShort, CacheLifetime::kOneHour}) {
    for (const std::size_t cached : {0U, 1U, 5U, 9U, 10U}) {
      const Json usage = usage_of(cache, 10, cached);
      EXPECT_EQ(usage["input_tokens"].get<int>() + usage["cache_creation_input_tokens"].get<int>() +
                    usage["cache_read_input_tokens"].get<int>(),
                10);
      EXPECT_EQ(usage["cache_read_input_tokens"], cached);
      EXPECT_EQ(usage["cache_creation"]["ephemeral_5m_input_tokens"].get<int>() +
                    usage["cache_creation"]["ephemeral_1h_input_tokens"].get<int>(),
                usage["cache_creation_input_tokens"].get<int>());
    }
  }
  EXPECT_EQ(usage_of(CacheLifetime::kNone, 10, 4)["input_tokens"], 6);
  EXPECT_EQ(usage_of(kShort, 10, 4)["cache_creation"]["ephemeral_5m_input_tokens"], 5);
  EXPECT_EQ(usage_of(CacheLifetime::kOneHour, 10, 4)["cache_creation"]["ephemeral_1h_input_tokens"], 5);
  EXPECT_EQ(usage_of(kShort, 10, 9)["cache_creation_input_tokens"], 0) << "all of it was known";
}

TEST(AnthropicSignature, NamesTheText) {
  EXPECT_EQ(thinking_signature("a"), thinking_signature("a"));
  EXPECT_NE(thinking_signature("a"), thinking_signature("b"));
  EXPECT_EQ(thinking_signature(std::string(100'000, 'x')).size(), thinking_signature("").size());
}

TEST(AnthropicErrors, StatusAndTypeByKind) {
  const std::vector<std::tuple<ErrorKind, int, std::string>> cases = {
      {ErrorKind::kInvalid, 400, "invalid_request_error"},
      {ErrorKind::kNotFound, 404, "not_found_error"},
      {ErrorKind::kUnsupported, 400, "invalid_request_error"},
      {ErrorKind::kBusy, 529, "overloaded_error"},
      {ErrorKind::kNoSpace, 413, "request_too_large"},
      {ErrorKind::kAborted, 529, "overloaded_error"},
      {ErrorKind::kDamaged, 500, "api_error"},
      {ErrorKind::kIo, 500, "api_error"}};
  for (const auto& [kind, status, type] : cases) {
    const ErrorReply reply = message_writer().error({kind, "why \"so\""});
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.body,
              R"({"type":"error","error":{"type":")" + type + R"(","message":"why \"so\""},"request_id":"req_1"})");
    EXPECT_EQ(message_writer().stream_error(reply), "event: error\ndata: " + reply.body + "\n\n");
  }
}

TEST(AnthropicErrors, EveryStatusOfHttp) {
  for (const auto& [status, answered, type] :
       std::vector<std::tuple<int, int, std::string>>{{400, 400, "invalid_request_error"},
                                                      {401, 401, "authentication_error"},
                                                      {403, 403, "permission_error"},
                                                      {404, 404, "not_found_error"},
                                                      {405, 405, "invalid_request_error"},
                                                      {408, 408, "invalid_request_error"},
                                                      {413, 413, "request_too_large"},
                                                      {415, 415, "invalid_request_error"},
                                                      {429, 429, "rate_limit_error"},
                                                      {500, 500, "api_error"},
                                                      {501, 400, "invalid_request_error"},
                                                      {503, 529, "overloaded_error"}}) {
    const ErrorReply reply = anthropic_error(status, "\xFFx", "req_2");
    EXPECT_EQ(reply.status, answered);
    EXPECT_EQ(reply.body, R"({"type":"error","error":{"type":")" + type + "\",\"message\":\"\xEF\xBF\xBDx\"}," +
                              R"("request_id":"req_2"})");
  }
}

TEST(AnthropicErrors, TheNumbersOfTooLongAPrompt) {
  const ErrorReply reply = message_writer().context_exceeded(2048, true, 2048);
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(
      reply.body,
      HasSubstr(
          R"j("message":"prompt is too long: 2048 tokens > 2047 maximum (a context of 2048, less one token for the reply)")j"));
}

}  // namespace
}  // namespace kvkeep::server::api
