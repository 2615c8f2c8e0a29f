#include "bench/sessions/diagnosis.h"

#include <gtest/gtest.h>

#include <string>

#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

using explain::BreakKind;

std::string many_words(int count, int from) {
  std::string text;
  for (int i = 0; i < count; ++i) text += " word" + std::to_string(from + i);
  return text;
}

Json message(const char* role, std::string content) { return {{"role", role}, {"content", std::move(content)}}; }

Json tool(const std::string& name, int from) {
  return {{"type", "function"},
          {"function", {{"name", name}, {"description", many_words(60, from)}, {"parameters", Json::object()}}}};
}

Session session_of(std::vector<Json> bodies) {
  Session session{.name = "test", .client = "agent", .requests = {}};
  for (Json& body : bodies) {
    RecordedRequest request;
    request.label = "turn " + std::to_string(session.requests.size() + 1);
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.body = std::move(body);
    session.requests.push_back(std::move(request));
  }
  return session;
}

std::vector<DiagnosedRequest> diagnosed(std::vector<Json> bodies) {
  return diagnose(session_of(std::move(bodies))).requests;
}

TEST(Diagnosis, AConversationThatGrowsLosesNothing) {
  const Json first = message("user", many_words(100, 0));
  const Json answer = message("assistant", "yes");
  const auto found = diagnosed({{{"messages", {first}}}, {{"messages", {first, answer, message("user", "and?")}}}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].found.kind, BreakKind::kNothingKnown);
  EXPECT_EQ(found[1].known, found[0].words);
  EXPECT_EQ(found[1].found.kind, BreakKind::kNewContent);
  EXPECT_EQ(found[1].found.lost_tokens, 0U);
}

TEST(Diagnosis, NamesADateAndAddsItUp) {
  std::vector<Json> bodies;
  for (int day = 1; day <= 5; ++day) {
    const std::string date = "Today is 2026-05-0" + std::to_string(day) + ".\n";
    bodies.push_back({{"messages", {message("system", date + many_words(100, 0)), message("user", "go")}}});
  }
  const Diagnosis found = diagnose(session_of(std::move(bodies)));
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(found.requests[i].found.kind, BreakKind::kVolatileText);
    EXPECT_EQ(found.requests[i].found.what, explain::VolatileText::kDate);
    EXPECT_EQ(place_name(found.requests[i].found), "system");
  }
  ASSERT_EQ(found.offenders.worst().size(), 1U);
  EXPECT_EQ(found.offenders.worst()[0].times, 4U);
  EXPECT_EQ(found.offenders.requests_of("agent"), 5U);
}

TEST(Diagnosis, NamesToolsAndThoughts) {
  const std::vector<Json> tools = {tool("a", 0), tool("b", 100), tool("c", 200)};
  const Json asked = message("user", "go");
  const auto reordered = diagnosed(
      {{{"tools", tools}, {"messages", {asked}}}, {{"tools", {tools[2], tools[1], tools[0]}}, {"messages", {asked}}}});
  EXPECT_EQ(reordered[1].found.kind, BreakKind::kToolsReordered);
  const auto changed = diagnosed({{{"tools", tools}, {"messages", {asked}}},
                                  {{"tools", {tools[0], tool("b", 300), tools[2]}}, {"messages", {asked}}}});
  EXPECT_EQ(changed[1].found.kind, BreakKind::kToolsChanged);
  EXPECT_EQ(place_name(changed[1].found), "tool 2");
  Json thought = message("assistant", many_words(60, 0));
  const Json plain = thought;
  thought["reasoning_content"] = "hm";
  const auto dropped = diagnosed({{{"messages", {asked, thought, message("user", "and?")}}},
                                  {{"messages", {asked, plain, message("user", "and?")}}}});
  EXPECT_EQ(dropped[1].found.kind, BreakKind::kThinkingDropped);
}

TEST(Diagnosis, LeavesOutWhatHasNoPrompt) {
  Session session = session_of({Json(nullptr)});
  session.requests[0].path = "/v1/models";
  session.requests[0].method = "GET";
  EXPECT_TRUE(diagnose(session).requests.empty());
}

TEST(Diagnosis, ReadsTraces) {
  explain::Offenders offenders;
  EXPECT_FALSE(add_trace("{\"t\":1,\"body\":{}}\n", offenders)) << "a recording";
  EXPECT_FALSE(add_trace("{\"trace\":1}\n", offenders)) << "a trace of an earlier version";
  EXPECT_FALSE(add_trace("no JSON", offenders));
  const std::string line =
      R"({"trace":1,"client":"m","cache_break":{"kind":"volatile-text","what":"date","place":"system",)"
      R"("lost_tokens":640,"lost_ms":12.5}})";
  EXPECT_TRUE(
      add_trace(line + "\n" + R"({"trace":1,"client":"m","cache_break":null})" + "\nbroken\n" + line, offenders));
  ASSERT_EQ(offenders.worst().size(), 1U);
  EXPECT_EQ(offenders.worst()[0].times, 2U);
  EXPECT_EQ(offenders.worst()[0].lost_tokens, 1'280U);
  EXPECT_DOUBLE_EQ(offenders.worst()[0].lost_ms, 25);
  EXPECT_EQ(offenders.requests_of("m"), 3U);
}

}  // namespace
}  // namespace kvkeep::bench
