// Two servers on one directory: the laws with a fault or a death at every operation of one of them, while the other
// does something in between at any of these operations.

#include <gtest/gtest.h>

#include <cstdio>

#include "store/shared_scenario_fixture.h"

namespace kvkeep::store {
namespace {

class SharedFaults : public testing::TestWithParam<std::size_t> {};

TEST_P(SharedFaults, TheLawsHoldForTwoServers) {
  const Setting& setting = settings()[GetParam()];
  const auto make = [&](sim::SimFileSystem& files, const FaultCase& fault) {
    return std::make_unique<SharedScenario>(setting, files, fault);
  };
  const auto result = sim::run_fault_loop({.seeds = 1, .second_faults = !setting.same_model}, make);
  EXPECT_GT(result.cases, 100U);
  EXPECT_EQ(result.broken_cases, 0U) << "of " << result.cases;
  for (const std::string& example : result.examples) ADD_FAILURE() << example;
  std::printf("%s: %llu fault scenarios\n", setting.name, static_cast<unsigned long long>(result.cases));
}

std::string setting_name(const testing::TestParamInfo<std::size_t>& setting) {
  std::string name = settings()[setting.param].name;
  std::erase(name, ',');
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, SharedFaults, testing::Range(std::size_t{0}, settings().size()), setting_name);

}  // namespace
}  // namespace kvkeep::store
