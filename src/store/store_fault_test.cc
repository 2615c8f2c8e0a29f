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

std::string script_name(const testing::TestParamInfo<std::size_t>& script) {
  std::string name = scripts()[script.param].name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, StoreFaults, testing::Range(std::size_t{0}, scripts().size()), script_name);

// A short read is damage by its length and by the checksum. A store that makes only one of the two checks passes, so
// the mutant that this test must catch makes neither.
TEST(StoreShortReads, AreNeverServed) {
  const Script cut{"cut short", open_with_two, [](StoreScenario& world) {
                     world.cut_short(1);
                     world.get(1);
                   }};
  const Script read{"a read cut short", open_with_two, [](StoreScenario& world) { world.get(1); }};
  const auto play = [](const Script& script, std::uint64_t at_read) {
    sim::SimFileSystem files(at_read);
    StoreScenario scenario(script, files, {});
    scenario.prepare();
    if (at_read > 0) files.set_plan({FaultKind::kShortRead, at_read, {sim::Operation::kRead}});
    scenario.run();
    EXPECT_EQ(scenario.broken_laws(), std::vector<std::string>{}) << script.name << ' ' << at_read;
  };
  play(cut, 0);
  for (std::uint64_t at = 1; at < 4; ++at) play(read, at);
}

// ---- a disk that lies ----

struct Lie {
  const char* name;
  sim::Lies lies;
};

void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

class StoreOnALyingDisk : public testing::TestWithParam<Lie> {};

// On a disk that drops a sync the store does what one that forgets it would do, so the loop must notice. It tries few
// cases of every scenario, then more: most lies show soon, but in one scenario only.
TEST_P(StoreOnALyingDisk, BreaksALaw) {
  for (const std::uint64_t seeds : {1U, 4U}) {
    const sim::FaultLoopOptions options{
        .seeds = seeds, .second_faults = seeds > 1, .lies = GetParam().lies, .stop_at_first = true};
    for (const Script& script : scripts()) {
      if (run_script(script, options).broken_cases > 0) return;
    }
  }
  ADD_FAILURE() << "no law was broken";
}

INSTANTIATE_TEST_SUITE_P(Every, StoreOnALyingDisk,
                         testing::Values(Lie{"no_file_sync", {.drop_file_sync = true}},
                                         Lie{"no_directory_sync", {.drop_directory_sync = true}},
                                         Lie{"ignored_append_error", {.hide_append_errors = true}},
                                         Lie{"ignored_sync_error", {.hide_sync_errors = true}},
                                         Lie{"written_under_the_final_name", {.write_in_place = true}}),
                         [](const testing::TestParamInfo<Lie>& lie) { return lie.param.name; });

}  // namespace
}  // namespace kvkeep::store
