// The lists that people see of a cache, and what clearing chooses.

#include "cache/catalog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/test_seed.h"
#include "cache/parts_fixture.h"

namespace kvkeep::cache {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

class CatalogTest : public testing::Test {
 protected:
  // A segment of one token of this tenant's trie; RAM has it.
  SegmentId add_for(const Tenant& tenant, SegmentId parent, TokenId first) {
    CacheLock lock(world_.mutex);
    const Position begin = parent == kRootSegment ? Position{} : world_.table.info(parent).range.end;
    PrefixHasher hasher(prefix_key({}, tenant));
    const index::Cursor at{parent, begin, parent == kRootSegment ? tenant : kNoTenant};
    if (parent != kRootSegment) hasher.append(world_.table.index().path_tokens(at));
    const PrefixHash begin_hash = hasher.current();
    hasher.append(TokenSpan(&first, 1));
    const SegmentId added = world_.table.insert(at, TokenSpan(&first, 1), begin_hash, hasher.current(),
                                                format::Origin::kPrompt, {kPayloadBytes, world_.clock.wall_ns()});
    world_.ram.hold(added, some_bytes());
    return added;
  }
  void use(SegmentId segment, int times = 1) {
    CacheLock lock(world_.mutex);
    for (int i = 0; i < times; ++i) world_.table.use(segment, world_.clock.wall_ns());
  }
  std::vector<SegmentId> listed(const TenantScope& tenants, std::size_t page) {
    CacheLock lock(world_.mutex);
    std::vector<SegmentId> all;
    for (std::optional<SegmentId> after = kRootSegment; after;) {
      const Listing listing = list_prefixes(world_.table, *after, page, tenants);
      EXPECT_LE(listing.prefixes.size(), page);
      for (const ListedPrefix& prefix : listing.prefixes) all.push_back(prefix.segment);
      after = listing.next;
    }
    return all;
  }
  // All segments that clearing would forget.
  std::set<SegmentId> to_clear(const ClearScope& scope) {
    CacheLock lock(world_.mutex);
    std::set<SegmentId> all;
    const auto beginnings = beginnings_to_clear(world_.table, scope, world_.clock.wall_ns()).value();
    for (const SegmentId beginning : beginnings) {
      for (const SegmentId segment : world_.table.subtree(beginning)) {
        EXPECT_TRUE(all.insert(segment).second) << "each is below one beginning";
      }
    }
    return all;
  }

  const Tenant ada_ = tenant_of({}, "ada");
  PartsTable world_;
};

TEST_F(CatalogTest, PagesTogetherHaveEachPrefixOnceAndOnlyOnesOwn) {
  std::vector<SegmentId> own;
  std::vector<SegmentId> adas;
  for (TokenId i = 0; i < 5; ++i) {
    own.push_back(add_for(kNoTenant, i == 0 ? kRootSegment : own[static_cast<std::size_t>(i / 2)], i));
    adas.push_back(add_for(ada_, i == 0 ? kRootSegment : adas.back(), i));
  }
  for (const std::size_t page : {1, 2, 5, 100}) {
    EXPECT_EQ(listed(kNoTenant, page), own) << page;
    EXPECT_EQ(listed(ada_, page), adas) << page;
  }
  EXPECT_TRUE(listed(tenant_of({}, "bob"), 10).empty());
}

// State under other scales of adapters is the same client's.
TEST_F(CatalogTest, AScopeHasTheFormsOfItsTenant) {
  const std::vector<float> scales{0.5F};
  const Tenant form = with_adapters({}, ada_, scales);
  const SegmentId plain = add_for(ada_, kRootSegment, 1);
  const SegmentId adapted = add_for(form, kRootSegment, 1);
  const SegmentId below = add_for(form, adapted, 2);
  const SegmentId other = add_for(with_adapters({}, kNoTenant, scales), kRootSegment, 1);
  use(below);
  const TenantScope all = TenantScope::with_forms(ada_);
  EXPECT_EQ(listed(all, 10), (std::vector{plain, adapted, below}));
  EXPECT_EQ(listed(ada_, 10), std::vector{plain});
  EXPECT_EQ(to_clear({.tenants = all}), (std::set{plain, adapted, below}));
  EXPECT_EQ(to_clear({.tenants = TenantScope::with_forms(kNoTenant)}), std::set{other});
  CacheLock lock(world_.mutex);
  EXPECT_EQ(hottest_prefixes(world_.table, 5, all).size(), 1U);
  const std::string name = world_.table.info(below).end_hash.hex();
  EXPECT_EQ(find_prefix(world_.table, name, all)->segment, below);
  EXPECT_FALSE(find_prefix(world_.table, name, ada_));
}

TEST_F(CatalogTest, APrefixShowsItsPlaceSizeAndUse) {
  const SegmentId above = world_.add(kRootSegment, 1);
  const SegmentId below = world_.add(above, 2, 300);
  world_.put_below(below);
  use(below, 2);
  CacheLock lock(world_.mutex);
  world_.table.keep_until(below, world_.clock.wall_ns() + kSecondNs);
  const Listing listing = list_prefixes(world_.table, kRootSegment, 10, kNoTenant);
  ASSERT_EQ(listing.prefixes.size(), 2U);
  const ListedPrefix& prefix = listing.prefixes[1];
  EXPECT_EQ(prefix.parent, above);
  EXPECT_EQ(prefix.range, (TokenRange{Position{16}, Position{32}}));
  EXPECT_EQ(prefix.ram, ByteCount{300});
  EXPECT_GT(prefix.disk, ByteCount{300}) << "a whole file";
  EXPECT_EQ(listing.prefixes[0].disk, ByteCount{});
  EXPECT_EQ(prefix.hits, 2U);
  EXPECT_GT(prefix.kept_until_ns, prefix.last_used_ns);
  const ListedPrefix found = find_prefix(world_.table, prefix.hash.hex().substr(0, 9), kNoTenant).value();
  EXPECT_EQ(found.segment, below);
  EXPECT_FALSE(find_prefix(world_.table, prefix.hash.hex(), ada_)) << "it is not hers";
  EXPECT_EQ(find_prefix(world_.table, "", kNoTenant).error().kind, ErrorKind::kInvalid) << "two begin so";
}

TEST_F(CatalogTest, NothingThatGoesOnFromAForgottenSegmentIsListed) {
  const SegmentId above = world_.add(kRootSegment, 1);
  const SegmentId below = world_.add(above, 2);
  const SegmentId other = world_.add(kRootSegment, 3);
  {
    CacheLock lock(world_.mutex);
    world_.table.pin(below);
    world_.forgetting.forget(above, explain::LossCause::kForgotten);
    world_.forgetting.sweep();
    EXPECT_TRUE(world_.table.entry(below).live) << "it is in use";
  }
  EXPECT_EQ(listed(kNoTenant, 10), std::vector{other});
}

TEST_F(CatalogTest, LeavesCountWithTheirSegment) {
  const SegmentId segment = world_.add(kRootSegment, 1);
  world_.add_leaf(segment, format::PartKind::kPoint, 500);
  CacheLock lock(world_.mutex);
  const Listing listing = list_prefixes(world_.table, kRootSegment, 10, kNoTenant);
  ASSERT_EQ(listing.prefixes.size(), 1U);
  EXPECT_EQ(listing.prefixes[0].points, 1U);
  EXPECT_EQ(listing.prefixes[0].ram, ByteCount{kPayloadBytes + 500});
}

TEST_F(CatalogTest, TheHottestAreEndsAfterWhichPathsWereUsedLess) {
  const SegmentId system = world_.add(kRootSegment, 1);
  const SegmentId tools = world_.add(system, 2);
  const SegmentId talk = world_.add(tools, 3);
  const SegmentId other = world_.add(kRootSegment, 4);
  world_.add(kRootSegment, 5);
  use(system, 7);
  use(tools, 7);
  use(talk, 2);
  use(other, 2);
  CacheLock lock(world_.mutex);
  std::vector<SegmentId> hottest;
  for (const ListedPrefix& prefix : hottest_prefixes(world_.table, 10, kNoTenant)) hottest.push_back(prefix.segment);
  EXPECT_EQ(hottest, (std::vector{tools, talk, other})) << "the longer one of two, and none that was never used";
  EXPECT_EQ(hottest_prefixes(world_.table, 1, kNoTenant).size(), 1U);
}

TEST_F(CatalogTest, ClearingForgetsWhatNothingUsedNeeds) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 20; ++round) {
    PartsTable& world = world_;
    std::vector<SegmentId> all{kRootSegment};
    const int base = round * 100;
    for (int i = 0; i < 30; ++i) all.push_back(world.add(all[random() % all.size()], base + i));
    all.erase(all.begin());
    world.clock.advance_ns(100 * kSecondNs);
    std::set<SegmentId> used;
    for (const SegmentId segment : all) {
      if (random() % 8 != 0) continue;
      CacheLock lock(world.mutex);
      random() % 2 == 0 ? world.table.use(segment, world.clock.wall_ns())
                        : world.table.keep_until(segment, world.clock.wall_ns() + 1'000 * kSecondNs);
      used.insert(segment);
    }
    const std::set<SegmentId> cleared = to_clear({.unused_ns = 50 * kSecondNs});
    for (const SegmentId segment : all) {
      CacheLock lock(world.mutex);
      const std::vector<SegmentId> below = world.table.subtree(segment);
      const bool needed = std::ranges::any_of(below, [&](SegmentId each) { return used.contains(each); });
      EXPECT_EQ(cleared.contains(segment), !needed) << "round " << round;
    }
  }
}

TEST_F(CatalogTest, ClearingStaysWithinItsScope) {
  const SegmentId first = add_for(kNoTenant, kRootSegment, 1);
  const SegmentId middle = add_for(kNoTenant, first, 2);
  const SegmentId last = add_for(kNoTenant, middle, 3);
  const SegmentId other = add_for(kNoTenant, kRootSegment, 4);
  const SegmentId adas = add_for(ada_, kRootSegment, 1);
  EXPECT_EQ(to_clear({}), (std::set{first, middle, last, other}));
  EXPECT_EQ(to_clear({.tenants = ada_}), (std::set{adas}));
  PrefixHash name;
  {
    CacheLock lock(world_.mutex);
    name = world_.table.info(middle).end_hash;
  }
  EXPECT_EQ(to_clear({.below = name}), (std::set{middle, last}));
  EXPECT_EQ(to_clear({.below = name, .with_own_beginning = true}), (std::set{first, middle, last}));
  add_for(kNoTenant, first, 9);
  EXPECT_EQ(to_clear({.below = name, .with_own_beginning = true}), (std::set{middle, last})) << "another one begins so";
  world_.clock.advance_ns(100 * kSecondNs);
  use(middle);
  EXPECT_EQ(to_clear({.below = name, .unused_ns = kSecondNs}), (std::set{last}));
  CacheLock lock(world_.mutex);
  EXPECT_EQ(beginnings_to_clear(world_.table, {.tenants = ada_, .below = name}, 0).error().kind, ErrorKind::kNotFound);
  Cleared sum;
  count_cleared(world_.table, middle, sum);
  EXPECT_EQ(sum.prefixes, 2U);
  EXPECT_EQ(sum.tokens, 2U);
  EXPECT_EQ(sum.ram, ByteCount{2 * kPayloadBytes});
}

}  // namespace
}  // namespace kvkeep::cache
