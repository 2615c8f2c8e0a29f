// The whole cache while its disk fails at every operation in turn, and again in the process after it: it may forget,
// never lie, and works again when the faults stop. Then the same with one mistake built in, which must show.

#include <cstdio>

#include "cache/cache_scenario_fixture.h"

namespace kvkeep::cache {

Mutations& active_mutations() {
  static Mutations active;
  return active;
}

// Takes the place of mutations.cc in this program.
const Mutations& mutations() { return active_mutations(); }

namespace {

const std::vector<ModelClass> kClasses{kRowsModel, kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel};

sim::FaultLoopResult run_loop(const ModelClass& model, const sim::FaultLoopOptions& options) {
  const Quiet quiet;
  return sim::run_fault_loop(options, [&](sim::SimFileSystem& files, const FaultCase& fault) {
    return std::make_unique<CacheScenario>(model, files, fault);
  });
}

class CacheUnderFaults : public testing::TestWithParam<ModelClass> {};

TEST_P(CacheUnderFaults, ForgetsButNeverLiesAndRecovers) {
  const auto result = run_loop(GetParam(), {.one_in = 8});
  EXPECT_GT(result.cases, 400U);
  EXPECT_EQ(result.broken_cases, 0U);
  for (const std::string& example : result.examples) ADD_FAILURE() << example;
  std::printf("%llu fault scenarios, %llu of them with two faults\n", static_cast<unsigned long long>(result.cases),
              static_cast<unsigned long long>(result.with_two_faults));
}

INSTANTIATE_TEST_SUITE_P(Classes, CacheUnderFaults, testing::ValuesIn(kClasses),
                         [](const auto& model) { return std::string(model.param.name); });

struct NamedMistake {
  const char* name;
  Mutations mutations;
};

void PrintTo(const NamedMistake& mistake, std::ostream* out) { *out << mistake.name; }

class CacheMutants : public testing::TestWithParam<NamedMistake> {
 protected:
  void SetUp() override { active_mutations() = GetParam().mutations; }
  void TearDown() override { active_mutations() = {}; }
};

TEST_P(CacheMutants, AreCaught) {
  for (const std::uint64_t one_in : {16U, 2U}) {
    for (const ModelClass& model : kClasses) {
      const auto result = run_loop(model, {.second_faults = false, .one_in = one_in, .stop_at_first = true});
      if (result.broken_cases == 0) continue;
      std::printf("%s: %s\n", model.name, result.examples.front().c_str());
      return;
    }
  }
  ADD_FAILURE() << "no law was broken";
}

INSTANTIATE_TEST_SUITE_P(All, CacheMutants,
                         testing::Values(NamedMistake{"evict_parent_first", {.evict_parent_first = true}},
                                         NamedMistake{"points_outlive_rows", {.points_outlive_rows = true}},
                                         NamedMistake{"evict_in_use", {.evict_in_use = true}},
                                         NamedMistake{"write_child_first", {.write_child_first = true}},
                                         NamedMistake{"name_by_begin", {.name_by_begin = true}},
                                         NamedMistake{"drop_before_written", {.drop_before_written = true}}),
                         [](const auto& mistake) { return std::string(mistake.param.name); });

}  // namespace
}  // namespace kvkeep::cache
