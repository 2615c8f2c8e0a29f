// The fault loop with one mistake built in, which a law must show. A checker is only as good as the mistakes it finds.

#include <gtest/gtest.h>

#include <cstdio>

#include "store/store_scripts_fixture.h"

namespace kvkeep::store {

Mutations active_mutations;

// Takes the place of mutations.cc in this program.
const Mutations& mutations() { return active_mutations; }

namespace {

struct Mutant {
  const char* name;
  Mutations mutations;
  sim::Lies lies;
};

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

class StoreMutants : public testing::TestWithParam<Mutant> {
 protected:
  void SetUp() override { active_mutations = GetParam().mutations; }
  void TearDown() override { active_mutations = {}; }
};

// Few cases of every scenario, then more: most mistakes show soon, but in one scenario only.
TEST_P(StoreMutants, IsCaught) {
  for (const std::uint64_t seeds : {1U, 4U}) {
    const sim::FaultLoopOptions options{
        .seeds = seeds, .second_faults = seeds > 1, .lies = GetParam().lies, .stop_at_first = true};
    for (const Script& script : scripts()) {
      const auto result = run_script(script, options);
      if (result.broken_cases == 0) continue;
      std::printf("%s: %s\n", script.name, result.examples.front().c_str());
      return;
    }
  }
  ADD_FAILURE() << "no law was broken";
}

// The checksum stands behind the length of a read, so a short read that is taken as whole breaks a law only if the
// checksum is gone as well; and the length stands behind the checksum.
TEST(StoreMutantPairs, ShortReadsAreCaughtByLengthAndByChecksum) {
  const Script script{"cut short", open_with_two, [](StoreScenario& world) {
                        world.cut_short(1);
                        world.get(1);
                      }};
  const Script spoiled{"a read cut short", open_with_two, [](StoreScenario& world) { world.get(1); }};
  const auto laws_broken = [&](Mutations mistakes) {
    active_mutations = mistakes;
    sim::SimFileSystem files;
    StoreScenario planted(script, files, {});
    planted.prepare();
    planted.run();
    std::size_t broken = planted.broken_laws().size();
    for (std::uint64_t at = 1; at < 4; ++at) {
      sim::SimFileSystem short_files(at);
      StoreScenario scenario(spoiled, short_files, {});
      scenario.prepare();
      short_files.set_plan({FaultKind::kShortRead, at, {sim::Operation::kRead}});
      scenario.run();
      broken += scenario.broken_laws().size();
    }
    active_mutations = {};
    return broken > 0;
  };
  EXPECT_FALSE(laws_broken({.short_reads_whole = true}));
  EXPECT_FALSE(laws_broken({.ignore_checksum = true}));
  EXPECT_TRUE(laws_broken({.ignore_checksum = true, .short_reads_whole = true}));
}

INSTANTIATE_TEST_SUITE_P(
    All, StoreMutants,
    testing::Values(Mutant{"no_file_sync", {}, {.drop_file_sync = true}},
                    Mutant{"no_directory_sync", {}, {.drop_directory_sync = true}},
                    Mutant{"ignored_append_error", {}, {.hide_append_errors = true}},
                    Mutant{"ignored_sync_error", {}, {.hide_sync_errors = true}},
                    Mutant{"written_under_the_final_name", {}, {.write_in_place = true}},
                    Mutant{"checksum_ignored", {.ignore_checksum = true}, {}},
                    Mutant{"checksum_without_the_name", {.checksum_without_name = true}, {}},
                    Mutant{"checksum_without_the_fingerprint", {.checksum_without_fingerprint = true}, {}},
                    Mutant{"damaged_file_kept", {.keep_damaged = true}, {}},
                    Mutant{"directory_synced_first", {.sync_directory_first = true}, {}},
                    Mutant{"renamed_over_before_sync", {.rename_over_before_sync = true}, {}},
                    Mutant{"removed_before_write", {.remove_before_write = true}, {}},
                    Mutant{"tokens_not_compared", {.ignore_tokens = true}, {}},
                    Mutant{"budget_counted_after_the_write", {.count_after_write = true}, {}},
                    Mutant{"room_given_away_before_the_sync", {.release_before_sync = true}, {}},
                    Mutant{"names_without_kind", {.names_without_kind = true}, {}},
                    Mutant{"reopened_without_counting", {.reopen_uncounted = true}, {}},
                    Mutant{"saved_index_trusted", {.trust_saved_index = true}, {}},
                    Mutant{"recovered_taken_as_durable", {.trust_recovered_durability = true}, {}}),
    [](const testing::TestParamInfo<Mutant>& mutant) { return mutant.param.name; });

}  // namespace
}  // namespace kvkeep::store
