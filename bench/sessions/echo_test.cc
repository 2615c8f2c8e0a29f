#include "bench/sessions/echo.h"

#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

RecordedRequest request(const char* path, const std::string& body) {
  RecordedRequest out;
  out.method = "POST";
  out.path = path;
  out.body = parse_json(body).value();
  return out;
}
RecordedRequest chat(const std::string& messages) {
  return request("/v1/chat/completions", R"({"model":"m","messages":[)" + messages + R"(],"z":1})");
}
std::string sent(const std::string& messages) { return R"({"model":"m","messages":[)" + messages + R"(],"z":1})"; }

Json json(const char* text) { return parse_json(text).value(); }

const std::string kAsk = R"({"role":"user","content":"ask"})";
const std::string kMore = R"({"role":"user","content":"more"})";
const std::string kTheirs = R"({"role":"assistant","content":"theirs"})";
const std::string kOurs = R"({"role":"assistant","content":"ours"})";

TEST(Echo, PutsTheServersTextInPlaceOfTheRecorded) {
  Echo echo;
  const RecordedRequest first = chat(kAsk), second = chat(kAsk + "," + kTheirs + "," + kMore);
  EXPECT_EQ(to_line(echo.body_for(first)), sent(kAsk));
  echo.remember(first, json(R"({"role":"assistant","content":"ours","reasoning_content":"hm"})"));
  EXPECT_EQ(to_line(echo.body_for(second)), sent(kAsk + "," + kOurs + "," + kMore))
      << "no reasoning, since the client sends none";
  echo.remember(second, json(R"({"role":"assistant","content":"ours too"})"));
  const RecordedRequest third = chat(kAsk + "," + kTheirs + "," + kMore + "," + kTheirs + "," + kAsk);
  EXPECT_EQ(to_line(echo.body_for(third)),
            sent(kAsk + "," + kOurs + "," + kMore + R"(,{"role":"assistant","content":"ours too"},)" + kAsk));
  EXPECT_EQ(echo.replaced(), 2U);
  EXPECT_EQ(echo.kept(), 0U);
}

TEST(Echo, TheSameTextAgainFits) {
  Echo echo;
  echo.remember(chat(kAsk), json(kTheirs.c_str()));
  const std::string next = kAsk + "," + kTheirs + "," + kMore;
  EXPECT_EQ(to_line(echo.body_for(chat(next))), sent(next));
  EXPECT_EQ(echo.replaced(), 1U);
  EXPECT_EQ(echo.kept(), 0U);
}

TEST(Echo, LeavesOtherConversationsAlone) {
  Echo echo;
  echo.remember(chat(kAsk), json(R"({"role":"assistant","content":"ours"})"));
  const std::string other = kMore + "," + kTheirs + "," + kAsk;
  EXPECT_EQ(to_line(echo.body_for(chat(other))), sent(other));
  const std::string two_questions = kAsk + "," + kMore;
  EXPECT_EQ(to_line(echo.body_for(chat(two_questions))), sent(two_questions)) << "nobody's answer between them";
}

TEST(Echo, KeepsTheIdsThatResultsReferTo) {
  Echo echo;
  echo.remember(
      chat(kAsk),
      json(
          R"({"role":"assistant","content":null,"tool_calls":[{"id":"new","function":{"name":"g","arguments":"{}"}}]})"));
  const std::string called =
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"old","function":{"name":"f","arguments":"{}"}}]})";
  const std::string result = R"({"role":"tool","tool_call_id":"old","content":"r"})";
  EXPECT_EQ(
      to_line(echo.body_for(chat(kAsk + "," + called + "," + result))),
      sent(
          kAsk +
          R"(,{"role":"assistant","content":null,"tool_calls":[{"id":"old","function":{"name":"g","arguments":"{}"}}]},)" +
          result));
  EXPECT_EQ(echo.replaced(), 1U);
}

TEST(Echo, KeepsTheRecordedTurnWhereCallsDiffer) {
  Echo echo;
  echo.remember(chat(kAsk), json(R"({"role":"assistant","content":"no call"})"));
  const std::string called =
      kAsk + R"(,{"role":"assistant","tool_calls":[{"id":"old","function":{"name":"f","arguments":"{}"}}]},)"
             R"({"role":"tool","tool_call_id":"old","content":"r"})";
  EXPECT_EQ(to_line(echo.body_for(chat(called))), sent(called));
  EXPECT_EQ(echo.kept(), 1U);
  Echo silent;
  silent.remember(chat(kAsk), json(R"({"role":"assistant","content":""})"));
  const std::string answered = kAsk + "," + kTheirs;
  EXPECT_EQ(to_line(silent.body_for(chat(answered))), sent(answered)) << "an empty turn would be refused";
}

TEST(Echo, KnowsMessagesAndResponses) {
  Echo echo;
  echo.remember(
      request("/v1/messages", R"({"messages":[{"role":"user","content":"ask"}]})"),
      json(R"({"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"ours"},)"
           R"({"type":"tool_use","id":"new","name":"f","input":{}}]})"));
  EXPECT_EQ(
      to_line(echo.body_for(
          request("/v1/messages?beta=true",
                  R"({"messages":[{"role":"user","content":[{"type":"text","text":"ask","cache_control":{}}]},)"
                  R"({"role":"assistant","content":[{"type":"tool_use","id":"old","name":"f","input":{"a":1}}]}]})"))),
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"ask","cache_control":{}}]},)"
      R"({"role":"assistant","content":[{"type":"text","text":"ours"},{"type":"tool_use","id":"old","name":"f","input":{}}]}]})");

  echo.remember(request("/v1/responses", R"({"input":[{"role":"user","content":"ask"}]})"),
                json(R"([{"type":"reasoning","summary":[]},{"type":"message","role":"assistant","content":"ours"}])"));
  EXPECT_EQ(to_line(echo.body_for(request(
                "/v1/responses", R"({"input":[{"role":"user","content":"ask"},)"
                                 R"({"type":"reasoning","summary":[1]},{"role":"assistant","content":"theirs"},)"
                                 R"({"role":"user","content":"more"}]})"))),
            R"({"input":[{"role":"user","content":"ask"},{"type":"reasoning","summary":[]},)"
            R"({"type":"message","role":"assistant","content":"ours"},{"role":"user","content":"more"}]})");
}

TEST(Echo, LeavesTheRestAsItIs) {
  Echo echo;
  const RecordedRequest prompt = request("/v1/completions", R"({"prompt":"once"})");
  echo.remember(prompt, Json("upon"));
  EXPECT_EQ(to_line(echo.body_for(request("/v1/completions", R"({"prompt":"once and"})"))), R"({"prompt":"once and"})");
  EXPECT_EQ(to_line(echo.body_for(request("/v1/messages", R"({"messages":3})"))), R"({"messages":3})");
  EXPECT_EQ(to_line(echo.body_for(request("/v1/messages", "[]"))), "[]");
}

}  // namespace
}  // namespace kvkeep::bench
