// Two servers on one directory: the laws with a fault or a death at every operation of one of them, while the other
// does something in between at any of these operations; then the same with one mistake built in.

#include <gtest/gtest.h>

#include <cstdio>

#include "store/active_mutations_test.h"
#include "store/shared_scenario_fixture.h"

namespace kvkeep::store {
namespace {

sim::FaultLoopResult run_setting(const Setting& setting, const sim::FaultLoopOptions& options) {
  return sim::run_fault_loop(options, [&](sim::SimFileSystem& files, const FaultCase& fault) {
    return std::make_unique<SharedScenario>(setting, files, fault);
  });
}

TEST(SharedFaults, TheLawsHoldForTwoServers) {
  std::uint64_t cases = 0;
  for (const Setting& setting : settings()) {
    const auto result = run_setting(setting, {.seeds = 1, .second_faults = !setting.same_model});
    EXPECT_GT(result.cases, 100u) << setting.name;
    EXPECT_EQ(result.broken_cases, 0u) << setting.name << " of " << result.cases;
    for (const std::string& example : result.examples) ADD_FAILURE() << setting.name << ": " << example;
    cases += result.cases;
  }
  std::printf("%llu fault scenarios\n", static_cast<unsigned long long>(cases));
}

struct SharedMutant {
  const char* name;
  Mutations mutations;
  std::size_t first_setting = 0;  // shows it soonest
};
void PrintTo(const SharedMutant& mutant, std::ostream* out) { *out << mutant.name; }

class SharedMutants : public testing::TestWithParam<SharedMutant> {
 protected:
  void SetUp() override { active_mutations = GetParam().mutations; }
  void TearDown() override { active_mutations = {}; }
};

TEST_P(SharedMutants, IsCaught) {
  for (std::size_t i = 0; i < settings().size(); ++i) {
    const Setting& setting = settings()[(GetParam().first_setting + i) % settings().size()];
    const auto result = run_setting(setting, {.seeds = 1, .stop_at_first = true});
    if (result.broken_cases == 0) continue;
    std::printf("%s: %s\n", setting.name, result.examples.front().c_str());
    return;
  }
  ADD_FAILURE() << "no law was broken";
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedMutants,
    testing::Values(SharedMutant{"room_given_before_the_scan", {.grant_before_scan = true}},
                    SharedMutant{"used_said_before_it_is_written", {.publish_before_write = true}, 1},
                    SharedMutant{"used_never_said", {.never_publish = true}},
                    SharedMutant{"leases_of_the_dead_kept", {.keep_dead_leases = true}},
                    SharedMutant{"temporaries_of_the_living_swept", {.sweep_living = true}},
                    SharedMutant{"two_keepers", {.two_keepers = true}},
                    SharedMutant{"leases_of_a_former_keeper_unknown", {.count_leases_late = true}},
                    SharedMutant{"room_of_the_dead_before_their_removals", {.release_dead_early = true}, 2},
                    SharedMutant{"used_said_before_removals", {.publish_before_settle = true}, 2},
                    SharedMutant{"the_smaller_grant_counts", {.smaller_grant = true}, 1},
                    SharedMutant{"leftovers_counted_twice", {.count_leftovers_twice = true}, 5},
                    SharedMutant{"ids_without_a_lock_live", {.lockless_lives = true}},
                    SharedMutant{"forged_totals_believed", {.believe_totals = true}, 2}),
    [](const testing::TestParamInfo<SharedMutant>& mutant) { return std::string(mutant.param.name); });

}  // namespace
}  // namespace kvkeep::store
