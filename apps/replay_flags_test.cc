#include "replay_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command_line.h"

namespace kvkeep::cli {
namespace {

using testing::HasSubstr;

std::string refusal_of(const std::vector<std::string>& arguments) {
  const Result<ParsedReplay> parsed = parse_replay(arguments, {});
  return parsed ? "accepted" : parsed.error().message;
}

TEST(ReplayFlags, ReachTheirOptions) {
  const ReplayCommandOptions options =
      parse_replay({"--server", "llama-server -m x", "--fast", "--echo",         "generated", "--model",
                    "m",        "--api-key",         "k",      "--reply-tokens", "9",         "--in-flight",
                    "3",        "--timeout",         "5",      "--json",         "a",         "--html",
                    "b",        "one.jsonl",         "-"},
                   {})
          .value()
          .options;
  EXPECT_EQ(options.server_command, "llama-server -m x");
  EXPECT_TRUE(options.fast);
  EXPECT_TRUE(options.echo_generated);
  EXPECT_EQ(options.model, "m");
  EXPECT_EQ(options.api_key, "k");
  EXPECT_EQ(options.reply_tokens, 9U);
  EXPECT_EQ(options.in_flight_max, 3U);
  EXPECT_EQ(options.timeout_s, 5U);
  EXPECT_EQ(options.reports.json + options.reports.html, "ab");
  EXPECT_EQ(options.files, (std::vector<std::string>{"one.jsonl", "-"}));
}

TEST(ReplayFlags, TheBaseUrlThatClientsAreToldIsTheServersToo) {
  for (const char* url : {"http://x:1", "http://x:1/", "http://x:1/v1", "http://x:1/v1/"}) {
    EXPECT_EQ(parse_replay({"--url", url, "f"}, {}).value().options.url, "http://x:1") << url;
  }
}

TEST(ReplayFlags, HaveDefaultsThatPlayAsRecorded) {
  const ReplayCommandOptions options = parse_replay({"--url", "http://x", "f"}, {}).value().options;
  EXPECT_FALSE(options.fast || options.echo_generated || options.reply_tokens);
  EXPECT_EQ(options.model, "");
  EXPECT_EQ(options.in_flight_max, 32U);
}

TEST(ReplayFlags, NeedAServerAndARecording) {
  EXPECT_THAT(refusal_of({"f"}), HasSubstr("--url http://127.0.0.1:8080, or --server"));
  EXPECT_THAT(refusal_of({"--url", "a", "--server", "b", "f"}), HasSubstr("name one server"));
  EXPECT_THAT(refusal_of({"--url", "a"}), HasSubstr("no recording to play"));
  EXPECT_THAT(refusal_of({"--url", "a", "--ecko", "recorded", "f"}), HasSubstr("did you mean '--echo'"));
  EXPECT_THAT(refusal_of({"--url", "a", "--reply-tokens", "0", "f"}), HasSubstr("'0' is not a whole number from 1"));
}

TEST(ReplayFlags, HelpFillsItsLines) {
  const std::string help = replay_help();
  const std::string description = help.substr(0, help.find("\n\n"));
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = description.find('\n', begin);
    const std::string line = description.substr(begin, end - begin);
    EXPECT_LE(line.size(), 100U);
    if (end != std::string::npos) {
      EXPECT_GT(line.size(), 80U) << line;
    }
  }
  EXPECT_GT(description.size(), 200U);
}

TEST(ReplayFlags, BelongToACommandOfTheProgram) {
  const auto command = parse_command_line({"replay", "--url", "http://x", "f"}, {});
  ASSERT_TRUE(command && std::holds_alternative<ReplayCommandOptions>(*command));
  const auto help = parse_command_line({"replay", "--help"}, {});
  ASSERT_TRUE(help && std::holds_alternative<PrintText>(*help));
  EXPECT_THAT(std::get<PrintText>(*help).text, HasSubstr("--echo WHAT"));
  EXPECT_THAT(parse_command_line({"reply"}, {}).error().message, HasSubstr("did you mean 'replay'"));
}

}  // namespace
}  // namespace kvkeep::cli
