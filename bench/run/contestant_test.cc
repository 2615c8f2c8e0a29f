#include "bench/run/contestant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kvkeep::bench {
namespace {

std::string name_of_peer(const std::string& program) {
  BenchOptions options;
  options.peer_command = {program, "-c", "4096"};
  return contestants(options).back().name;
}

TEST(ContestantTest, APeerIsNamedAfterItsProgram) {
  EXPECT_EQ(name_of_peer("llama-server"), "llama-server");
  EXPECT_EQ(name_of_peer("/opt/bin/llama-server"), "llama-server");
}

TEST(ContestantTest, APeerIsNeverTakenForUs) {
  EXPECT_EQ(name_of_peer("kvkeep"), "kvkeep-peer");
  EXPECT_EQ(name_of_peer("/opt/old/kvkeep"), "kvkeep-peer");
}

TEST(ContestantTest, NoTwoHaveTheSameNameAndVariant) {
  BenchOptions options;
  options.variants = true;
  options.peer_command = {"/opt/old/kvkeep"};
  std::set<std::pair<std::string, std::string>> names;
  const std::vector<Contestant> all = contestants(options);
  for (const Contestant& contestant : all) names.insert({contestant.name, contestant.variant});
  EXPECT_EQ(names.size(), all.size());
  EXPECT_EQ(std::ranges::count_if(all, &Contestant::is_kvkeep), 4);
}

std::vector<std::string> arguments_of_peer(const std::vector<std::string>& command) {
  BenchOptions options;
  options.peer_command = command;
  options.model = "m.gguf";
  const Contestant peer = contestants(options).back();
  const std::vector<std::string> played = command_of(peer, Workload{}, options, "/run").arguments;
  const bool in_both =
      std::ranges::count(played, "/run/kv") ==
      std::ranges::count(parity_command_of(peer, parity_settings().front(), options, "/run").arguments, "/run/kv");
  EXPECT_TRUE(in_both);
  return played;
}

TEST(ContestantTest, APeerThatIsAKvkeepHasADirectoryOfItsOwn) {
  for (const char* program : {"kvkeep", "/opt/old/kvkeep-0.9"}) {
    const std::vector<std::string> arguments = arguments_of_peer({program, "serve"});
    const auto flag = std::ranges::find(arguments, "--kv-disk-dir");
    ASSERT_NE(flag, arguments.end());
    EXPECT_EQ(*(flag + 1), "/run/kv");
  }
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"kvkeep", "serve", "--no-kv-disk"}, {"kvkeep", "serve", "--kv-disk-dir=/mine"}, {"/kvkeep/llama-server"}}) {
    const std::vector<std::string> arguments = arguments_of_peer(command);
    EXPECT_EQ(std::ranges::count(arguments, "/run/kv"), 0) << command.back();
  }
}

TEST(ContestantTest, OnlyAWorkloadWithPicturesNeedsAProjector) {
  BenchOptions options;
  options.peer_command = {"llama-server"};
  options.projector = "p.gguf";
  Workload pictured;
  pictured.steps.emplace_back(Show{"a", 1, "p"});
  for (const Contestant& contestant : contestants(options)) {
    const auto projectors = [&](const Workload& workload) {
      return std::ranges::count(command_of(contestant, workload, options, "/run").arguments, "p.gguf");
    };
    EXPECT_EQ(projectors(Workload{}), 0);
    EXPECT_EQ(projectors(pictured), 1);
  }
  options.peer_command = {"llama-server", "--mmproj", "own.gguf"};
  EXPECT_EQ(std::ranges::count(command_of(contestants(options).back(), pictured, options, "/run").arguments, "p.gguf"),
            0);
}

// Flags as reported; checks that they are part of the command line in that order.
std::string reported_flags(const BenchOptions& options, const Contestant& contestant) {
  Interrupt interrupt;
  const std::string flags = info_of(contestant, options, interrupt).flags;
  const std::vector<std::string> arguments = command_of(contestant, Workload{}, options, "/run").arguments;
  std::string own;  // without the flags that each workload sets
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_varied = arguments[i] == "-m" || arguments[i] == "-c" || arguments[i] == "--kv-disk-dir";
    if (!is_varied) own += (own.empty() ? "" : " ") + arguments[i];
    if (is_varied) ++i;
  }
  EXPECT_EQ(flags.substr(0, own.size()), own);
  return flags;
}

TEST(ContestantTest, TheReportedFlagsAreThoseThatRun) {
  BenchOptions options;
  options.peer_command = {"/none/llama-server", "-t", "4", "--no-mmap"};
  EXPECT_TRUE(reported_flags(options, contestants(options).front()).starts_with("serve --restore always -t 1"));
  EXPECT_TRUE(reported_flags(options, contestants(options).back()).starts_with("-t 4 --no-mmap"));
  options.peer_command = {"/none/llama-server", "--no-mmap"};
  EXPECT_TRUE(reported_flags(options, contestants(options).back()).starts_with("--no-mmap -t 1"));
  options.kvkeep_flags = {"--threads=3"};
  const std::string flags = reported_flags(options, contestants(options).front());
  EXPECT_EQ(flags.find("-t 1"), std::string::npos) << flags;
}

}  // namespace
}  // namespace kvkeep::bench
