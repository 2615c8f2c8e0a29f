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

Diagnosis diagnose(const Session& session) { return Diagnoser().diagnose(session); }

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

TEST(Diagnosis, ComparesWithTheEarlierPromptThatHasMostInCommon) {
  const auto body = [](const std::string& date, int rest) {
    return Json{
        {"messages", {message("system", "Today is " + date + ".\n" + many_words(200, rest)), message("user", "go")}}};
  };
  const auto found = diagnosed({body("2026-05-01", 0), body("2026-06-02", 1000), body("2026-07-03", 0)});
  EXPECT_EQ(found[2].found.kind, BreakKind::kVolatileText);
  EXPECT_GE(found[2].found.lost_tokens, 200U) << "the newest one has another rest";
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

// Some tools are left out, and phrases are the same in several: none came in another order.
TEST(Diagnosis, ToolsThatAreLeftOutAreNotReordered) {
  std::vector<Json> tools;
  for (int i = 0; i < 8; ++i) {
    Json one = tool("t" + std::to_string(i), 100 * i);
    one["function"]["parameters"] = {{"note", many_words(40, i % 2 == 0 ? 5000 : 6000)}};
    tools.push_back(std::move(one));
  }
  const Json asked = message("user", "go");
  const std::vector<Json> fewer = {tools[0], tools[1], tools[3], tools[4], tools[7]};
  const auto found = diagnosed({{{"tools", tools}, {"messages", {asked}}}, {{"tools", fewer}, {"messages", {asked}}}});
  EXPECT_EQ(to_string(found[1].found.kind), to_string(BreakKind::kToolsChanged));
  EXPECT_EQ(place_name(found[1].found), "tool 3");
}

TEST(Diagnosis, NamesToolsThatArePutInOrLeftOut) {
  const std::vector<Json> tools = {tool("a", 0), tool("b", 100), tool("c", 200)};
  const auto body = [](const std::vector<Json>& sent) {
    Json made = {{"messages", {message("system", many_words(40, 900)), message("user", many_words(60, 500))}}};
    if (!sent.empty()) made["tools"] = sent;
    return made;
  };
  const std::vector<Json> fewer = {tools[0], tools[1]};
  struct Case {
    std::vector<Json> first;
    std::vector<Json> second;
    const char* place;
  };
  for (const Case& one : {Case{tools, {}, "tool 1"}, Case{tools, fewer, "tool 3"}, Case{{}, tools, "tool 1"},
                          Case{fewer, tools, "tool 3"}}) {
    Session session = session_of({body(one.first), body(one.second)});
    for (RecordedRequest& request : session.requests) request.headers = {{"x-session-id", "s"}};
    const auto found = diagnose(session).requests[1].found;
    EXPECT_EQ(to_string(found.kind), "tools-changed") << one.first.size() << " then " << one.second.size();
    EXPECT_EQ(place_name(found), one.place);
  }
}

TEST(Diagnosis, ConversationsTellEditsFromNews) {
  const auto kind_in = [](const char* first, const char* second) {
    const auto body = [](int task) {
      return Json{{"messages",
                   {message("system", many_words(50, 0)), message("user", many_words(30, task)),
                    message("assistant", many_words(80, 200)), message("user", "and?")}}};
    };
    Session session = session_of({body(1000), body(2000)});
    if (*first != 0) session.requests[0].headers = {{"X-Session-Id", first}};
    if (*second != 0) session.requests[1].headers = {{"x-session-id", second}};
    return diagnose(session).requests[1].found.kind;
  };
  EXPECT_EQ(kind_in("", ""), BreakKind::kNewContent);
  EXPECT_EQ(kind_in("a", "b"), BreakKind::kNewContent);
  EXPECT_EQ(kind_in("a", "a"), BreakKind::kMessageChanged);
}

// As in a prompt, where a template writes the blocks of a message one after the other.
TEST(Diagnosis, TakesTheBlocksOfAMessageAsOneText) {
  const auto body = [](const char* state, const char* task) {
    const auto block = [](std::string text) { return Json{{"type", "text"}, {"text", std::move(text)}}; };
    const Json blocks = {block(many_words(100, 0)), block(std::string("State: ") + state), block(many_words(60, 500)),
                         block(task)};
    return Json{{"messages", {{{"role", "user"}, {"content", blocks}}}}};
  };
  const auto found = diagnosed({body("calm", "go"), body("loud", "go"), body("dark", "go"), body("calm", "stay")});
  EXPECT_EQ(to_string(found[1].found.kind), "message-changed") << "an edit, as far as is known";
  EXPECT_EQ(to_string(found[2].found.kind), "volatile-text");
  EXPECT_GT(found[2].found.lost_tokens, 60U);
  EXPECT_EQ(to_string(found[3].found.kind), "new-content") << "another task";
}

// As a template gets them: one message for each result, and one for the text after them.
TEST(Diagnosis, CountsTheResultsOfCallsAsMessages) {
  const auto body = [](const char* first, const char* second, const std::string& last) {
    const auto result = [](const char* id, const std::string& text) {
      return Json{{"type", "tool_result"}, {"tool_use_id", id}, {"content", text}};
    };
    const Json results = {result("1", first), result("2", second), {{"type", "text"}, {"text", last}}};
    return Json{{"system", many_words(40, 0)},
                {"messages",
                 {message("user", "go"),
                  message("assistant", "well"),
                  {{"role", "user"}, {"content", results}},
                  message("assistant", many_words(80, 100))}}};
  };
  Session session = session_of({body("one", "two", "so?"), body("uno", "two", "so?"), body("one", "due", "so?"),
                                body("one", "two", "then?"), body("one", "two", "so?")});
  session.requests[4].body["messages"][3] = message("assistant", many_words(80, 500));
  for (RecordedRequest& request : session.requests) request.path = "/v1/messages";
  const auto found = diagnose(session).requests;
  EXPECT_EQ(place_name(found[1].found), "message 4 (tool result)");
  EXPECT_EQ(place_name(found[2].found), "message 5 (tool result)");
  EXPECT_EQ(place_name(found[3].found), "message 6 (user)");
  EXPECT_EQ(place_name(found[4].found), "message 7 (assistant)");
}

// As a server reads them: the arguments of a call and the schema of a tool as they came.
TEST(Diagnosis, SeesHowCallsAndToolsWereWritten) {
  const auto body = [](const Json& arguments, const Json& schema) {
    const Json call = {{"id", "1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
    return Json{{"tools", {{{"name", "f"}, {"description", many_words(60, 0)}, {"parameters", schema}}}},
                {"messages",
                 {message("user", "go"),
                  {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}},
                  {{"role", "tool"}, {"tool_call_id", "1"}, {"content", many_words(60, 100)}}}}};
  };
  const Json schema = {{"a", 1}, {"b", 2}};
  const Json other = {{"b", 2}, {"a", 1}};
  const auto kind = [&](const Json& arguments, const Json& sent) {
    const auto found = diagnosed({body(R"({"path":"x","line":"two"})", schema), body(arguments, sent)});
    return std::string(to_string(found[1].found.kind)) + " in " + place_name(found[1].found);
  };
  EXPECT_EQ(kind(R"({"line":"two","path":"x"})", schema), "call-reserialised in calls of message 2");
  EXPECT_EQ(kind(R"({"path": "x", "line": "two"})", schema), "call-reserialised in calls of message 2");
  EXPECT_EQ(kind(R"({"path":"x","line":"two"})", other), "tools-changed in tool 1");
}

TEST(Diagnosis, KnowsHowTheServerTreatsTheBillingLine) {
  const auto body = [](const char* version) {
    const std::string line = std::string("x-anthropic-billing-header: cc_version=1.2.") + version + ";";
    return Json{{"system", {{{"type", "text"}, {"text", line}}, {{"type", "text"}, {"text", many_words(150, 0)}}}},
                {"messages", {message("user", "go")}}};
  };
  Session session = session_of({body("abc"), body("def")});
  for (RecordedRequest& request : session.requests) request.path = "/v1/messages";
  EXPECT_EQ(Diagnoser().diagnose(session).requests[1].found.kind, BreakKind::kNone) << "the server leaves it out";
  const auto found = Diagnoser(/*keeps_billing_line=*/true).diagnose(session).requests[1].found;
  EXPECT_EQ(to_string(found.kind), "volatile-text");
  EXPECT_EQ(found.what, explain::VolatileText::kBillingLine);
}

TEST(Diagnosis, LeavesOutWhatHasNoPrompt) {
  Session session = session_of({Json(nullptr)});
  session.requests[0].path = "/v1/models";
  session.requests[0].method = "GET";
  EXPECT_TRUE(diagnose(session).requests.empty());
}

// As on one server: a second recording begins like the first one, up to its own task.
TEST(Diagnosis, RemembersEarlierRecordings) {
  const auto body = [](const char* task) {
    return Json{{"messages", {message("system", many_words(200, 0)), message("user", task)}}};
  };
  Diagnoser diagnoser;
  const Diagnosis first = diagnoser.diagnose(session_of({body("go")}));
  const Diagnosis second = diagnoser.diagnose(session_of({body("stay")}));
  EXPECT_EQ(first.requests[0].known, 0U);
  EXPECT_EQ(first.misses.misses(), 1U);
  EXPECT_GT(second.requests[0].known, 200U);
  EXPECT_EQ(second.misses.requests(), 1U);
  EXPECT_EQ(second.misses.misses(), 0U);
}

TEST(Diagnosis, CountsMissesByKind) {
  std::vector<Json> bodies;
  for (int day = 1; day <= 4; ++day) {
    const std::string date = "Today is 2026-05-0" + std::to_string(day) + ".\n";
    bodies.push_back({{"messages", {message("system", date + many_words(200, 0)), message("user", "go")}}});
  }
  bodies.push_back(bodies.back());
  bodies.back()["messages"].push_back(message("assistant", "yes"));
  bodies.back()["messages"].push_back(message("user", many_words(150, 900)));
  const Diagnosis found = diagnose(session_of(std::move(bodies)));
  const auto kinds = found.misses.by_kind();
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds[0].kind + kinds[0].what, "volatile-textdate");
  EXPECT_EQ(kinds[0].requests, 3U);
  EXPECT_GT(kinds[0].lost_tokens, 3 * 200U);
  EXPECT_EQ(kinds[1].kind, "nothing-known");
  EXPECT_EQ(kinds[1].tokens, found.requests[0].words);
  EXPECT_EQ(kinds[2].kind, "new-content");
  EXPECT_EQ(kinds[2].tokens, found.requests[4].words - found.requests[4].known);
  EXPECT_EQ(found.misses.requests(), 5U);
}

TEST(Diagnosis, ReadsTraces) {
  EXPECT_FALSE(read_trace("{\"t\":1,\"body\":{}}\n")) << "a recording";
  EXPECT_FALSE(read_trace("{\"trace\":1}\n")) << "a trace of an earlier version";
  EXPECT_FALSE(read_trace("no JSON"));
  const std::string line =
      R"({"trace":1,"client":"m","prefilled_tokens":700,"cache_break":{"kind":"volatile-text","what":"date",)"
      R"("place":"system","lost_tokens":640,"lost_ms":12.5}})";
  const std::string reused = R"({"trace":1,"client":"m","prefilled_tokens":1,"cache_break":null})";
  const std::string ahead = R"({"trace":1,"route":"ahead","prefilled_tokens":900,"cache_break":null})";
  const auto found = read_trace(line + "\n" + reused + "\nbroken\n" + ahead + "\n" + line);
  ASSERT_TRUE(found);
  const auto worst = found->offenders.worst();
  ASSERT_EQ(worst.size(), 1U);
  EXPECT_EQ(worst[0].times, 2U);
  EXPECT_EQ(worst[0].lost_tokens, 1'280U);
  EXPECT_DOUBLE_EQ(worst[0].lost_ms, 25);
  EXPECT_EQ(found->offenders.requests_of("m"), 3U);
  EXPECT_EQ(found->misses.requests(), 3U);
  const std::vector<explain::Misses::Kind> kinds = {{"volatile-text", "date", 2, 1'400, 1'280}};
  EXPECT_EQ(found->misses.by_kind(), kinds);
}

}  // namespace
}  // namespace kvkeep::bench
