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

}  // namespace
}  // namespace kvkeep::bench
