#include "bench_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command_line.h"

namespace kvkeep::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& arguments) {
  const auto parsed = parse_bench(arguments, {});
  return parsed ? "" : parsed.error().message;
}

TEST(BenchFlags, DefaultsAreEverythingWithASmallModel) {
  const BenchCommandOptions options = parse_bench({}, {}).value().options;
  EXPECT_TRUE(options.workloads.empty());
  EXPECT_TRUE(options.model.empty());
  EXPECT_EQ(options.model_size(), gguf::ModelSize::kSmall);
  EXPECT_FALSE(options.quick || options.variants || options.parts || options.list);
}

TEST(BenchFlags, QuickIsTinyUnlessASizeIsNamed) {
  EXPECT_EQ(parse_bench({"--quick"}, {}).value().options.model_size(), gguf::ModelSize::kTiny);
  EXPECT_EQ(parse_bench({"--quick", "--size", "real"}, {}).value().options.model_size(), gguf::ModelSize::kReal);
}

TEST(BenchFlags, FlagsAndWorkloadsMix) {
  const BenchCommandOptions options =
      parse_bench({"a", "--peer", "llama-server --path 'a b'", "b.txt", "--flag=--no-cache-prompt", "--flag", "-np",
                   "--flag=2", "--json", "j", "--check", "c", "--keep", "k", "-m", "m.gguf", "--variants", "--parts"},
                  {})
          .value()
          .options;
  EXPECT_THAT(options.workloads, ElementsAre("a", "b.txt"));
  EXPECT_THAT(options.peer_command, ElementsAre("llama-server", "--path", "a b"));
  EXPECT_THAT(options.kvkeep_flags, ElementsAre("--no-cache-prompt", "-np", "2"));
  EXPECT_EQ(options.reports.json, "j");
  EXPECT_EQ(options.check, "c");
  EXPECT_EQ(options.keep, "k");
  EXPECT_EQ(options.model, "m.gguf");
  EXPECT_TRUE(options.variants && options.parts);
}

TEST(BenchFlags, WithoutWorkloadsSomethingElseIsMeasured) {
  EXPECT_TRUE(parse_bench({"--no-workloads", "--speed"}, {}).value().options.speed);
  EXPECT_TRUE(parse_bench({"--no-workloads", "--pictures"}, {}).value().options.pictures);
  EXPECT_EQ(parse_bench({"--no-workloads", "--share", "dir:/x"}, {}).value().options.share_url, "dir:/x");
  EXPECT_THAT(refusal({"--no-workloads"}), HasSubstr("--speed"));
  EXPECT_EQ(parse_bench({"--no-workloads", "--load", "--scenarios", "gap,herd"}, {}).value().options.scenarios,
            (std::vector<std::string>{"gap", "herd"}));
  EXPECT_THAT(refusal({"--scenarios", "gap"}), HasSubstr("--load"));
  EXPECT_THAT(refusal({"--load", "--peer-url", "http://127.0.0.1:1"}), HasSubstr("--peer"));
}

TEST(BenchFlags, ContradictionsAreRefused) {
  EXPECT_THAT(refusal({"--peer", "x", "--peer-url", "http://y"}), HasSubstr("one of them"));
  EXPECT_THAT(refusal({"-m", "x", "--size", "tiny"}), HasSubstr("--size"));
  EXPECT_THAT(refusal({"-m", "x", "--arch", "mamba2"}), HasSubstr("--arch"));
  EXPECT_THAT(refusal({"--arch", "gemma3", "--mmproj", "x"}), HasSubstr("--model"));
  EXPECT_THAT(refusal({"--size", "huge"}), HasSubstr("huge"));
  EXPECT_THAT(refusal({"--peer", "'x"}), HasSubstr("quote"));
  EXPECT_THAT(refusal({"--variant"}), HasSubstr("did you mean '--variants'"));
}

TEST(BenchFlags, DirectoryOfARunIsNotTheUsers) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--flag=--kv-disk-dir=/tmp/mine"},
                                                    {"--flag", "--kv-disk-dir", "--flag", "/tmp/mine"}}) {
    EXPECT_THAT(refusal(arguments), HasSubstr("--flag: each run begins with an empty directory"));
  }
  EXPECT_EQ(refusal({"--flag=--kv-disk-space-mb=2000"}), "");
}

TEST(BenchFlags, HelpNamesEveryFlagAndFitsATerminal) {
  const std::string help = bench_help();
  for (const char* flag :
       {"--quick", "--variants", "--parts", "--speed", "--pictures", "--list", "--model", "--mmproj", "--size",
        "--arch", "--flag", "--peer", "--peer-url", "--json", "--html", "--check", "--keep"}) {
    EXPECT_THAT(help, HasSubstr(flag));
  }
  for (std::size_t begin = 0; begin < help.size();) {
    const std::size_t end = help.find('\n', begin);
    EXPECT_LE(end - begin, 100) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

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
  EXPECT_EQ(options.server.api_key, "k");
  EXPECT_EQ(options.reply_tokens, 9U);
  EXPECT_EQ(options.in_flight_max, 3U);
  EXPECT_EQ(options.timeout_s, 5U);
  EXPECT_EQ(options.reports.json + options.reports.html, "ab");
  EXPECT_EQ(options.files, (std::vector<std::string>{"one.jsonl", "-"}));
}

TEST(ReplayFlags, TheBaseUrlThatClientsAreToldIsTheServersToo) {
  for (const char* url : {"http://x:1", "http://x:1/", "http://x:1/v1", "http://x:1/v1/"}) {
    EXPECT_EQ(parse_replay({"--url", url, "f"}, {}).value().options.server.url, "http://x:1") << url;
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
  const std::string description = help.substr(0, help.find("\nUsage: "));
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
