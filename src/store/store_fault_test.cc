// The six laws, checked with a fault at every operation of every scenario, and a second one in the process after it,
// over the class the server links. docs/fault-model.md explains it.

#include <gtest/gtest.h>

#include <cstdio>

#include "store/store_scripts_fixture.h"

namespace kvkeep::store {
namespace {

class StoreFaults : public testing::TestWithParam<std::size_t> {};

TEST_P(StoreFaults, TheLawsHoldWithAFaultAtEveryOperation) {
  const Script& script = scripts()[GetParam()];
  const auto result = run_script(script, {.seeds = 8});
  EXPECT_GT(result.cases, 1000U);
  EXPECT_GT(result.with_two_faults, result.cases / 5);
  EXPECT_EQ(result.broken_cases, 0U);
  for (const std::string& example : result.examples) ADD_FAILURE() << script.name << ": " << example;
  std::printf("%s: %llu fault scenarios, %llu of them with two faults\n", script.name,
              static_cast<unsigned long long>(result.cases), static_cast<unsigned long long>(result.with_two_faults));
}

std::string name_of(const testing::TestParamInfo<std::size_t>& script) {
  std::string name = scripts()[script.param].name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, StoreFaults, testing::Range(std::size_t{0}, scripts().size()), name_of);

}  // namespace
}  // namespace kvkeep::store
