// The command line of `kvkeep warm`, and which request of a recording it takes.

#include "warm.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

TEST(WarmFlags, OneFileAndTheServersAddress) {
  const WarmOptions options =
      parse_warm({"--client", "codex", "--url", "http://host:1/v1/", "--keep-s", "60", "a.jsonl"}, {}).value().options;
  EXPECT_EQ(options.file, "a.jsonl");
  EXPECT_EQ(options.server.url, "http://host:1");
  EXPECT_EQ(options.dialect, WarmDialect::kResponses);
  EXPECT_EQ(options.keep_s, 60U);
  EXPECT_FALSE(parse_warm({}, {}).ok());
  EXPECT_FALSE(parse_warm({"a", "b"}, {}).ok());
  EXPECT_FALSE(parse_warm({"--keep-s", "86401", "a"}, {}).ok());
}

std::string chosen(std::string_view text, WarmDialect wanted = WarmDialect::kAny) {
  const auto request = choose_warm_request("test", text, wanted);
  if (!request) return request.error().message;
  const char* const names[] = {"any", "chat", "messages", "responses"};
  return names[static_cast<std::size_t>(request->dialect)] + (" " + request->body);
}

TEST(WarmRequest, ABodyIsTakenAsItIs) {
  EXPECT_EQ(chosen(R"({"messages":[1]})"), R"(chat {"messages":[1]})");
  EXPECT_EQ(chosen(R"({"system":"s","messages":[1]})"), R"(messages {"system":"s","messages":[1]})");
  EXPECT_EQ(chosen(R"({"messages":[1],"tools":[{"input_schema":{}}]})"),
            R"(messages {"messages":[1],"tools":[{"input_schema":{}}]})");
  EXPECT_EQ(chosen(R"({"messages":[1],"tools":[{"function":{}}]})"),
            R"(chat {"messages":[1],"tools":[{"function":{}}]})");
  EXPECT_EQ(chosen(R"({"input":"i"})"), R"(responses {"input":"i"})");
  EXPECT_EQ(chosen(R"({"messages":[1]})", WarmDialect::kMessages), R"(messages {"messages":[1]})");
}

constexpr std::string_view kRecording = R"({"t":0,"method":"POST","path":"/v1/chat/completions","body":{"messages":[0]}}
{"t":1,"method":"GET","path":"/v1/models"}
{"t":2,"method":"POST","path":"/v1/messages","body":{"messages":[1]}}
{"t":3,"method":"POST","path":"/v1/messages?beta=true","body":{"messages":[2],"tools":[{}]}}
{"t":4,"method":"POST","path":"/v1/messages","body":{"messages":[3],"tools":[{}]}}
)";

TEST(WarmRequest, OfARecordingTheFirstOneWithTools) {
  EXPECT_EQ(chosen(kRecording), R"(messages {"messages":[2],"tools":[{}]})");
  EXPECT_EQ(chosen(kRecording, WarmDialect::kChat), R"(chat {"messages":[0]})") << "none of these has tools";
  EXPECT_EQ(chosen(kRecording, WarmDialect::kResponses), "the recording has no request of that kind");
  EXPECT_FALSE(choose_warm_request("test", "nonsense", WarmDialect::kAny).ok());
}

}  // namespace
}  // namespace kvkeep::cli
