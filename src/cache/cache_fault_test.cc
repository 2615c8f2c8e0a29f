// The cache while its disk fails at every operation in turn, and over random histories: it may forget, never lie, and
// works again when the faults stop.

#include <cstdio>
#include <cstdlib>
#include <random>

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

// ---- faults at every operation ----

// Store, continue, branch, push out, hit, restart, continue. Runs to its end whatever fails.
void scenario(World& world) {
  const Tokens a = conversation(1, 96);
  const Tokens b = conversation(1, 40) + conversation(50, 40);
  if (!world.open()) return;
  world.grow(a);
  world.writer.run_all();
  world.grow(b);
  world.writer.run_one();
  (void)world.check(a);
  world.writer.run_all();
  for (TokenId i = 2; i < 5; ++i) {
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  (void)world.check(b);
  world.cache->flush();
  world.die();
  world.files.kill();
  if (!world.open()) return;
  (void)world.check(a);
  world.grow(a + conversation(70, 32));
  world.writer.run_all();
  (void)world.check(a + conversation(70, 32));
}

class CacheUnderFaults : public testing::TestWithParam<FaultKind> {};

TEST_P(CacheUnderFaults, ForgetsButNeverLiesAndRecovers) {
  const ByteCount budget{24 * 8192};
  std::uint64_t scenarios = 0;
  for (std::uint64_t n = 1;; ++n, ++scenarios) {
    World world(ByteCount{0}, budget, n);
    world.files.set_plan({GetParam(), n});
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
    (void)world.check(conversation(1, 96) + conversation(70, 32));
    (void)world.check(conversation(1, 40) + conversation(50, 40));
    for (TokenId i = 2; i < 5; ++i) (void)world.check(conversation(i * 100, 64));
    world.writer.run_all();
    ASSERT_LE(world.store->used(), budget) << "operation " << n;
    // Law 5: with the faults gone, new conversations are kept, over a power cut.
    const Tokens fresh = conversation(900, 64);
    ASSERT_EQ(world.grow(fresh), 64U) << "operation " << n;
    world.writer.run_all();
    world.cache->flush();
    world.die();
    world.files.power_cut();
    ASSERT_TRUE(world.open());
    ASSERT_EQ(world.check(fresh), 64U) << "operation " << n;
    if (!fired) break;
  }
  std::printf("%llu scenarios\n", static_cast<unsigned long long>(scenarios));
  EXPECT_GT(scenarios, 50U);
}

INSTANTIATE_TEST_SUITE_P(EveryOperation, CacheUnderFaults,
                         testing::Values(FaultKind::kCrash, FaultKind::kFailOnce, FaultKind::kFailForever));

// ---- random histories ----

TEST(Cache, RandomHistoriesGiveOnlyRightBytes) {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::atoi(given)) : 20261120U;
  std::printf("seed %u (KVKEEP_TEST_SEED)\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    World world(ByteCount{random() % 3 == 0 ? 0U : 4000U}, ByteCount{(10 + random() % 60) * 8192}, random());
    ASSERT_TRUE(world.open());
    std::vector<Tokens> known{{1, 2, 3}};
    for (int step = 0; step < 120; ++step) {
      Tokens tokens = known[random() % known.size()];
      if (random() % 3 == 0) tokens.resize(random() % (tokens.size() + 1));
      for (auto more = random() % 24; more > 0; --more) tokens.push_back(static_cast<TokenId>(random() % 3));
      if (tokens.size() > 120) tokens.resize(40);
      known.push_back(tokens);
      switch (random() % 8) {
        case 0: world.writer.run_all(); break;
        case 1: world.writer.run_one(); break;
        case 2:
          world.die();
          if (random() % 2 == 0) {
            world.files.power_cut();
          } else {
            world.files.kill();
          }
          world.files.heal();
          ASSERT_TRUE(world.open());
          break;
        case 3: world.files.set_plan({FaultKind::kFailOnce, 1 + random() % 20}); break;
        default: world.grow(tokens, 1 + random() % 20); break;
      }
      ASSERT_LE(world.check(known[random() % known.size()]), 120U);
      ASSERT_LE(world.store->used(), world.store->budget());
    }
  }
}

}  // namespace
}  // namespace kvkeep::cache
