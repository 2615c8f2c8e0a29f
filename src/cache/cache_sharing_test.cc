// Two caches on one directory: what one of them computed is a hit in the other.

#include <map>
#include <utility>

#include "cache/cache_test_fixture.h"
#include "store/servers.h"
#include "testing/sim/sim_bystander.h"

namespace kvkeep::cache {
namespace {

// Two servers, each with its background work, on one simulated disk.
class TwoServers {
 public:
  explicit TwoServers(ByteCount budget = mebibytes(4), ModelClass model = kRowsModel)
      : bystander_(first.files), budget_(budget) {
    first.model = second.model = model;
    start(first, first.files);
    start(second, bystander_);
  }

  // Time passes for both, `times` seconds.
  void tick(int times = 3) {
    for (int i = 0; i < times; ++i) {
      tick_one(first);
      tick_one(second);
    }
  }
  void tick_one(World& server) {
    if (server.cache == nullptr) return;
    first.clock.advance_ms(20'000);
    server.cache->tick();
    server.writer.run_all();
  }
  bool keep(World& server, const Tokens& tokens) {
    const bool kept = server.keep(tokens);
    server.writer.run_all();
    return kept;
  }
  // The server that acts, and the other one.
  std::pair<World*, World*> roles(bool keeper_acts) {
    return keeper_acts ? std::pair(&first, &second) : std::pair(&second, &first);
  }
  // 64 tokens that both know.
  Tokens stored_by_first() {
    tick();
    Tokens stored = conversation(1, 64);
    EXPECT_TRUE(keep(first, stored));
    tick();
    return stored;
  }
  bool budget_holds() const { return first.files.physical_bytes("/cache/servers") <= budget_.value(); }

  World first{mebibytes(1), mebibytes(4)};
  World second{mebibytes(1), mebibytes(4)};

 private:
  void start(World& server, os::FileSystem& files) {
    auto disk =
        store::DiskStore::open({.directory = "/cache", .fingerprint = {}, .budget = budget_}, files, first.clock);
    ASSERT_TRUE(disk.ok());
    server.store = disk->get();
    server.cache = std::make_unique<Cache>(
        CacheOptions{.fingerprint = {}, .ram_budget = mebibytes(1), .min_disk_tokens = 8, .shape = server.model.shape},
        std::move(*disk), first.clock, server.writer, server.reader);
    server.cache->settle();
    server.writer.run_all();
  }

  sim::SimBystander bystander_;
  const ByteCount budget_;
};

class CachesOnOneDirectory : public testing::TestWithParam<ModelClass> {};

INSTANTIATE_TEST_SUITE_P(Classes, CachesOnOneDirectory,
                         testing::Values(kRowsModel, kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel),
                         [](const auto& model) { return std::string(model.param.name); });

TEST_P(CachesOnOneDirectory, APathOfOneServerIsAHitInTheOther) {
  TwoServers servers(mebibytes(4), GetParam());
  servers.tick();
  const Tokens shared = conversation(1, 64);
  ASSERT_TRUE(servers.keep(servers.first, shared));
  EXPECT_EQ(servers.second.check(shared), 0U);
  servers.tick();
  EXPECT_EQ(servers.second.check(shared), 64U);
  // It goes on there, from the middle too, and comes back.
  const Tokens longer = shared + conversation(50, 40);
  const Tokens branch = head(shared, 40) + conversation(90, 40);
  ASSERT_TRUE(servers.keep(servers.second, longer));
  ASSERT_TRUE(servers.keep(servers.second, branch));
  servers.tick();
  EXPECT_EQ(servers.first.check(longer), 104U);
  EXPECT_EQ(servers.first.check(branch), 80U);
  if (GetParam().shape.needs_points()) {
    EXPECT_FALSE(servers.first.restorable(longer).empty());
    EXPECT_EQ(servers.first.restorable(longer).back(), 104U);
  }
}

// An audit of one server concerns the other, in either role; once everything is removed, nothing comes back.
TEST_P(CachesOnOneDirectory, NeitherServerUsesStateThatOneDistrusts) {
  for (const bool keeper_finds : {true, false}) {
    TwoServers servers(mebibytes(4), GetParam());
    const auto [finder, other] = servers.roles(keeper_finds);
    const Tokens stored = servers.stored_by_first();
    ASSERT_EQ(other->check(stored), 64U);
    finder->cache->distrust("wrong");
    finder->writer.run_all();
    servers.tick();
    EXPECT_TRUE(other->cache->distrusted()) << keeper_finds;
    EXPECT_EQ(other->cache->lease(stored)->end(), Position{});
    EXPECT_FALSE(servers.keep(*other, conversation(200, 64)));
    for (const std::string& path : servers.first.segment_files()) ASSERT_TRUE(servers.first.files.remove(path).ok());
    servers.tick();
    EXPECT_TRUE(servers.first.segment_files().empty());
  }
}

// A server continues files that other hands, or the keeper, just removed: it writes those again that RAM has, and
// nothing is left below a hole.
TEST_P(CachesOnOneDirectory, APathContinuedBeforeItsLossWasNoticedIsWholeAgain) {
  TwoServers servers(mebibytes(4), GetParam());
  servers.tick();
  const Tokens stored = conversation(1, 64);
  ASSERT_TRUE(servers.keep(servers.second, stored));
  servers.tick();
  ASSERT_EQ(servers.first.check(stored), 64U);
  for (const std::string& path : servers.first.segment_files()) ASSERT_TRUE(servers.first.files.remove(path).ok());
  const Tokens longer = stored + conversation(50, 40);
  ASSERT_TRUE(servers.keep(servers.second, longer));
  ASSERT_FALSE(servers.first.segment_files().empty()) << "written below what is gone";
  store::Servers other_hands("/cache/servers", servers.first.files, servers.first.clock);
  ASSERT_TRUE(other_hands.tell_change().ok());
  servers.tick(4);
  servers.second.die();
  servers.first.die();
  servers.first.files.kill();
  ASSERT_TRUE(servers.first.open());
  EXPECT_EQ(servers.first.check(longer), 104U);
}

// The same where the server is stopped before its next second: it hears of the loss at the end.
TEST_P(CachesOnOneDirectory, AServerStoppedBeforeItNoticedALossLeavesNoHole) {
  TwoServers servers(mebibytes(4), GetParam());
  servers.tick();
  const Tokens stored = conversation(1, 64);
  ASSERT_TRUE(servers.keep(servers.second, stored));
  servers.tick();
  for (const std::string& path : servers.first.segment_files()) ASSERT_TRUE(servers.first.files.remove(path).ok());
  const Tokens longer = stored + conversation(50, 40);
  ASSERT_TRUE(servers.keep(servers.second, longer));
  ASSERT_FALSE(servers.first.segment_files().empty()) << "written below what is gone";
  servers.second.cache->flush();
  servers.second.die();
  servers.first.die();
  servers.first.files.kill();
  ASSERT_TRUE(servers.first.open());
  EXPECT_EQ(servers.first.check(longer), 104U);
}

// A server that found something wrong is often stopped at once, to look for the cause.
TEST(CacheSharing, DistrustHoldsThoughItsFinderIsGone) {
  for (const bool keeper_finds : {true, false}) {
    TwoServers servers;
    const auto [finder, other] = servers.roles(keeper_finds);
    const Tokens stored = servers.stored_by_first();
    finder->cache->distrust("wrong");
    finder->writer.run_all();
    finder->shut_down();
    servers.tick();
    EXPECT_TRUE(other->cache->distrusted()) << keeper_finds;
    EXPECT_EQ(other->cache->lease(stored)->end(), Position{});
  }
}

// For a while the device does not say whether there is a note: that counts as no note.
TEST(CacheSharing, ADiskThatRefusesToBeReadIsNotDistrustedWhenItHeals) {
  TwoServers servers;
  servers.tick();
  servers.first.files.set_plan({sim::FaultKind::kFailForever, 1});
  servers.tick(5);
  servers.first.files.heal();
  servers.tick();
  EXPECT_FALSE(servers.first.cache->distrusted());
  ASSERT_TRUE(servers.keep(servers.first, conversation(1, 64)));
  EXPECT_FALSE(servers.first.segment_files().empty());
}

// A file without a parent may only be early; if the parent never comes, the file is abandoned, not looked for for ever.
TEST(CacheSharing, AnOrphanIsAbandonedAfterAnotherLook) {
  World source;
  ASSERT_TRUE(source.open());
  std::map<std::string, std::vector<std::byte>> files;
  for (const std::size_t end : {32U, 64U}) {
    files.clear();
    const std::vector<std::string> before = source.segment_files();
    ASSERT_TRUE(source.keep(head(conversation(1, 64), end)));
    source.writer.run_all();
    for (const std::string& path : source.segment_files()) {
      if (std::ranges::find(before, path) == before.end()) files[path] = *source.files.contents(path);
    }
  }
  TwoServers servers;
  servers.tick();
  for (const auto& [path, bytes] : files) servers.first.files.plant(path, bytes);
  servers.tick(20);
  EXPECT_GT(servers.first.store->foreign_bytes(), ByteCount{}) << "may leave when room is needed";
}

TEST(CacheSharing, BothMayComputeTheSame) {
  TwoServers servers;
  servers.tick();
  const Tokens shared = conversation(1, 64);
  EXPECT_EQ(servers.first.grow(shared, 16), 64U);
  EXPECT_EQ(servers.second.grow(shared, 24), 64U);
  servers.first.writer.run_all();
  servers.second.writer.run_all();
  servers.tick();
  ASSERT_EQ(servers.first.grow(shared + conversation(30, 30), 16), 94U);
  ASSERT_EQ(servers.second.grow(shared + conversation(60, 30), 16), 94U);
  servers.first.writer.run_all();
  servers.second.writer.run_all();
  servers.tick();
  EXPECT_EQ(servers.first.check(shared + conversation(60, 30)), 94U);
  EXPECT_EQ(servers.second.check(shared + conversation(30, 30)), 94U);
}

TEST(CacheSharing, ARefusedPathIsWrittenOnceThereIsRoom) {
  TwoServers servers;
  const Tokens early = conversation(1, 64);
  ASSERT_TRUE(servers.keep(servers.second, early));  // before the keeper knew of it
  EXPECT_GT(servers.second.cache->stats().disk_refused, 0U);
  servers.tick();
  EXPECT_EQ(servers.first.check(early), 64U) << "it is on disk now, and known there";
}

TEST(CacheSharing, TheKeeperMakesRoomForBoth) {
  TwoServers servers(ByteCount{40 * 8192});
  servers.tick();
  for (TokenId i = 1; i < 60; ++i) {
    ASSERT_TRUE(servers.keep(i % 2 == 0 ? servers.first : servers.second, conversation(i * 20, 48)));
    servers.tick(1);
    ASSERT_TRUE(servers.budget_holds());
  }
  EXPECT_GT(servers.first.cache->stats().from_disk.count(), 0U);
  EXPECT_EQ(servers.second.cache->stats().from_disk.count(), 0U);
  const Tokens last = conversation(900, 64);
  ASSERT_TRUE(servers.keep(servers.second, last));
  servers.tick();
  EXPECT_EQ(servers.first.check(last), 64U);
}

TEST(CacheSharing, APathThatTheKeeperRemovedIsForgottenQuietly) {
  TwoServers servers;
  servers.tick();
  const Tokens shared = conversation(1, 64);
  ASSERT_TRUE(servers.keep(servers.first, shared));
  servers.tick();
  ASSERT_EQ(servers.second.check(shared), 64U);
  while (!servers.first.segment_files().empty())
    ASSERT_TRUE(servers.first.files.remove(servers.first.segment_files()[0]).ok());
  servers.second.cache->flush();
  EXPECT_EQ(servers.second.cache->stats().damaged, 0U);
  const Tokens other = conversation(400, 64);
  ASSERT_TRUE(servers.keep(servers.first, other));
  servers.tick();
  EXPECT_EQ(servers.second.cache->stats().damaged, 0U);
  EXPECT_EQ(servers.second.check(other), 64U);
}

// Removed and brought back by a server that came and went, while it is in RAM: the file holds the same rows.
TEST(CacheSharing, APathInRamThatComesBackOnDiskStays) {
  TwoServers servers;
  servers.second.cache.reset();
  servers.tick();
  sim::SimFileSystem& files = servers.first.files;
  ASSERT_TRUE(servers.keep(servers.first, conversation(1, 64)));
  std::map<std::string, std::vector<std::byte>> stored;
  for (const std::string& path : servers.first.segment_files()) stored[path] = *files.contents(path);
  ASSERT_FALSE(stored.empty());
  {
    store::Servers guest("/cache/servers", files, servers.first.clock);
    ASSERT_TRUE(guest.join());
    for (const auto& [path, bytes] : stored) ASSERT_TRUE(files.remove(path));
    servers.tick();
    for (const auto& [path, bytes] : stored) files.plant(path, bytes);
  }
  servers.tick();
  EXPECT_FALSE(servers.first.store->shared());
  EXPECT_EQ(servers.first.segment_files().size(), stored.size());
  EXPECT_EQ(servers.first.check(conversation(1, 64)), 64U);
}

TEST(CacheSharing, APathThatTheOtherServerUsesStaysLonger) {
  TwoServers servers(ByteCount{60 * 8192});
  servers.tick();
  const Tokens used = conversation(1, 64);
  const Tokens unused = conversation(200, 64);
  ASSERT_TRUE(servers.keep(servers.first, used));
  servers.tick(1);
  ASSERT_TRUE(servers.keep(servers.first, unused));
  for (int i = 0; i < 3; ++i) {
    servers.tick(2);
    const auto lease = servers.second.cache->lease(used);
    ASSERT_EQ(lease->end().value(), 64U);
    servers.second.cache->note_use(*lease);
    servers.second.writer.run_all();
  }
  servers.tick(4);
  const auto gone = [&](const Tokens& tokens) { return servers.second.cache->lease(tokens)->end().value() < 64; };
  for (TokenId i = 20; i < 60 && !gone(unused); ++i) {
    ASSERT_TRUE(servers.keep(servers.first, conversation(i * 20, 48)));
    servers.tick(1);
  }
  EXPECT_TRUE(gone(unused));
  EXPECT_EQ(servers.second.check(used), 64U);
}

// A listing during writes may lack files that were there before. The next one has them, whenever it comes.
TEST(CacheSharing, AFileWithoutAParentWaitsForTheNextLook) {
  TwoServers servers;
  servers.tick();
  const Tokens begin = conversation(1, 64);
  const Tokens whole = begin + conversation(30, 30);
  ASSERT_TRUE(servers.keep(servers.first, begin));
  const std::vector<std::string> parents = servers.first.segment_files();
  ASSERT_TRUE(servers.keep(servers.first, whole));
  servers.tick_one(servers.first);  // reports that it wrote something
  for (const std::string& path : parents) ASSERT_TRUE(servers.first.files.rename(path, path + "x").ok());
  servers.tick_one(servers.second);
  for (const std::string& path : parents) ASSERT_TRUE(servers.first.files.rename(path + "x", path).ok());
  servers.tick_one(servers.second);  // nothing new: no look
  EXPECT_EQ(servers.second.check(whole), 0U);
  ASSERT_TRUE(servers.keep(servers.first, conversation(400, 16)));
  servers.tick();
  EXPECT_EQ(servers.second.check(whole), 94U);
}

TEST(CacheSharing, AFileThatTookTheNameOfAnotherIsNotRemoved) {
  TwoServers servers;
  servers.tick();
  const Tokens shared = conversation(1, 16);
  ASSERT_TRUE(servers.keep(servers.first, shared));
  servers.tick();
  ASSERT_EQ(servers.second.cache->lease(shared)->end().value(), 16U);
  const std::vector<std::string> files = servers.first.segment_files();
  ASSERT_EQ(files.size(), 1U);
  const auto header = format::decode_header(*servers.first.files.contents(files.front()));
  ASSERT_TRUE(header.ok());
  ASSERT_TRUE(servers.first.store->remove(header->name).ok());
  const std::vector<std::byte> other(header->parts.front().size_bytes + 1);
  ASSERT_TRUE(servers.first.store->put(*header, {{header->name.kind, other}}).ok());
  servers.tick();
  EXPECT_EQ(servers.first.segment_files(), files);
  EXPECT_EQ(servers.second.cache->stats().damaged, 0U);
}

TEST(CacheSharing, TheOtherGoesOnWhenTheKeeperDies) {
  TwoServers servers;
  servers.tick();
  const Tokens shared = conversation(1, 64);
  ASSERT_TRUE(servers.keep(servers.first, shared));
  servers.tick();
  servers.first.files.kill();
  servers.first.die();
  servers.tick();
  EXPECT_TRUE(servers.second.store->keeper());
  EXPECT_EQ(servers.second.check(shared), 64U);
  ASSERT_TRUE(servers.keep(servers.second, shared + conversation(30, 30)));
  EXPECT_FALSE(servers.second.store->shared());
}

}  // namespace
}  // namespace kvkeep::cache
