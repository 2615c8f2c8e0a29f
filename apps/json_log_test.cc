#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve_log.h"

namespace kvkeep::cli {
namespace {

using Json = nlohmann::ordered_json;

Json fields_of(std::string_view message) {
  const Json line = Json::parse(json_log_line(0, "info", message));
  return line.contains("fields") ? line["fields"] : Json();
}

TEST(JsonLog, ALineIsOneObject) {
  EXPECT_EQ(json_log_line(1'700'000'000'007, "warning", "the disk is \"full\"\n"),
            R"({"time":"2023-11-14T22:13:20.007Z","level":"warning","message":"the disk is \"full\"\n"})");
  EXPECT_NE(json_log_line(0, "info", "a\xff").find("\xEF\xBF\xBD"), std::string::npos) << "not UTF-8";
}

TEST(JsonLog, NoMessageBeginsAnotherLine) {
  const std::string line = json_log_line(0, "info", "model=a\n{\"level\":\"error\"}\r\x1b[31m");
  EXPECT_EQ(line.find_first_of("\n\r\x1b"), std::string::npos);
  EXPECT_EQ(Json::parse(line)["level"], "info");
}

TEST(JsonLog, EscapesWhatSteersATerminal) {
  const std::string message = "a\u009b31m\x7f\u202eb";
  const std::string line = json_log_line(0, "info", message);
  EXPECT_NE(line.find(R"(a\u009b31m\u007f\u202eb)"), std::string::npos) << line;
  EXPECT_EQ(Json::parse(line)["message"], message);
}

TEST(JsonLog, NamedValuesOfAMessageAreFields) {
  EXPECT_EQ(fields_of("kv cache hit tokens=1000 source=memory load=0.120s reason=new-tokens: id=chatcmpl-1a"),
            Json::parse(R"({"tokens": 1000, "source": "memory", "load": 0.12, "reason": "new-tokens",
                            "id": "chatcmpl-1a"})"));
  EXPECT_EQ(fields_of("queue=0.015s used=1.5 save=-3 x=1,"),
            Json::parse(R"({"queue": 0.015, "used": 1.5, "save": -3, "x": 1})"));
  EXPECT_EQ(fields_of("a=1 a=2"), Json::parse(R"({"a": 1})"));
  for (const char* message : {"", "plain words", "=", "a=", "=b", "A=1", "a b = c", "http://x/?q=1"}) {
    EXPECT_EQ(fields_of(message), Json()) << message;
  }
}

TEST(JsonLog, WordsOfClientsAreNoFields) {
  EXPECT_EQ(fields_of(R"(http POST /v1/chat 400 {"error":{"message":"unknown field 'x end=error id=chatcmpl-1'"}})"),
            Json());
  EXPECT_EQ(fields_of("1.2.3.4 sends 'x' end=error' to /v1/chat client=\"a b=1\""), Json());
  EXPECT_EQ(fields_of("chat done end=error (no end=stop id=2) prompt=1 id=1"), Json::parse(R"({"end": "error"})"));
}

TEST(JsonLog, GivenFieldsTakeThePlaceOfWords) {
  const LogFields given{
      {"end", "stop"}, {"prompt", std::int64_t{7}}, {"lost_s", 0.25}, {"queue", 7.951599999999999e-05}};
  const std::string text = json_log_line(0, "info", "chat done end=error id=2", &given);
  const Json fields = Json::parse(R"({"end": "stop", "prompt": 7, "lost_s": 0.25, "queue": 0.00008})");
  EXPECT_EQ(Json::parse(text)["fields"], fields);
  EXPECT_TRUE(text.contains(R"("queue":8e-05)")) << "no more digits than clocks have: " << text;
}

}  // namespace
}  // namespace kvkeep::cli
