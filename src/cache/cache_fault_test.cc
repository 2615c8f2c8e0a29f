// The cache while its disk fails at every operation in turn: it may forget, never lie, and works again when the faults
// stop.

#include <cstdio>
#include <tuple>

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

// ---- faults at every operation ----

// Loads and compares everything that is there of a prompt.
void look(World& world, const Tokens& prompt) {
  (void)world.check(prompt);
  if (world.model.shape.needs_points()) (void)world.stands(prompt);
}

// Store, continue, branch, push out, hit, restart, continue. Runs to its end whatever fails.
void scenario(World& world) {
  const Tokens a = conversation(1, 96);
  const Tokens b = conversation(1, 40) + conversation(50, 40);
  if (!world.open()) return;
  world.keep(head(a, 40));
  world.keep(a);
  world.writer.run_all();
  world.keep(b);
  world.writer.run_one();
  look(world, a);
  world.writer.run_all();
  for (TokenId i = 2; i < 5; ++i) {
    world.keep(conversation(i * 100, 64));
    world.writer.run_all();
  }
  look(world, b);
  world.cache->flush();
  world.die();
  world.files.kill();
  if (!world.open()) return;
  look(world, a);
  world.keep(a + conversation(70, 32));
  world.writer.run_all();
  look(world, a + conversation(70, 32));
}

using FaultCase = std::tuple<FaultKind, ModelClass>;

class CacheUnderFaults : public testing::TestWithParam<FaultCase> {};

TEST_P(CacheUnderFaults, ForgetsButNeverLiesAndRecovers) {
  const auto& [fault, model] = GetParam();
  const ByteCount budget{24 * 8192};
  std::uint64_t scenarios = 0;
  for (std::uint64_t n = 1;; ++n, ++scenarios) {
    World world(ByteCount{0}, budget, n);
    world.model = model;
    world.files.set_plan({fault, n});
    scenario(world);
    const bool fired = world.files.fault_fired();
    world.die();
    if (n % 2 == 0) {
      world.files.power_cut();
    } else {
      world.files.kill();
    }
    world.files.heal();
    ASSERT_TRUE(world.open()) << "operation " << n;
    // Law 1, for whatever is still there; law 4.
    look(world, conversation(1, 96) + conversation(70, 32));
    look(world, conversation(1, 40) + conversation(50, 40));
    for (TokenId i = 2; i < 5; ++i) look(world, conversation(i * 100, 64));
    world.writer.run_all();
    ASSERT_LE(world.store->used(), budget) << "operation " << n;
    // Law 5: with the faults gone, new conversations are kept, over a power cut.
    const Tokens fresh = conversation(900, 64);
    ASSERT_TRUE(world.keep(fresh)) << "operation " << n;
    world.writer.run_all();
    world.cache->flush();
    world.die();
    world.files.power_cut();
    ASSERT_TRUE(world.open());
    ASSERT_EQ(world.check(fresh), 64U) << "operation " << n;
    if (model.shape.needs_points()) {
      ASSERT_EQ(world.stands(fresh), range_of(64, 64)) << "operation " << n;
    }
    if (!fired) break;
  }
  std::printf("%llu scenarios\n", static_cast<unsigned long long>(scenarios));
  EXPECT_GT(scenarios, 50U);
}

INSTANTIATE_TEST_SUITE_P(
    EveryOperation, CacheUnderFaults,
    testing::Combine(testing::Values(FaultKind::kCrash, FaultKind::kFailOnce, FaultKind::kFailForever),
                     testing::Values(kRowsModel, kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel)));

}  // namespace
}  // namespace kvkeep::cache
