// The whole cache while its disk fails at every operation in turn, and again in the process after it: it may forget,
// never lie, and works again when the faults stop.

#include <cstdio>

#include "cache/cache_scenario_fixture.h"

namespace kvkeep::cache {

namespace {

sim::FaultLoopResult run_loop(const ModelClass& model, const sim::FaultLoopOptions& options, bool shaky = false) {
  const Quiet quiet;
  return sim::run_fault_loop(options, [&](sim::SimFileSystem& files, const FaultCase& fault) {
    return std::make_unique<CacheScenario>(model, files, fault, shaky);
  });
}

class CacheUnderFaults : public testing::TestWithParam<ModelClass> {};

TEST_P(CacheUnderFaults, ForgetsButNeverLiesAndRecovers) {
  const auto result = run_loop(GetParam(), {.one_in = 12});
  EXPECT_GT(result.cases, 300U);
  EXPECT_EQ(result.broken_cases, 0U);
  for (const std::string& example : result.examples) ADD_FAILURE() << example;
  std::printf("%llu fault scenarios, %llu of them with two faults\n", static_cast<unsigned long long>(result.cases),
              static_cast<unsigned long long>(result.with_two_faults));
}

INSTANTIATE_TEST_SUITE_P(Classes, CacheUnderFaults, testing::ValuesIn(kClasses),
                         [](const auto& model) { return std::string(model.param.name); });

// With a third tier that loses and refuses: the laws are the same.
TEST_P(CacheUnderFaults, AndAThirdTierThatLosesKeepTheLaws) {
  const auto result = run_loop(GetParam(), {.second_faults = false, .one_in = 24}, true);
  EXPECT_GT(result.cases, 50U);
  EXPECT_EQ(result.broken_cases, 0U);
  for (const std::string& example : result.examples) ADD_FAILURE() << example;
}

// A load reports the time that a slow disk took: callers decide by it whether loading is worthwhile.
TEST(CacheOnASlowDisk, LoadsTellWhatTheyTook) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(1, 96);
  ASSERT_TRUE(world.keep(tokens));
  world.cache->flush();
  ASSERT_TRUE(world.restart());
  constexpr std::size_t kFiles = 6;
  constexpr std::size_t kBytes = 96 * kRowBytes;
  world.files.set_pace(world.clock, {.operation_ns = 1'000'000, .byte_ns = 2'000});
  const std::shared_ptr<Lease> lease = world.cache->lease(tokens);
  LoadResult result;
  world.cache->load(lease, {Position{}, lease->end()}, [&](LoadResult loaded) { result = std::move(loaded); });
  world.reader.run_all();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.bytes_read, ByteCount{kBytes});
  // Opened, header and payload read; the header's read brings the payload along in files as small as these.
  const std::size_t read_bytes = kBytes + world.store_bytes();
  EXPECT_NEAR(result.read_ms, kFiles * 3.0 + static_cast<double>(read_bytes) * 0.002, 0.1);
  EXPECT_GT(result.read_ms, 18.0);
}

}  // namespace
}  // namespace kvkeep::cache
