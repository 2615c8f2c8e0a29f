#include "bench/sessions/session.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

using testing::HasSubstr;

Session session_of(std::string_view text) {
  Result<Session> session = parse_session("dir/notes.jsonl", text);
  EXPECT_TRUE(session) << session.error().message;
  return session ? std::move(session).value() : Session{};
}

std::string refusal_of(std::string_view text) {
  const Result<Session> session = parse_session("notes.jsonl", text);
  return session ? "accepted" : session.error().message;
}

// A line of a recording with the mandatory fields.
std::string line(double t, const std::string& more = "") {
  return fmt::format(R"({{"t":{},"method":"POST","path":"/v1/chat/completions","body":{{"model":"m"}}{}}})", t, more) +
         "\n";
}

TEST(Session, ReadsEveryFieldOfALine) {
  const Session session = session_of(
      R"({"t":4.5,"client":"gardener","session":"07-beans","turn":3,"seq":9,"kind":"main","inflight":2,)"
      R"("reply_status":200,"method":"POST","path":"/v1/messages?beta=true","headers":{"Content-Type":"application/json",)"
      R"("Authorization":"Bearer secret","x-api-key":"secret","anthropic-version":"2023-06-01","Host":"a:1",)"
      R"("X-Claude-Code-Session-Id":"s1"},"body":{"b":1,"a":2},"reply":{"role":"assistant","content":"beans"}})");
  EXPECT_EQ(session.name, "gardener 07-beans");
  EXPECT_EQ(session.client, "gardener");
  ASSERT_EQ(session.requests.size(), 1U);
  const RecordedRequest& request = session.requests.front();
  EXPECT_EQ(request.sent_s, 0) << "times begin with the first request";
  EXPECT_EQ(request.label, "main turn 3");
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/messages?beta=true");
  EXPECT_EQ(to_line(request.body), R"({"b":1,"a":2})") << "the order of keys is kept";
  EXPECT_EQ(request.recorded_status, 200);
  EXPECT_EQ(request.in_flight, 2U);
  ASSERT_TRUE(request.recorded_reply);
  EXPECT_EQ(text_field(*request.recorded_reply, "content"), "beans");
  const std::vector<std::pair<std::string, std::string>> kept = {
      {"content-type", "application/json"}, {"anthropic-version", "2023-06-01"}, {"x-claude-code-session-id", "s1"}};
  EXPECT_EQ(request.headers, kept) << "keys and what belongs to a connection stay behind";
}

TEST(Session, NeedsLittle) {
  const Session session = session_of(R"({"t":1,"path":"/v1/completions"})"
                                     "\n\n"
                                     R"({"t":2.5,"method":"GET","path":"http://host:80/v1/models"})"
                                     "\r\n");
  EXPECT_EQ(session.name, "notes.jsonl");
  ASSERT_EQ(session.requests.size(), 2U);
  EXPECT_EQ(session.requests[0].method, "POST");
  EXPECT_EQ(session.requests[0].label, "request 1");
  EXPECT_TRUE(session.requests[0].body.is_null());
  EXPECT_EQ(session.requests[1].label, "GET /v1/models");
  EXPECT_EQ(session.requests[1].sent_s, 1.5);
}

TEST(Session, OrdersByTime) {
  const Session session = session_of(line(3, R"(,"kind":"late")") + line(1, R"(,"kind":"early")"));
  EXPECT_EQ(session.requests[0].label, "early");
  EXPECT_EQ(session.requests[1].sent_s, 2);
}

TEST(Session, PlaysJoinedRecordingsInTurn) {
  const std::string first = R"(,"session":"one")", second = R"(,"session":"two")";
  const Session session = session_of(line(10, first) + line(14, first) + line(2, second) + line(5, second));
  std::vector<double> times;
  for (const RecordedRequest& request : session.requests) times.push_back(request.sent_s);
  EXPECT_THAT(times, testing::ElementsAre(0, 4, 4, 7));
  EXPECT_EQ(session.name, "one");
}

TEST(Session, LeavesTimesAloneWhereSessionsInterleave) {
  const std::string first = R"(,"session":"one")", second = R"(,"session":"two")";
  const Session session = session_of(line(1, first) + line(2, second) + line(3, first) + line(4, second));
  EXPECT_EQ(session.requests.back().sent_s, 3);
}

TEST(Session, TakesABodyThatIsText) {
  const Session session = session_of(R"({"t":0,"path":"/v1/completions","body":"{\"prompt\":\"x\"}"})"
                                     "\n"
                                     R"({"t":0,"path":"/log","body":"a=b"})");
  EXPECT_EQ(text_field(session.requests[0].body, "prompt"), "x");
  EXPECT_EQ(session.requests[1].body, "a=b");
}

TEST(Session, TakesTheMessageOutOfAWholeReply) {
  const std::string body = R"(,"reply":{"choices":[{"message":{"content":"peas"},"finish_reason":"stop"}]})";
  const std::string stream =
      R"(,"reply":"data: {\"choices\":[{\"delta\":{\"content\":\"corn\"}}]}\n\ndata: [DONE]\n\n")";
  const Session session = session_of(line(0, body) + line(1, stream));
  EXPECT_EQ(text_field(session.requests[0].recorded_reply.value(), "content"), "peas");
  EXPECT_EQ(text_field(session.requests[1].recorded_reply.value(), "content"), "corn");
}

TEST(Session, TakesTheBodyOfARequestAlone) {
  const auto path_of = [](std::string_view body) { return session_of(body).requests.at(0).path; };
  EXPECT_EQ(path_of("{\n  \"model\": \"m\",\n  \"messages\": []\n}\n"), "/v1/chat/completions") << "over many lines";
  EXPECT_EQ(path_of(R"({"messages":[],"system":"x"})"), "/v1/messages");
  EXPECT_EQ(path_of(R"({"messages":[],"tools":[{"name":"a","input_schema":{}}]})"), "/v1/messages");
  EXPECT_EQ(path_of(R"({"messages":[],"tools":[{"type":"function"},7]})"), "/v1/chat/completions");
  EXPECT_EQ(path_of(R"({"input":"x"})"), "/v1/responses");
  EXPECT_EQ(path_of(R"({"prompt":"x"})"), "/v1/completions");
  const Session several = session_of("{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n");
  ASSERT_EQ(several.requests.size(), 2U);
  EXPECT_EQ(to_line(several.requests[1].body), R"({"prompt":"b"})");
  EXPECT_GT(several.requests[1].sent_s, several.requests[0].sent_s);
  EXPECT_EQ(several.requests[0].method, "POST");
  EXPECT_THAT(refusal_of(R"({"model":"m"})"), HasSubstr("nor the body of a request"));
}

TEST(Session, LeavesOutLinesOfATraceThatAreNoRequests) {
  const std::string ahead = R"({"trace":1,"t":1,"route":"ahead","path":null})"
                            "\n";
  const std::string audit = R"({"trace":1,"t":2,"route":"audit","outcome":"agreed"})"
                            "\n";
  EXPECT_EQ(session_of(ahead + line(3) + audit).requests.size(), 1U);
  EXPECT_EQ(refusal_of(ahead + audit), "notes.jsonl:1: no request in it");
  for (const std::string route : {"warm", "restore"}) {
    const std::string filled = R"({"trace":1,"t":2,"route":")" + route + R"(","method":null,"path":null})" + "\n";
    EXPECT_EQ(session_of(line(1) + filled + line(3)).requests.size(), 2U) << route;
  }
}

TEST(Session, ATraceOfSeveralClientsKeepsItsTimes) {
  const Session trace =
      session_of(line(5, R"(,"trace":1,"client":"gardener")") + line(3, R"(,"trace":1,"client":"cook")"));
  ASSERT_EQ(trace.requests.size(), 2U);
  EXPECT_EQ(trace.requests[1].sent_s - trace.requests[0].sent_s, 2) << "the one that came later ended first";
}

TEST(Session, SaysWhichLineIsWrongAndWhy) {
  EXPECT_THAT(refusal_of(line(1) + "{broken"), HasSubstr("notes.jsonl:2: not JSON"));
  EXPECT_EQ(refusal_of("[1]"), "notes.jsonl:1: not a JSON object");
  EXPECT_THAT(refusal_of(R"({"path":"/v1/messages"})"), HasSubstr("notes.jsonl:1: no \"t\", the time in seconds"));
  EXPECT_EQ(refusal_of("\n"
                       R"({"t":1,"path":"v1"})"),
            "notes.jsonl:2: no \"path\" that begins with '/'");
  EXPECT_EQ(refusal_of(line(1, R"(,"headers":[])")), "notes.jsonl:1: \"headers\" is not an object");
  EXPECT_THAT(refusal_of(R"({"trace":1,"t":1,"path":"/v1/completions"})"), HasSubstr("--trace-prompts"));
  EXPECT_EQ(refusal_of(" \n"), "notes.jsonl:1: no request in it");
  EXPECT_EQ(refusal_of(""), "notes.jsonl:1: no request in it");
  EXPECT_THAT(refusal_of(line(1, R"(,"x":)" + std::string(400, '[') + std::string(400, ']'))),
              HasSubstr("notes.jsonl:1: JSON nested too deeply"));
}

TEST(Session, NamesTheCommandThatUnpacks) {
  EXPECT_EQ(refusal_of(std::string_view("\xFD"
                                        "7zXZ\0\0\x04",
                                        8)),
            "notes.jsonl: packed with xz; unpack it first: xz -dc notes.jsonl | kvkeep replay -");
  EXPECT_THAT(refusal_of("\x1F\x8B\x08"), HasSubstr("gzip -dc notes.jsonl | kvkeep replay -"));
  EXPECT_THAT(refusal_of("\x28\xB5\x2F\xFD"), HasSubstr("zstd -dc notes.jsonl | kvkeep replay -"));
}

// An archive with one entry per given text.
std::string archive(const std::vector<std::string>& entries) {
  std::string list;
  for (const std::string& entry : entries) list += (list.empty() ? "" : ",\n") + entry;
  return "{\n  \"log\": {\"version\": \"1.2\", \"entries\": [\n" + list + "]}}";
}

std::string entry(const std::string& started, const std::string& url, double time_ms,
                  const std::string& content = "{}") {
  return fmt::format(
      R"({{"startedDateTime":"{}","time":{},"request":{{"method":"POST","url":"{}","headers":[{{"name":"Authorization",)"
      R"("value":"secret"}},{{"name":"OpenAI-Beta","value":"b"}}],"postData":{{"text":"{{\"model\":\"m\"}}"}}}},)"
      R"("response":{{"status":200,"content":{}}}}})",
      started, time_ms, url, content);
}

const std::string kChatUrl = "https://one.example/api/v1/chat/completions?x=1";

TEST(Session, ReadsAnArchive) {
  const Session session = session_of(archive({
      entry("2026-03-01T10:00:00.500+01:00", kChatUrl, 2000,
            R"({"text":"{\"choices\":[{\"message\":{\"content\":\"rye\"}}]}"})"),
      entry(
          "2026-03-01T09:00:01Z", kChatUrl, 3000,
          R"({"encoding":"base64","text":"ZGF0YTogeyJjaG9pY2VzIjpbeyJkZWx0YSI6eyJjb250ZW50Ijoib2F0In0sImZpbmlzaF9yZWFzb24iOiJzdG9wIn1dfQoK"})"),
      entry("2026-03-01T09:00:03.25Z", kChatUrl, 10),
      entry("2026-03-01T09:00:02Z", "https://other.example/picture.png", 10),
  }));
  EXPECT_EQ(session.name, "notes.jsonl");
  ASSERT_EQ(session.requests.size(), 3U) << "only hosts that were asked for a chat reply";
  EXPECT_EQ(session.requests[0].path, "/api/v1/chat/completions?x=1");
  EXPECT_EQ(session.requests[0].headers.size(), 1U);
  EXPECT_EQ(text_field(session.requests[0].recorded_reply.value(), "content"), "rye");
  EXPECT_EQ(text_field(session.requests[1].recorded_reply.value(), "content"), "oat");
  EXPECT_DOUBLE_EQ(session.requests[1].sent_s, 0.5);
  EXPECT_DOUBLE_EQ(session.requests[2].sent_s, 2.75);
  EXPECT_EQ(session.requests[0].in_flight, 1U);
  EXPECT_EQ(session.requests[1].in_flight, 2U);
  EXPECT_EQ(session.requests[2].in_flight, 2U) << "the first ended before it, the second did not";
}

TEST(Session, ReadsTimesOfAnArchive) {
  const auto gap_s = [](const std::string& from, const std::string& to) {
    return session_of(archive({entry(from, kChatUrl, 0), entry(to, kChatUrl, 0)})).requests[1].sent_s;
  };
  EXPECT_DOUBLE_EQ(gap_s("2024-02-28T23:59:59Z", "2024-03-01T00:00:00Z"), 86401) << "a leap day";
  EXPECT_DOUBLE_EQ(gap_s("2026-01-01T01:30:00-0130", "2026-01-01T03:00:01Z"), 1);
}

TEST(Session, SaysWhatIsWrongWithAnArchive) {
  EXPECT_THAT(refusal_of("{\"log\": {\n\"entries\": [\n}"), HasSubstr("notes.jsonl:3: not JSON"));
  EXPECT_EQ(refusal_of(R"({"log": {}})"), "notes.jsonl:1: an archive without log.entries");
  EXPECT_EQ(refusal_of(archive({R"({"request":{"method":"GET","url":"x"}})"})),
            "notes.jsonl: entry 1: a request without method or URL");
  EXPECT_EQ(refusal_of(archive({entry("2026-02-30T00:00:00Z", kChatUrl, 0)})),
            "notes.jsonl: entry 1: no \"startedDateTime\" in ISO 8601");
  EXPECT_EQ(refusal_of(archive({entry("2026-02-20T00:00:00Z", "https://one.example/", 0)})),
            "notes.jsonl:1: an archive without a request for a chat reply");
}

using Places = std::vector<std::size_t>;

// A request whose conversation is one user message per letter.
RecordedRequest asked(const std::string& letters, std::uint32_t in_flight) {
  RecordedRequest out;
  out.method = "POST";
  out.path = "/v1/chat/completions";
  out.in_flight = in_flight;
  out.body["messages"] = nlohmann::ordered_json::array();
  for (const char letter : letters)
    out.body["messages"].push_back({{"role", "user"}, {"content", std::string(1, letter)}});
  return out;
}

std::vector<Places> ended(std::vector<RecordedRequest> requests) {
  return ended_before({.name = "", .client = "", .requests = std::move(requests)});
}

TEST(Overlap, RequestsInTurnDoNotOverlap) {
  EXPECT_EQ(ended({asked("a", 1), asked("b", 1), asked("c", 1)}), (std::vector<Places>{{}, {0}, {1}}));
}

TEST(Overlap, LastsUntilFewerAreUnderWay) {
  EXPECT_EQ(ended({asked("a", 1), asked("b", 2), asked("c", 3), asked("d", 2), asked("e", 1)}),
            (std::vector<Places>{{}, {}, {}, {0, 1}, {2, 3}}));
}

TEST(Overlap, EndsForAConversationThatGoesOn) {
  // b's second turn is sent while c, which began later than b, is under way.
  EXPECT_EQ(ended({asked("c", 1), asked("b", 2), asked("bb", 2)}), (std::vector<Places>{{}, {}, {1}}));
  // Even if more are reported to be under way than can be.
  EXPECT_EQ(ended({asked("b", 1), asked("bb", 9)}), (std::vector<Places>{{}, {0}}));
  EXPECT_EQ(ended({asked("b", 1), asked("b", 2)}), (std::vector<Places>{{}, {}})) << "the same twice at once";
}

TEST(Overlap, OtherRequestsCountLikeAny) {
  RecordedRequest probe;
  probe.method = "GET";
  probe.path = "/v1/models";
  EXPECT_EQ(ended({probe, probe, asked("a", 1)}), (std::vector<Places>{{}, {0}, {1}}));
}

}  // namespace

}  // namespace kvkeep::bench
