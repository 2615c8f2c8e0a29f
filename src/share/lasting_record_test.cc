// The record that a server keeps in the engine for as long as it uses the namespace: `kvkeep share pull` needs one.

#include <gtest/gtest.h>

#include "share/shared_world_fixture.h"
#include "share/vault.h"

namespace kvkeep::share {
namespace {

constexpr std::int64_t kTenMinutesMs = 600'000;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class LastingRecords : public SharedStoreTest {
 protected:
  static ShareOptions options(ShareMode mode = ShareMode::kBoth) {
    const auto joined = [](ByteSpan there, ByteSpan offered) {
      std::vector<std::byte> both(there.begin(), there.end());
      if (!std::ranges::equal(there, offered)) both.insert(both.end(), offered.begin(), offered.end());
      return both;
    };
    return {.fingerprint = sim::sample_fingerprint(1),
            .mode = mode,
            .lasting = LastingRecord{.contents = bytes_of("mine"), .merge = joined}};
  }
  // nullopt if there is none.
  static std::optional<std::string> record(ShareServer& server) {
    const auto found = server.store().records({PrefixHash{}}, INT64_MAX).front();
    if (!found.ok()) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(found->data()), found->size());
  }
  void lose_all() { world_.objects.clear(); }
};

TEST_F(LastingRecords, AreWrittenAgainEveryTenMinutes) {
  ShareServer server(world_, options());
  EXPECT_EQ(record(server), "mine") << "the first tick comes at the start";
  lose_all();
  server.tick(kTenMinutesMs - 2'000);
  EXPECT_EQ(world_.objects.size(), 0U);
  const auto puts = world_.puts;
  server.tick(4'000);
  EXPECT_EQ(world_.puts, puts + 1);
  EXPECT_EQ(record(server), "mine");
}

TEST_F(LastingRecords, AreWrittenAgainByAnEngineThatBeganAnew) {
  ShareServer server(world_, options());
  lose_all();
  const auto puts = world_.puts;
  world_.hung_up = {NodeId{0}};
  server.tick(30'000);
  EXPECT_EQ(world_.puts, puts) << "it may have closed an idle connection only";
  server.tick(61'000);
  server.tick();
  EXPECT_EQ(record(server), "mine");
  lose_all();
  world_.nodes.assign(world_.nodes.size(), FrailWorld::Node::kRefusing);
  (void)server.find(share_prompt(1, 40), every(20, 40));
  server.tick(1'000);
  EXPECT_EQ(world_.objects.size(), 0U);
  world_.nodes.assign(world_.nodes.size(), FrailWorld::Node::kWell);
  for (int second = 0; second < 10; ++second) server.tick();
  EXPECT_EQ(record(server), "mine");
}

TEST_F(LastingRecords, KeepWhatOthersWrote) {
  ShareServer other(world_, {.fingerprint = sim::sample_fingerprint(1)});
  ASSERT_TRUE(other.store().offer_record(PrefixHash{}, bytes_of("theirs ")));
  other.run_all();
  ShareServer server(world_, options());
  EXPECT_EQ(record(server), "theirs mine");
}

// A server that only reads writes nothing. It renews what it reads, and this with it.
TEST_F(LastingRecords, AreOnlyRenewedByReaders) {
  ShareServer reader(world_, options(ShareMode::kRead));
  EXPECT_EQ(world_.puts, 0U);
  ShareServer writer(world_, options(ShareMode::kWrite));
  EXPECT_EQ(world_.puts, 1U);
  world_.touches.clear();
  reader.tick(kTenMinutesMs + 1'000);
  reader.tick();
  ASSERT_EQ(world_.touches.size(), 1U);
  EXPECT_EQ(world_.touches.begin()->second, 1);
  EXPECT_EQ(world_.touches.begin()->first, world_.objects.begin()->first);
  EXPECT_EQ(world_.puts, 1U);
}

TEST_F(LastingRecords, EndWithTrust) {
  ShareServer server(world_, options());
  server.store().distrust();
  lose_all();
  server.tick(kTenMinutesMs + 1'000);
  EXPECT_EQ(world_.objects.size(), 0U);
}

}  // namespace
}  // namespace kvkeep::share
