// The cache over a simulated disk: what comes back is what was stored for exactly that prefix, whatever was evicted,
// damaged, interrupted or lost; and it works again when the faults stop.

#include "cache/cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::cache {
namespace {

using sim::FaultKind;

constexpr std::size_t kRowBytes = 64;
using Tokens = std::vector<TokenId>;

// Rows of a prefix: 64 bytes per token, a function of all tokens up to it.
std::vector<std::byte> rows_of(const Tokens& tokens, TokenRange range) {
  std::vector<std::byte> rows;
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < range.end.value(); ++i) {
    state = (state ^ static_cast<std::uint64_t>(tokens[i] + 1)) * 0x9e3779b97f4a7c15ULL + 7;
    if (i < range.begin.value()) continue;
    std::uint64_t row = state;
    for (std::size_t b = 0; b < kRowBytes; ++b, row = row * 6364136223846793005ULL + 1) {
      rows.push_back(static_cast<std::byte>(row >> 56));
    }
  }
  return rows;
}

// A cache, its disk and its background work, all run by hand.
class World {
 public:
  explicit World(ByteCount ram = mebibytes(1), ByteCount disk_budget = mebibytes(64), std::uint64_t seed = 1)
      : files(seed), ram_(ram), disk_budget_(disk_budget) {}
  ~World() { shut_down(); }

  // False: the disk store refused to open.
  bool open() {
    auto disk =
        store::DiskStore::open({.directory = "/cache", .fingerprint = {}, .budget = disk_budget_}, files, clock);
    if (!disk) return false;
    store = disk->get();
    cache = std::make_unique<Cache>(CacheOptions{.fingerprint = {}, .ram_budget = ram_, .min_disk_tokens = 8},
                                    std::move(*disk), clock, writer, reader);
    writer.run_all();
    return true;
  }
  void shut_down() {
    cache.reset();
    store = nullptr;
  }
  // The process dies: nothing that waits is run.
  void die() {
    writer.forget_all();
    reader.forget_all();
    shut_down();
  }

  // Stores what the cache does not know of `tokens` in pieces of `piece`; returns how far it got.
  std::size_t grow(const Tokens& tokens, std::size_t piece = 16) {
    Track track = cache->track(tokens);
    while (track.position().value() < tokens.size()) {
      cache->follow(track, TokenSpan(tokens).subspan(track.position().value()));
      const Position begin = track.position();
      const std::size_t count = std::min(piece, tokens.size() - begin.value());
      if (count == 0) break;
      const auto rows = rows_of(tokens, {begin, begin + count});
      store::StagingBuffer buffer = cache->staging(rows.size());
      std::ranges::copy(rows, buffer.span().begin());
      if (!cache->store(track, TokenSpan(tokens).subspan(begin.value(), count), std::move(buffer), rows.size(),
                        policy::CutReason::kContinued)) {
        break;
      }
    }
    return track.position().value();
  }

  // Loads the longest path of `prompt` and compares every byte; returns its length.
  std::size_t check(const Tokens& prompt) {
    for (int attempt = 0; attempt < 50; ++attempt) {
      const std::shared_ptr<Lease> lease = cache->lease(prompt);
      std::optional<Status> outcome;
      const TokenRange all{Position{}, lease->end()};
      cache->load(lease, all, [&](Status status) { outcome = std::move(status); });
      reader.run_all();
      EXPECT_TRUE(outcome.has_value()) << "a load without an answer";
      if (!outcome || !*outcome) continue;  // the next best
      for (const RowPiece& piece : lease->pieces(all)) {
        const auto rows = rows_of(prompt, {Position{}, piece.wanted.end});
        const ByteSpan got =
            piece.bytes.subspan((piece.wanted.begin - piece.stored.begin) * kRowBytes, piece.wanted.size() * kRowBytes);
        const ByteSpan want = ByteSpan(rows).subspan(piece.wanted.begin.value() * kRowBytes);
        EXPECT_TRUE(std::ranges::equal(got, want)) << "bytes of another prefix at " << piece.wanted.begin.value();
      }
      return lease->end().value();
    }
    ADD_FAILURE() << "loading never succeeded nor gave up";
    return 0;
  }

  bool within_budget() const {
    return store->used() <= disk_budget_ && files.physical_bytes() <= disk_budget_.value() + (1U << 20);
  }

  sim::SimFileSystem files;
  sim::SimClock clock;
  sim::SimExecutor writer;
  sim::SimExecutor reader;
  store::DiskStore* store = nullptr;
  std::unique_ptr<Cache> cache;

 private:
  const ByteCount ram_;
  const ByteCount disk_budget_;
};

Tokens conversation(TokenId first, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i % 7);
  return tokens;
}
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Cache, GivesBackWhatWasStoredFromRamThenFromDiskThenAfterARestart) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens trunk = conversation(10, 100);
  const Tokens branch = conversation(10, 50) + conversation(40, 60);
  EXPECT_EQ(world.grow(trunk), 100U);
  EXPECT_EQ(world.check(trunk), 100U);
  EXPECT_EQ(world.cache->lease(trunk)->steps().front().tier, Tier::kRam);
  world.writer.run_all();
  EXPECT_EQ(world.cache->lease(trunk)->steps().front().tier, Tier::kDisk) << "RAM budget 0 keeps nothing written";
  EXPECT_EQ(world.check(branch), 50U) << "a prompt that leaves the path in the middle of a segment";
  EXPECT_EQ(world.grow(branch), 110U);
  world.writer.run_all();
  world.cache->flush();
  world.die();
  world.files.power_cut();
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(trunk), 100U);
  EXPECT_EQ(world.check(branch), 110U);
  EXPECT_EQ(world.cache->stats().tokens, 160U) << "a shared prefix is stored once";
}

TEST(Cache, WritesNewRowsOnce) {
  World world;
  ASSERT_TRUE(world.open());
  Tokens tokens = conversation(10, 64);
  for (int turn = 0; turn < 12; ++turn) {
    EXPECT_EQ(world.grow(tokens), tokens.size());
    world.writer.run_all();
    tokens = tokens + conversation(100 + turn * 10, 40);
  }
  const auto counters = world.store->counters();
  EXPECT_EQ(counters.payload_bytes_written, (64 + 11 * 40) * kRowBytes);
}

TEST(Cache, ShortConversationsGetNoFileUntilTheyGrow) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 20);
  const Tokens head(tokens.begin(), tokens.begin() + 4);
  world.grow(head);
  world.writer.run_all();
  EXPECT_EQ(world.store->counters().puts, 0U);
  world.grow(tokens);
  world.writer.run_all();
  world.die();
  world.files.power_cut();
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(tokens), 20U) << "the short head is written when something continues it";
}

TEST(Cache, DamagedSegmentIsAMissAndIsStoredAgain) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  std::size_t damaged = 0;
  for (const std::string& path : world.files.paths()) {
    if (!path.ends_with(".kvs")) continue;
    std::vector<std::byte> bytes = *world.files.contents(path);
    if (damaged++ == 1) {
      bytes.back() ^= std::byte{1};
      world.files.plant(path, bytes);
    }
  }
  ASSERT_EQ(damaged, 4U);
  const std::size_t left = world.check(tokens);
  EXPECT_LT(left, 64U);
  EXPECT_EQ(left % 16, 0U);
  EXPECT_EQ(world.cache->stats().damaged, 1U);
  EXPECT_EQ(world.grow(tokens), 64U) << "the lost part can be stored again";
  world.writer.run_all();
  EXPECT_EQ(world.check(tokens), 64U);
}

TEST(Cache, DeadPathOfARunningSequenceIsNotExtended) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  Track running = world.cache->track(tokens);
  world.cache->report_damaged(world.cache->lease(tokens)->steps()[1].segment);
  EXPECT_EQ(world.check(tokens), 16U);
  const Tokens next = conversation(90, 8);
  EXPECT_FALSE(
      world.cache->store(running, next, world.cache->staging(8 * kRowBytes), 8 * kRowBytes, policy::CutReason::kTurn));
  running = world.cache->track(Tokens{});
  EXPECT_EQ(world.grow(tokens), 64U) << "when the last holder lets go, the place is free again";
}

TEST(Cache, DiskBudgetHoldsAndLeasedPathsStay) {
  const ByteCount budget{40 * 8192};
  World world(ByteCount{0}, budget);
  ASSERT_TRUE(world.open());
  const Tokens kept = conversation(1, 160);
  world.grow(kept);
  world.writer.run_all();
  const std::shared_ptr<Lease> lease = world.cache->lease(kept);
  ASSERT_EQ(lease->end(), Position{160});
  for (TokenId i = 1; i <= 30; ++i) {
    world.grow(conversation(i * 100, 160));
    world.writer.run_all();
    ASSERT_LE(world.store->used(), budget) << "after conversation " << i;
  }
  EXPECT_GT(world.cache->stats().disk_evicted, 0U);
  EXPECT_EQ(world.check(kept), 160U);
  EXPECT_EQ(world.check(conversation(3000, 160)), 160U) << "what was stored last is there";
}

TEST(Cache, RamOnlyBudgetHoldsAndForgetsLeavesFirst) {
  sim::SimClock clock;
  sim::SimExecutor writer;
  sim::SimExecutor reader;
  World world;
  world.cache = std::make_unique<Cache>(CacheOptions{.fingerprint = {}, .ram_budget = ByteCount{100 * kRowBytes}},
                                        nullptr, clock, writer, reader);
  for (TokenId i = 1; i <= 20; ++i) {
    const Tokens tokens = conversation(5, 32) + conversation(i * 50, 20);
    world.grow(tokens);
    writer.run_all();
    ASSERT_LE(world.cache->stats().ram_used.value(), 100 * kRowBytes);
    ASSERT_GE(world.check(tokens), 32U) << "the shared prefix is used by every conversation";
  }
  EXPECT_GT(world.cache->stats().ram_evicted, 0U);
}

TEST(Cache, WithoutAnyTierNothingIsAccepted) {
  sim::SimClock clock;
  sim::SimExecutor writer;
  sim::SimExecutor reader;
  World world;
  world.cache = std::make_unique<Cache>(CacheOptions{}, nullptr, clock, writer, reader);
  EXPECT_FALSE(world.cache->accepts());
  EXPECT_EQ(world.grow(conversation(1, 32)), 0U);
}

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
