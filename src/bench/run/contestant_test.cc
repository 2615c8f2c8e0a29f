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
  const bool in_both = std::ranges::count(played, "/run/kv") ==
                       std::ranges::count(parity_command_of(peer, options, "/run").arguments, "/run/kv");
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

}  // namespace
}  // namespace kvkeep::bench
