// Tenants: one cache for several salts is as good as a cache for each of them, but for the budgets, which they share.

#include <array>
#include <random>
#include <set>

#include "base/test_seed.h"
#include "cache/cache_test_fixture.h"
#include "cache/catalog.h"
#include "cache/stored_sums.h"

namespace kvkeep::cache {
namespace {

const std::array<Tenant, 3> kTenants{kNoTenant, tenant_of({}, "one"), tenant_of({}, "other")};

class CacheTenants : public testing::TestWithParam<ModelClass> {};

INSTANTIATE_TEST_SUITE_P(Classes, CacheTenants,
                         testing::Values(kRowsModel, kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel),
                         [](const auto& model) { return std::string(model.param.name); });

// All tenants in one cache, and a cache for each to compare.
struct Worlds {
  explicit Worlds(const ModelClass& model) {
    for (World* world : all()) {
      world->model = model;
      EXPECT_TRUE(world->open());
    }
  }
  std::vector<World*> all() { return {&shared, &own[0], &own[1], &own[2]}; }
  // In the tenant's name in both.
  template <typename Do>
  void both(std::size_t who, Do act) {
    shared.tenant = kTenants[who];
    act(shared);
    act(own[who]);
  }

  World shared;
  std::array<World, 3> own;
};

void change(Worlds& worlds, std::mt19937_64& random, const Tokens& tokens) {
  const std::size_t who = random() % kTenants.size();
  const std::size_t piece = 1 + random() % 20;
  switch (random() % 8) {
    case 0:
      for (World* world : worlds.all()) world->writer.run_all();
      break;
    case 1:
      for (World* world : worlds.all()) {
        world->writer.run_all();
        ASSERT_TRUE(world->restart());
      }
      break;
    case 2: {
      std::vector<Position> places;
      for (std::size_t at = 1; at <= tokens.size(); ++at) places.push_back(Position{} + at);
      worlds.both(who, [&](World& world) { world.cache->forget_points(tokens, places, world.tenant); });
      break;
    }
    default: worlds.both(who, [&](World& world) { ASSERT_TRUE(world.keep(tokens, piece)); });
  }
}

void expect_same(Worlds& worlds, std::size_t who, const Tokens& prompt) {
  World& shared = worlds.shared;
  World& own = worlds.own[who];
  shared.tenant = kTenants[who];
  ASSERT_EQ(shared.check(prompt), own.check(prompt));
  if (shared.model.shape.needs_points()) {
    ASSERT_EQ(shared.restorable(prompt), own.restorable(prompt));
  }
  const Branch branch = shared.cache->branch(prompt, 6, kTenants[who]);
  ASSERT_EQ(branch.at, own.cache->branch(prompt, 6).at);
  const Tokens shown = head(prompt, branch.at.value()) + branch.next;
  ASSERT_EQ(own.check(shown), shown.size()) << "what another tenant's prompt goes on with";
}

// What is counted for each tenant is what a list of its prefixes adds up to.
void expect_counted(const World& world) {
  for (const Tenant& tenant : kTenants) {
    StoredBytes listed;
    for (const ListedPrefix& prefix : world.cache->list({}, SIZE_MAX, tenant).prefixes) {
      listed.ram += prefix.ram;
      listed.disk += prefix.disk;
    }
    ASSERT_EQ(world.cache->stored_by(tenant), listed);
  }
}

TEST_P(CacheTenants, AreAsManyCaches) {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t round = 0; round < 8; ++round) {
    std::mt19937_64 random(seed + round);
    Worlds worlds(GetParam());
    for (int step = 0; step < 40; ++step) {
      Tokens tokens(9 + random() % 40);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<TokenId>(i % 8 == 0 ? random() % 2 : i);
      }
      ASSERT_NO_FATAL_FAILURE(change(worlds, random, tokens)) << "seed " << seed + round;
      ASSERT_NO_FATAL_FAILURE(expect_counted(worlds.shared)) << "seed " << seed + round << " step " << step;
      for (std::size_t who = 0; who < kTenants.size(); ++who) {
        ASSERT_NO_FATAL_FAILURE(expect_same(worlds, who, tokens)) << "seed " << seed + round << " step " << step;
      }
    }
  }
}

// The hashes in the names of the files that are there.
std::set<std::string> hashes_in_names(const World& world) {
  std::set<std::string> found;
  for (const std::string& path : world.segment_files()) {
    const std::string name = path.substr(path.rfind('/') + 1);
    found.insert(name.substr(0, 32));
    found.insert(name.substr(33, 32));
  }
  return found;
}

// Names do not show that two tenants sent the same prompt.
TEST_P(CacheTenants, HaveNoHashInCommon) {
  World world;
  world.model = GetParam();
  ASSERT_TRUE(world.open());
  std::size_t hashes_of_one = 0;
  for (std::size_t count = 1; count <= kTenants.size(); ++count) {
    world.tenant = kTenants[count - 1];
    ASSERT_TRUE(world.keep(conversation(10, 60)));
    world.writer.run_all();
    if (count == 1) hashes_of_one = hashes_in_names(world).size();
    EXPECT_EQ(hashes_in_names(world).size(), count * hashes_of_one);
  }
  EXPECT_GE(hashes_of_one, 4U);
}

TEST(CacheTenantsBudget, IsOneForAll) {
  World world(ByteCount{0}, ByteCount{20 * 8192});
  ASSERT_TRUE(world.open());
  world.tenant = kTenants[1];
  const Tokens first = conversation(10, 32);
  ASSERT_TRUE(world.keep(first));
  world.writer.run_all();
  const auto held = world.cache->lease(first, kTenants[1]);
  ASSERT_EQ(held->end().value(), 32U);
  // New salts without end evict what is not held, as new prompts without end would.
  std::uint64_t most = 0;
  for (int i = 0; i < 400; ++i) {
    world.tenant = tenant_of({}, "flood " + std::to_string(i));
    world.clock.advance_ms(1000);
    world.keep(first);
    world.writer.run_all();
    ASSERT_LE(world.store->used(), world.store->budget());
    most = std::max(most, world.cache->stats().index_memory.value());
  }
  EXPECT_LT(world.cache->stats().segments, 60U);
  EXPECT_LT(most, 200'000U);
  world.tenant = kTenants[1];
  EXPECT_EQ(world.check(first), 32U) << "what is held stays";
}

TEST(CacheTenantsBytes, AreCountedUntilNothingIsLeft) {
  World world;
  ASSERT_TRUE(world.open());
  for (const Tenant& tenant : kTenants) {
    world.tenant = tenant;
    ASSERT_TRUE(world.keep(conversation(10, 60)));
  }
  world.writer.run_all();
  const StoredBytes alike = world.cache->stored_by(kTenants[0]);
  EXPECT_GT(alike.ram, ByteCount{});
  EXPECT_GT(alike.disk, alike.ram) << "a file has a header and whole blocks";
  EXPECT_EQ(world.cache->stored_by(kTenants[1]), alike);
  ASSERT_TRUE(world.cache->clear({.tenants = kTenants[0]}));
  world.writer.run_all();
  EXPECT_EQ(world.cache->stored_by(kTenants[0]), StoredBytes{});
  EXPECT_EQ(world.cache->stored_by(kTenants[1]), alike) << "others keep theirs";
  EXPECT_EQ(world.cache->stored_by(tenant_of({}, "never seen")), StoredBytes{});
  ASSERT_NO_FATAL_FAILURE(expect_counted(world));
}

// Numbers of tenants that are gone serve others, so that a flood of salts leaves nothing behind.
TEST(StoredSums, ForgetTenantsWithoutSegments) {
  StoredSums sums;
  const StoredSums::Number stays = sums.enter(kTenants[1]);
  sums.add(stays, kDiskTier, ByteCount{7});
  for (int i = 0; i < 100; ++i) {
    const Tenant passing = tenant_of({}, "flood " + std::to_string(i));
    const StoredSums::Number number = sums.enter(passing);
    EXPECT_EQ(sums.enter(passing), number);
    EXPECT_LT(number, 2U);
    sums.add(number, kRamTier, ByteCount{100});
    sums.subtract(number, kRamTier, ByteCount{60});
    EXPECT_EQ(sums.of(passing), (StoredBytes{.ram = ByteCount{40}, .disk = {}}));
    sums.leave(number);
    EXPECT_EQ(sums.tenants(), 2U);
    sums.subtract(number, kRamTier, ByteCount{40});
    sums.leave(number);
    EXPECT_EQ(sums.of(passing), StoredBytes{});
  }
  EXPECT_EQ(sums.tenants(), 1U);
  EXPECT_EQ(sums.of(kTenants[1]), (StoredBytes{.ram = {}, .disk = ByteCount{7}}));
}

// A file with a tenant's tokens and names whose header names another tenant, or none: not believed.
TEST(CacheTenantsFiles, TellWhoseTheyAre) {
  World world;
  ASSERT_TRUE(world.open());
  world.tenant = kTenants[1];
  const Tokens tokens = conversation(10, 32);
  ASSERT_TRUE(world.keep(tokens, 32));
  world.writer.run_all();
  const std::vector<std::string> files = world.segment_files();
  ASSERT_EQ(files.size(), 1U);
  const auto bytes = world.files.contents(files.front());
  ASSERT_TRUE(bytes.has_value());
  const auto header = format::decode_header(*bytes);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->tenant, kTenants[1]);
  for (std::size_t i = 0; i < kTenants.size(); ++i) {
    world.tenant = kTenants[i];
    EXPECT_EQ(world.check(tokens), i == 1 ? 32U : 0U);
  }
}

}  // namespace
}  // namespace kvkeep::cache
