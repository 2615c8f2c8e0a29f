// The cache gives the audit any of the stored paths, and ends the use of all of them.

#include <set>

#include "cache/cache_test_fixture.h"
#include "store/small_files.h"

namespace kvkeep::cache {
namespace {

class CacheAudit : public testing::TestWithParam<ModelClass> {
 protected:
  // It leads to where a lease of its tokens ends.
  static void expect_known(World& world, const StoredPath& path) {
    const auto lease = world.cache->lease(path.tokens, path.tenant);
    EXPECT_EQ(lease->end().value(), path.tokens.size());
    EXPECT_LT(path.begin, lease->end());
  }
};

INSTANTIATE_TEST_SUITE_P(Classes, CacheAudit,
                         testing::Values(kRowsModel, kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel),
                         [](const auto& model) { return std::string(model.param.name); });

TEST_P(CacheAudit, EveryStoredPathMayBeChosen) {
  World world;
  world.model = GetParam();
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.cache->random_path(0), std::nullopt);
  const std::vector<Tenant> tenants{kNoTenant, tenant_of({}, "one")};
  const std::vector<Tokens> prompts{conversation(10, 40), conversation(20, 60),
                                    conversation(10, 30) + conversation(50, 30)};
  std::set<std::pair<std::string, Tokens>> kept;
  for (const Tenant& tenant : tenants) {
    world.tenant = tenant;
    for (const Tokens& prompt : prompts) {
      ASSERT_TRUE(world.keep(prompt));
      kept.emplace(tenant.hex(), prompt);
    }
  }
  for (std::uint64_t random = 0; random < 100; ++random) {
    const auto path = world.cache->random_path(random);
    ASSERT_TRUE(path);
    expect_known(world, *path);
    kept.erase({path->tenant.hex(), path->tokens});
  }
  EXPECT_TRUE(kept.empty());
}

TEST_P(CacheAudit, StateOnlyOnDiskComesFirst) {
  World world(mebibytes(1));
  world.model = GetParam();
  ASSERT_TRUE(world.open());
  const Tokens old = conversation(10, 64);
  ASSERT_TRUE(world.keep(old));
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  ASSERT_TRUE(world.keep(conversation(20, 64)));
  for (std::uint64_t random = 0; random < 20; ++random) {
    const auto path = world.cache->random_path(random);
    ASSERT_TRUE(path);
    EXPECT_EQ(path->tokens, head(old, path->tokens.size()));
  }
}

TEST_P(CacheAudit, DistrustedStateIsNeitherFoundNorContinued) {
  World world;
  world.model = GetParam();
  ASSERT_TRUE(world.open());
  const Tokens stored = conversation(10, 64);
  ASSERT_TRUE(world.keep(stored));
  world.writer.run_all();
  const Tokens waiting = conversation(20, 64);
  ASSERT_TRUE(world.keep(waiting));  // in the writer's queue
  const auto files = world.segment_files();
  world.cache->distrust("wrong");
  EXPECT_TRUE(world.cache->distrusted());
  EXPECT_TRUE(world.cache->stats().distrusted);
  world.writer.run_all();
  EXPECT_EQ(world.segment_files(), files);
  EXPECT_EQ(store::read_distrust(world.files, "/cache/" + FingerprintHash{}.hex()), "wrong");
  for (const Tokens& tokens : {stored, waiting}) {
    EXPECT_EQ(world.cache->lease(tokens)->end(), Position{});
  }
  EXPECT_EQ(world.cache->random_path(3), std::nullopt);
  EXPECT_FALSE(world.cache->accepts());
  EXPECT_FALSE(world.keep(conversation(30, 64)));
  world.cache->tick();
  world.writer.run_all();
  world.cache->flush();
  EXPECT_EQ(world.segment_files(), files);
}

TEST(CacheAuditNote, IsWrittenAsSoonAsTheDiskTakesIt) {
  for (std::uint64_t at = 1; at <= 6; ++at) {
    World world;
    ASSERT_TRUE(world.open());
    ASSERT_TRUE(world.keep(conversation(10, 64)));
    world.writer.run_all();
    world.files.set_plan({sim::FaultKind::kFailForever, at});
    world.cache->distrust("wrong");
    world.writer.run_all();
    world.files.heal();
    world.clock.advance_ms(1'000);
    world.cache->tick();
    world.writer.run_all();
    EXPECT_EQ(store::read_distrust(world.files, "/cache/" + FingerprintHash{}.hex()), "wrong") << at;
  }
}

// Where an earlier process found it.
TEST(CacheAuditWithoutDisk, DistrustMayBeThereFromTheStart) {
  for (const bool distrusted : {false, true}) {
    World world;
    Cache cache({.fingerprint = {}, .ram_budget = mebibytes(1), .distrusted = distrusted}, nullptr, world.clock,
                world.writer, world.reader);
    EXPECT_EQ(cache.distrusted(), distrusted);
    EXPECT_EQ(cache.stats().distrusted, distrusted);
    EXPECT_EQ(cache.accepts(), !distrusted);
  }
}

TEST(CacheAuditWithoutDisk, DistrustIsOnlyForThisProcess) {
  World world;
  world.open_without_disk();
  ASSERT_TRUE(world.keep(conversation(10, 64)));
  world.cache->distrust("wrong");
  EXPECT_EQ(world.cache->lease(conversation(10, 64))->end(), Position{});
}

}  // namespace
}  // namespace kvkeep::cache
