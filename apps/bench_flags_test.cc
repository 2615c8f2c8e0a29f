#include "bench_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(refusal({"--no-workloads"}), HasSubstr("--speed"));
}

TEST(BenchFlags, ContradictionsAreRefused) {
  EXPECT_THAT(refusal({"--peer", "x", "--peer-url", "http://y"}), HasSubstr("one of them"));
  EXPECT_THAT(refusal({"-m", "x", "--size", "tiny"}), HasSubstr("--size"));
  EXPECT_THAT(refusal({"-m", "x", "--arch", "mamba2"}), HasSubstr("--arch"));
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
  for (const char* flag : {"--quick", "--variants", "--parts", "--speed", "--list", "--model", "--size", "--arch",
                           "--flag", "--peer", "--peer-url", "--json", "--html", "--check", "--keep"}) {
    EXPECT_THAT(help, HasSubstr(flag));
  }
  for (std::size_t begin = 0; begin < help.size();) {
    const std::size_t end = help.find('\n', begin);
    EXPECT_LE(end - begin, 100) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

}  // namespace
}  // namespace kvkeep::cli
