// A command that waits gets everything that servers published in a namespace and nothing else, through every trouble
// that passes.

#include "share/warehouse.h"

#include <gtest/gtest.h>

#include "share/recent_names.h"
#include "share/shared_world_fixture.h"

namespace kvkeep::share {
namespace {

using format::PartKind;

class WarehouseTest : public ::testing::Test {
 protected:
  Warehouse warehouse(const std::string& key = "secret", int most_tries = 3, const std::string& device = "cpu") {
    return {access(most_tries), {.fingerprint = kPrint, .device = device, .key = key}, 3600};
  }
  EngineAccess access(int most_tries = 3) {
    return {engine_, clock_, [this, most_tries](int tries, const Error&) {
              waits_ += 1;
              clock_.advance_ms(1000);
              if (tries == heals_after_) std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
              return tries < most_tries;
            }};
  }
  ShareOptions options(const std::string& key = "secret") const {
    return {.fingerprint = kPrint, .device = "cpu", .key = key};
  }
  std::vector<format::SharedHead> good_heads(Warehouse& from) {
    std::vector<format::SharedHead> good;
    for (auto& head : from.heads(list_names(access(), from.vault().space()).value())) {
      if (head.ok()) good.push_back(std::move(*head));
    }
    return good;
  }

  double ms_of(const std::function<void()>& action) {
    const std::int64_t from_ns = clock_.monotonic_ns();
    action();
    return os::elapsed_ms(from_ns, clock_.monotonic_ns());
  }

  const FingerprintHash kPrint = sim::sample_fingerprint(1);
  sim::SimClock clock_;
  FrailWorld world_{clock_};
  FrailEngine engine_{world_};
  int waits_ = 0;
  int heals_after_ = 0;
};

TEST_F(WarehouseTest, ReadsAllThatServersPublished) {
  ShareServer server(world_, options());
  server.publish(share_prompt(1, 200), every(20, 200), PartKind::kPoint);
  ShareServer other(world_, {.fingerprint = sim::sample_fingerprint(2), .device = "cpu", .key = "secret"});
  other.publish(share_prompt(1, 100), every(20, 100));
  Warehouse own = warehouse();
  EXPECT_EQ(own.vault().space(), server.store().space());
  const auto heads = good_heads(own);
  ASSERT_EQ(heads.size(), 20U);
  for (const format::SharedHead& head : heads) {
    const auto payload = own.payload(head);
    ASSERT_TRUE(payload.ok()) << payload.error().message;
    EXPECT_TRUE(std::ranges::equal((*payload)->bytes(), right_bytes(head.segment.name)));
  }
  EXPECT_EQ(list_names(access(), "")->size(), 25U);
}

TEST_F(WarehouseTest, AServerFindsWhatAWarehouseWrote) {
  ShareServer server(world_, options());
  const Tokens prompt = share_prompt(1, 100);
  Warehouse own = warehouse();
  std::vector<format::PathStep> path;
  Position begin;
  for (const Position end : every(20, 100)) {
    path.push_back(server.step(prompt, end));
    ASSERT_TRUE(own.put(server.publication(prompt, {begin, end}, PartKind::kRows, path)).ok());
    begin = end;
  }
  EXPECT_EQ(server.restorable(prompt, every(20, 100)), Position{100});
}

TEST_F(WarehouseTest, KnowsWhatIsThereAndAuthentic) {
  ShareServer server(world_, options());
  server.publish(share_prompt(1, 100), every(20, 100));
  Warehouse own = warehouse();
  std::vector<ObjectName> names = list_names(access(), own.vault().space()).value();
  ASSERT_EQ(names.size(), 5U);
  world_.objects[names[1]].head[200] ^= std::byte{1};
  world_.objects.erase(names[3]);
  EXPECT_EQ(own.has(names).value(), (std::vector{true, false, true, false, true}));
  const auto heads = own.heads(names);
  EXPECT_EQ(heads[1].error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(heads[3].error().kind, ErrorKind::kNotFound);
}

TEST_F(WarehouseTest, NothingOfAnotherKeyIsBelieved) {
  ShareServer server(world_, options());
  server.publish(share_prompt(1, 100), every(20, 100));
  Warehouse stranger(access(), {.key = "another", .space = server.store().space()}, 3600);
  for (const auto& head : stranger.heads(list_names(access(), server.store().space()).value())) {
    ASSERT_FALSE(head.ok());
    EXPECT_EQ(head.error().kind, ErrorKind::kDamaged);
  }
  // With the key, a namespace is enough.
  Warehouse friendly(access(), {.key = "secret", .space = server.store().space()}, 3600);
  EXPECT_EQ(good_heads(friendly).size(), 5U);
}

TEST_F(WarehouseTest, DamagedPayloadsDoNotPass) {
  ShareServer server(world_, options());
  server.publish(share_prompt(1, 40), every(20, 40));
  Warehouse own = warehouse();
  const auto heads = good_heads(own);
  ASSERT_EQ(heads.size(), 2U);
  world_.objects[own.name_of(heads[0].segment.name)].pieces[0][3] ^= std::byte{1};
  world_.objects[own.name_of(heads[1].segment.name)].pieces[0].clear();
  EXPECT_EQ(own.payload(heads[0]).error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(own.payload(heads[1]).error().kind, ErrorKind::kNotFound);
}

TEST_F(WarehouseTest, TroubleThatPassesIsWaitedFor) {
  ShareServer server(world_, options());
  server.publish(share_prompt(1, 100), every(20, 100));
  Warehouse own = warehouse();
  const auto names = list_names(access(), own.vault().space()).value();
  for (const FrailWorld::Node trouble :
       {FrailWorld::Node::kRefusing, FrailWorld::Node::kHung, FrailWorld::Node::kLoading}) {
    heals_after_ = 2;
    std::ranges::fill(world_.nodes, trouble);
    EXPECT_EQ(list_names(access(), "")->size(), 5U);
    world_.nodes[1] = trouble;  // the others' answers stay
    EXPECT_EQ(own.has(names).value(), std::vector<bool>(5, true));
    std::ranges::fill(world_.nodes, trouble);
    EXPECT_EQ(good_heads(own).size(), 5U);
    std::ranges::fill(world_.nodes, trouble);
    EXPECT_TRUE(own.put_record(PrefixHash{}, std::vector<std::byte>(5)).ok());
    ASSERT_TRUE(engine_.remove(own.vault().record_name(PrefixHash{}), clock_.monotonic_ns() + kSecondNs).ok());
  }
}

TEST_F(WarehouseTest, TroubleThatStaysIsAnErrorAfterAFewTries) {
  Warehouse own = warehouse();
  std::ranges::fill(world_.nodes, FrailWorld::Node::kRefusing);
  EXPECT_EQ(list_names(access(), "").error().kind, ErrorKind::kIo);
  EXPECT_EQ(waits_, 3);
  EXPECT_EQ(own.has({own.vault().record_name(PrefixHash{})}).error().kind, ErrorKind::kIo);
  EXPECT_EQ(waits_, 6);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
  world_.full = true;
  EXPECT_EQ(own.put_record(PrefixHash{}, std::vector<std::byte>(5)).error().kind, ErrorKind::kNoSpace);
  EXPECT_EQ(waits_, 6) << "a full engine is not asked again";
}

// A command ends with several calls, each of which would wait as long.
TEST_F(WarehouseTest, PatienceIsToldOfAndEndsOnce) {
  int told = 0;
  Patience patience(
      clock_, [&](std::int64_t ms) { clock_.advance_ms(ms); },
      [&](const Error& trouble) {
        ++told;
        EXPECT_EQ(trouble.message, "connection refused");
      });
  const EngineAccess patient{engine_, clock_,
                             [&](int tries, const Error& trouble) { return patience.wait(tries, trouble); }};
  const auto list = [&] { return list_names(patient, ""); };
  EXPECT_TRUE(list().ok());
  EXPECT_EQ(told, 0);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kRefusing);
  EXPECT_NEAR(ms_of([&] { EXPECT_EQ(list().error().message, "frail://engine: connection refused"); }), 15'000, 1);
  EXPECT_EQ(told, 1);
  EXPECT_NEAR(ms_of([&] { EXPECT_FALSE(list().ok()); }), 0, 1) << "that was in vain before";
  EXPECT_EQ(told, 1);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
  EXPECT_TRUE(list().ok());
}

TEST_F(WarehouseTest, RecordsComeBack) {
  Warehouse own = warehouse();
  const std::vector<std::byte> contents = sim::sample_bytes(3, 500);
  const PrefixHash key = hash_of(kPrint, kNoTenant, share_prompt(1, 10));
  ASSERT_TRUE(own.put_record(key, contents).ok());
  const ObjectName name = own.vault().record_name(key);
  const auto records = own.records({name, own.vault().record_name(PrefixHash{})});
  EXPECT_EQ(records[0].value(), contents);
  EXPECT_EQ(records[1].error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(own.put_record(key, std::vector<std::byte>(format::kMostRecordBytes + 1)).error().kind,
            ErrorKind::kInvalid);
}

TEST(ObjectNames, TextsAreReadBackAndNothingElseIs) {
  const ObjectName name{std::string(16, 'a'), std::string(32, '7'), ObjectKind::kPoint};
  EXPECT_EQ(ObjectName::parse(name.text()), name);
  const std::string text = name.text();
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string wrong = text;
    wrong[i] = 'x';
    EXPECT_FALSE(ObjectName::parse(wrong)) << i;
    EXPECT_FALSE(ObjectName::parse(text.substr(0, i))) << i;
  }
  EXPECT_FALSE(ObjectName::parse(text + "0"));
}

}  // namespace
}  // namespace kvkeep::share
