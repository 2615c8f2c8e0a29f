#include "server/api/responses/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/responses/items.h"

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

const Json kEcho = {{"store", false}};
const ClientTools kTools = {
    {"ls", {.name = "ls"}},
    {"agents__spawn", {.space = "agents", .name = "spawn"}},
    {"patch", {.name = "patch", .is_custom = true}},
};

ResponsesReplyWriter fresh(bool streams = true, bool timings_per_token = false) {
  GenerationRequest request;
  request.stream = streams;
  request.timings_per_token = timings_per_token;
  return {{.id = "resp_1", .created_s = 5, .model = "m", .system_fingerprint = "b1"}, request, kTools, kEcho};
}

// A writer that has sent the opening events.
ResponsesReplyWriter response_writer(bool timings_per_token = false) {
  ResponsesReplyWriter out = fresh(true, timings_per_token);
  out.first({});
  return out;
}
constexpr std::size_t kOpening = 2;  // number of opening events

GenerationResult response_result(FinishReason finish = FinishReason::kStop) {
  GenerationResult values;
  values.finish = finish;
  values.prompt_tokens = 10;
  values.reasoning_tokens = 2;
  values.timings.cache_n = 6;
  values.timings.prompt_n = 4;
  values.timings.predicted_n = 3;
  return values;
}

// The events of a stream; checks that each has its line, its type and the next number.
std::vector<Json> events(const std::string& bytes, std::size_t number = kOpening) {
  std::vector<Json> all;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = bytes.find("\n\n", at);
    const std::size_t line = bytes.find("\ndata: ", at);
    all.push_back(Json::parse(bytes.substr(line + 7, end - line - 7)));
    EXPECT_EQ(bytes.substr(at, line - at), "event: " + all.back()["type"].get<std::string>());
    EXPECT_EQ(all.back()["sequence_number"], number++);
    at = end + 2;
  }
  return all;
}

std::string without_number(const Json& event) {
  Json copy = event;
  copy.erase("sequence_number");
  return to_line(copy);
}

std::vector<std::string> lines(const std::string& bytes, std::size_t number = kOpening) {
  std::vector<std::string> all;
  for (const Json& event : events(bytes, number)) all.push_back(without_number(event));
  return all;
}

Delta begin(std::string_view id, std::string_view name) {
  return {.kind = DeltaKind::kCallBegin, .call_id = id, .call_name = name};
}
Delta arguments(std::string_view text) { return {.kind = DeltaKind::kCallArguments, .text = text}; }
const Delta kEnd = {.kind = DeltaKind::kCallEnd};

std::string streamed(ResponsesReplyWriter& out, const std::vector<Delta>& deltas) {
  std::string bytes;
  for (const Delta& delta : deltas) bytes += out.delta(delta);
  return bytes;
}

TEST(ResponsesStream, BeginsWithAnEmptyResponse) {
  const std::string empty =
      R"({"id":"resp_1","object":"response","created_at":5,"status":"in_progress","background":false,"error":null,)"
      R"("incomplete_details":null,"model":"m","output":[],"usage":null,"store":false})";
  EXPECT_THAT(lines(fresh().first({}), 0),
              testing::ElementsAre(R"({"type":"response.created","response":)" + empty + "}",
                                   R"({"type":"response.in_progress","response":)" + empty + "}"));
}

TEST(ResponsesStream, ThoughtsAndTextAreItemsWithParts) {
  ResponsesReplyWriter out = response_writer();
  const std::string bytes = streamed(out, {{.kind = DeltaKind::kReasoning, .text = "I "},
                                           {.kind = DeltaKind::kReasoning, .text = "see"},
                                           {.text = "a\"b"},
                                           {.text = ""},
                                           {.text = "ü"}});
  const std::string at0 = R"("item_id":"rs_100","output_index":0,)";
  const std::string at1 = R"("item_id":"msg_101","output_index":1,)";
  EXPECT_THAT(
      lines(bytes),
      testing::ElementsAre(
          R"({"type":"response.output_item.added","output_index":0,"item":{"id":"rs_100","type":"reasoning",)"
          R"("status":"in_progress","summary":[],"encrypted_content":null}})",
          R"({"type":"response.reasoning_summary_part.added",)" + at0 +
              R"("summary_index":0,"part":{"type":"summary_text","text":""}})",
          R"({"type":"response.reasoning_summary_text.delta",)" + at0 + R"("delta":"I ","summary_index":0})",
          R"({"type":"response.reasoning_summary_text.delta",)" + at0 + R"("delta":"see","summary_index":0})",
          R"({"type":"response.reasoning_summary_text.done",)" + at0 + R"("summary_index":0,"text":"I see"})",
          R"({"type":"response.reasoning_summary_part.done",)" + at0 +
              R"("summary_index":0,"part":{"type":"summary_text","text":"I see"}})",
          R"({"type":"response.output_item.done","output_index":0,"item":{"id":"rs_100","type":"reasoning",)"
          R"("status":"completed","summary":[{"type":"summary_text","text":"I see"}],)"
          R"("encrypted_content":"kvkeep:I see"}})",
          R"({"type":"response.output_item.added","output_index":1,"item":{"id":"msg_101","type":"message",)"
          R"("status":"in_progress","role":"assistant","content":[]}})",
          R"({"type":"response.content_part.added",)" + at1 +
              R"("content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}})",
          R"({"type":"response.output_text.delta",)" + at1 + R"("delta":"a\"b","content_index":0,"logprobs":[]})",
          R"({"type":"response.output_text.delta",)" + at1 + R"("delta":"ü","content_index":0,"logprobs":[]})"));
  const std::vector<Json> rest = events(out.finish(response_result()), kOpening + 11);
  ASSERT_EQ(rest.size(), 4);
  EXPECT_EQ(without_number(rest[0]),
            R"({"type":"response.output_text.done",)" + at1 + R"("content_index":0,"text":"a\"bü","logprobs":[]})");
  EXPECT_EQ(rest[1]["type"], "response.content_part.done");
  EXPECT_EQ(rest[1]["part"]["text"], "a\"bü");
  EXPECT_EQ(to_line(rest[2]["item"]),
            R"({"id":"msg_101","type":"message","status":"completed","role":"assistant","content":[)"
            R"({"type":"output_text","annotations":[],"logprobs":[],"text":"a\"bü"}]})");
  EXPECT_EQ(rest[3]["type"], "response.completed");
  EXPECT_EQ(rest[3]["response"]["output"][1], rest[2]["item"]);
  EXPECT_EQ(rest[3]["response"]["output"].size(), 2);
}

TEST(ResponsesStream, CallsAreItems) {
  ResponsesReplyWriter out = response_writer();
  const std::string bytes =
      streamed(out, {begin("c1", "ls"), arguments("{\"path\":"), arguments(""), arguments("\"/\"}"), kEnd,
                     begin("c2", "agents__spawn"), arguments("{}"), kEnd, begin("c3", "unknown"), kEnd});
  const std::vector<Json> all = events(bytes);
  ASSERT_EQ(all.size(), 12);
  EXPECT_EQ(without_number(all[0]),
            R"({"type":"response.output_item.added","output_index":0,"item":{"id":"fc_100","type":"function_call",)"
            R"("status":"in_progress","call_id":"c1","name":"ls","arguments":""}})");
  EXPECT_EQ(without_number(all[1]), R"({"type":"response.function_call_arguments.delta","item_id":"fc_100",)"
                                    R"("output_index":0,"delta":"{\"path\":"})");
  EXPECT_EQ(without_number(all[3]), R"({"type":"response.function_call_arguments.done","item_id":"fc_100",)"
                                    R"("output_index":0,"name":"ls","arguments":"{\"path\":\"/\"}"})");
  EXPECT_EQ(to_line(all[4]["item"]), R"({"id":"fc_100","type":"function_call","status":"completed","call_id":"c1",)"
                                     R"("name":"ls","arguments":"{\"path\":\"/\"}"})");
  EXPECT_EQ(to_line(all[8]["item"]), R"({"id":"fc_101","type":"function_call","status":"completed","call_id":"c2",)"
                                     R"("name":"spawn","namespace":"agents","arguments":"{}"})");
  EXPECT_EQ(all[11]["item"]["name"], "unknown");
  const Json last = events(out.finish(response_result(FinishReason::kToolCalls)), kOpening + 12).back();
  EXPECT_EQ(last["response"]["status"], "completed");
  EXPECT_EQ(last["response"]["output"].size(), 3);
}

TEST(ResponsesStream, CustomToolsGetTheirText) {
  ResponsesReplyWriter out = response_writer();
  const std::vector<Json> all =
      events(streamed(out, {begin("c1", "patch"), arguments(R"({"input":)"), arguments(R"("a\nb"})"), kEnd}));
  ASSERT_EQ(all.size(), 4);
  EXPECT_EQ(to_line(all[0]["item"]), R"({"id":"ctc_100","type":"custom_tool_call","status":"in_progress",)"
                                     R"("call_id":"c1","name":"patch","input":""})");
  EXPECT_EQ(without_number(all[1]), R"({"type":"response.custom_tool_call_input.delta","item_id":"ctc_100",)"
                                    R"("output_index":0,"delta":"a\nb"})");
  EXPECT_EQ(all[2]["input"], "a\nb");
  EXPECT_EQ(to_line(all[3]["item"]), R"({"id":"ctc_100","type":"custom_tool_call","status":"completed",)"
                                     R"("call_id":"c1","name":"patch","input":"a\nb"})");
}

TEST(ResponsesStream, EveryItemIsDoneHoweverTheReplyEnds) {
  ResponsesReplyWriter text = response_writer();
  text.delta({.text = "x"});
  const std::vector<Json> all = events(text.finish(response_result(FinishReason::kLength)), kOpening + 3);
  ASSERT_EQ(all.size(), 4);
  EXPECT_EQ(all[2]["item"]["status"], "incomplete");
  EXPECT_EQ(all[3]["type"], "response.incomplete");
  EXPECT_EQ(all[3]["response"]["status"], "incomplete");
  EXPECT_EQ(all[3]["response"]["incomplete_details"], (Json{{"reason", "max_output_tokens"}}));
  ResponsesReplyWriter broken = response_writer();
  const std::string bytes = streamed(broken, {begin("c", "ls"), arguments(R"({"path":"/)"), kEnd});
  EXPECT_EQ(events(bytes).back()["item"]["status"], "incomplete");
  ResponsesReplyWriter call = response_writer();
  call.delta(begin("c", "ls"));
  EXPECT_EQ(events(call.finish(response_result()), kOpening + 1)[1]["type"], "response.output_item.done");
  EXPECT_EQ(call.delta(arguments("{}")), "") << "of a call that is not open";
  EXPECT_EQ(events(response_writer().finish(response_result()))[0]["response"]["output"], Json::array());
}

TEST(ResponsesStream, TheFirstEventOpensTheStream) {
  ResponsesReplyWriter out = fresh();
  const std::vector<Json> all = events(out.keep_alive(), 0);
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0]["type"], "response.created");
  EXPECT_EQ(without_number(all[2]), R"({"type":"keepalive"})");
  EXPECT_EQ(out.first({}), "") << "it was sent";
  EXPECT_EQ(events(out.keep_alive(), 3).size(), 1);
  ResponsesReplyWriter other = fresh();
  EXPECT_EQ(other.delta({.text = ""}), "");
  EXPECT_EQ(events(other.delta({.text = "x"}), 0).size(), 5);
}

TEST(ResponsesStream, ProgressAndTimingsWhereAskedFor) {
  const Json progress =
      events(response_writer().progress({.total = 10, .cached = 6, .processed = 8, .time_ms = 3.7}))[0];
  EXPECT_EQ(progress["type"], "response.in_progress");
  EXPECT_EQ(to_line(progress["prompt_progress"]), R"({"total":10,"cache":6,"processed":8,"time_ms":3})");
  const Timings timings = response_result().timings;
  EXPECT_THAT(response_writer(true).delta({.text = "x", .timings = &timings}), HasSubstr("\"timings\":{"));
  EXPECT_THAT(response_writer().delta({.text = "x", .timings = &timings}), testing::Not(HasSubstr("timings")));
}

TEST(ResponsesStream, AFailureIsReportedBothWays) {
  const ResponsesReplyWriter out = response_writer();
  const std::vector<Json> all = events(out.stream_error(out.error(io_error("broken"))));
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(without_number(all[0]),
            R"({"type":"error","code":null,"message":"broken","param":null,"error":{"message":"broken",)"
            R"("type":"server_error","param":null,"code":null}})");
  EXPECT_EQ(all[1]["type"], "response.failed");
  EXPECT_EQ(all[1]["response"]["status"], "failed");
  EXPECT_EQ(to_line(all[1]["response"]["error"]), R"({"code":"server_error","message":"broken"})");
}

TEST(ResponsesStream, APromptThatDoesNotFitFailsInAStreamOfItsOwn) {
  const ErrorReply reply = fresh().context_exceeded(50, true, 40);
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.is_stream);
  const std::vector<Json> all = events(reply.body, 0);
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0]["type"], "response.created");
  EXPECT_EQ(all[1]["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(all[2]["response"]["error"]["code"], "context_length_exceeded");
  const ErrorReply whole = fresh(false).context_exceeded(50, false, 40);
  EXPECT_EQ(whole.status, 400);
  EXPECT_FALSE(whole.is_stream);
  EXPECT_EQ(whole.body,
            R"({"error":{"message":"Your input exceeds the context window of this model: at least 50 tokens of input, )"
            R"(40 of context","type":"invalid_request_error","param":"input","code":"context_length_exceeded",)"
            R"("n_prompt_tokens":50,"n_ctx":40}})");
}

TEST(ResponsesWhole, HasTheSameItemsAsAStream) {
  GenerationResult values = response_result(FinishReason::kToolCalls);
  values.content = {{.kind = PartKind::kReasoning, .text = "hm"},
                    {.kind = PartKind::kText, .text = "grüße"},
                    {.kind = PartKind::kText, .text = ""},
                    {.kind = PartKind::kCall, .text = R"({"z":1})", .call_id = "c", .call_name = "agents__spawn"}};
  ResponsesReplyWriter out = response_writer();
  streamed(out, {{.kind = DeltaKind::kReasoning, .text = "hm"},
                 {.text = "grüße"},
                 begin("c", "agents__spawn"),
                 arguments(R"({"z":1})"),
                 kEnd});
  const std::string bytes = out.finish(values);
  const Json last = Json::parse(bytes.substr(bytes.find("data: ") + 6));
  const Json whole = Json::parse(fresh(false).whole(values));
  EXPECT_EQ(whole, last["response"]);
  EXPECT_EQ(to_line(whole["usage"]),
            R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":6},"output_tokens":3,)"
            R"("output_tokens_details":{"reasoning_tokens":2},"total_tokens":13})");
  EXPECT_EQ(whole["timings"], timings_json(values.timings));
  EXPECT_EQ(whole["output"].size(), 3);
  EXPECT_EQ(whole["store"], false);
}

TEST(ResponsesWhole, TheLastItemOfACutReplyIsIncomplete) {
  GenerationResult values = response_result(FinishReason::kLength);
  values.content = {{.kind = PartKind::kReasoning, .text = "hm"}, {.kind = PartKind::kText, .text = "a"}};
  const Json whole = Json::parse(fresh(false).whole(values));
  EXPECT_EQ(whole["status"], "incomplete");
  EXPECT_EQ(whole["output"][0]["status"], "completed");
  EXPECT_EQ(whole["output"][1]["status"], "incomplete");
}

TEST(ResponsesErrors, NameTheFieldAndTheKind) {
  const auto body = [](const ErrorReply& reply) { return Json::parse(reply.body)["error"]; };
  EXPECT_EQ(body(responses_error_reply(invalid("'input[0].role' must be x")))["param"], "input[0].role");
  EXPECT_EQ(body(responses_error_reply(invalid("no field")))["param"], Json());
  EXPECT_EQ(responses_error_reply(invalid("")).status, 400);
  EXPECT_EQ(responses_error_reply(not_found("")).status, 404);
  EXPECT_EQ(responses_error_reply(busy("")).status, 503);
  EXPECT_EQ(responses_error_reply(io_error("")).status, 500);
  EXPECT_EQ(body(responses_error(401, "x"))["code"], "invalid_api_key");
  EXPECT_EQ(response_not_found().status, 404);
  EXPECT_THAT(response_not_found().body, HasSubstr("not stored"));
}

}  // namespace
}  // namespace kvkeep::server::api
