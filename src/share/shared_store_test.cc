// The shared tier over an engine that is well, or has one fault: what is found, what is published, and who sees whose
// objects. Failures that last are in shared_failures_test.cc.

#include "share/shared_store.h"

#include <gtest/gtest.h>

#include "share/shared_world_fixture.h"
#include "share/vault.h"

namespace kvkeep::share {
namespace {

using format::PartKind;

TEST_F(SharedStoreTest, AnotherServerGoesOnFromWhatOneComputed) {
  ShareServer one(world_);
  ShareServer other(world_);
  const Tokens prompt = share_prompt(1, 100);
  EXPECT_EQ(other.restorable(prompt, every(10, 100)), Position{});
  EXPECT_EQ(one.publish(prompt, every(20, 80)), 4u);
  clock_.advance_ms(4000);
  EXPECT_EQ(other.restorable(prompt, every(10, 100)), Position{80});
  EXPECT_EQ(other.restorable(share_prompt(2, 100), every(10, 100)), Position{});
  EXPECT_EQ(other.store().counters().hits, 1u);
  EXPECT_EQ(other.store().counters().damaged, 0u);
}

TEST_F(SharedStoreTest, ThatIsKnownIsNotFetchedAgain) {
  ShareServer one(world_);
  const Tokens prompt = share_prompt(1, 100);
  one.publish(prompt, every(20, 80));
  const auto path = one.find(prompt, every(20, 100), PartKind::kRows, kNoTenant, Position{45});
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->end, Position{80});
  ASSERT_EQ(path->rows.size(), 2u);
  EXPECT_EQ(path->rows.front().segment.name.begin, Position{40});
  EXPECT_FALSE(one.find(prompt, every(20, 100), PartKind::kRows, kNoTenant, Position{80}).has_value());
}

// One computes a conversation; the other's prompt leaves it in the middle of a segment and is computed on.
TEST_F(SharedStoreTest, AWayMayLeaveASegmentInItsMiddle) {
  ShareServer server(world_);
  const Tokens first = share_prompt(1, 60, 30);
  const Tokens second = share_prompt(2, 60, 30);
  server.publish(first, every(20, 60));
  std::vector<format::PathStep> path{server.step(first, Position{20}), server.step(first, Position{40})};
  path.back().end = Position{30};
  path.back().hash = server.step(first, Position{30}).hash;
  path.push_back(server.step(second, Position{60}));
  server.store().offer(server.publication(second, {Position{30}, Position{60}}, PartKind::kRows, path));
  server.run_all();
  const auto found = server.find(second, every(20, 60));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->end, Position{60});
  ASSERT_EQ(found->rows.size(), 3u);
  EXPECT_EQ(found->rows[1].segment.name.end, Position{40});
  EXPECT_EQ(server.restorable(second, every(20, 60)), Position{60});
}

// Its codes are right, because a holder of the key wrote it.
TEST_F(SharedStoreTest, AStepThatNamesAnotherPromptsSegmentEndsThePath) {
  ShareServer server(world_);
  const Tokens own = share_prompt(1, 40);
  const Tokens other = share_prompt(2, 40);
  server.publish(other, every(20, 40));
  std::vector<format::PathStep> path{server.step(own, Position{20}), server.step(own, Position{40})};
  path.front().object_hash = server.step(other, Position{40}).hash;
  path.front().object_end = Position{40};
  server.store().offer(server.publication(own, {Position{20}, Position{40}}, PartKind::kRows, path));
  server.run_all();
  ASSERT_EQ(world_.objects.size(), 3u);
  EXPECT_EQ(server.restorable(own, every(20, 40)), Position{});
  path.front() = server.step(other, Position{20});
  FrailWorld fresh(clock_);
  ShareServer second(fresh);
  second.publish(other, every(20, 40));
  second.store().offer(second.publication(own, {Position{20}, Position{40}}, PartKind::kRows, path));
  second.run_all();
  ASSERT_EQ(fresh.objects.size(), 3u);
  EXPECT_FALSE(second.find(own, every(20, 40)).has_value());
  EXPECT_EQ(second.store().counters().foreign_paths, 1u);
}

TEST_F(SharedStoreTest, PointsAreFoundWithTheRowsThatLeadToThem) {
  ShareServer one(world_);
  ShareServer other(world_);
  const Tokens prompt = share_prompt(1, 100);
  one.publish(prompt, every(20, 80), PartKind::kPoint);
  EXPECT_EQ(other.restorable(prompt, every(10, 100), PartKind::kPoint), Position{80});
  EXPECT_EQ(other.restorable(prompt, every(10, 100), PartKind::kWhole), Position{});
}

TEST_F(SharedStoreTest, WindowRowsAreFoundByTheirEnds) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 60);
  const std::vector<format::PathStep> path{server.step(prompt, Position{20})};
  server.publish(prompt, {Position{20}});
  server.store().offer(server.publication(prompt, {Position{12}, Position{20}}, PartKind::kWindowRows, path));
  server.run_all();
  const ShareQuery query{.prompt = prompt, .kind = PartKind::kWindowRows, .ends = every(10, 40), .known = {}};
  const auto heads = server.store().heads(query, clock_.monotonic_ns() + 1'000'000'000);
  ASSERT_EQ(heads.size(), 4u);
  EXPECT_FALSE(heads[0].has_value());
  ASSERT_TRUE(heads[1].has_value());
  EXPECT_EQ(heads[1]->segment.name.begin, Position{12});
  const auto payload = server.get(heads[1]->segment);
  ASSERT_TRUE(payload.ok());
  EXPECT_TRUE(std::ranges::equal((*payload)->bytes(), right_bytes(heads[1]->segment.name)));
}

// A path of many steps is in its head. Where heads and payloads are one file, no more is asked for than most heads
// have.
TEST_F(SharedStoreTest, HeadsOfAnyLengthAreFoundAndMostAreShort) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 2400);
  std::vector<format::PathStep> path;
  for (const Position end : every(4, 2400)) path.push_back(server.step(prompt, end));
  const auto ask_for = [&](Position end) {
    const ShareQuery query{.prompt = prompt, .kind = PartKind::kWindowRows, .ends = {end}, .known = {}};
    return server.store().heads(query, clock_.monotonic_ns() + 1'000'000'000).front();
  };
  for (const std::uint32_t steps : {2, 600}) {
    server.publish(prompt, every(4, 4 * steps));
    const TokenRange window{Position{4 * steps - 4}, Position{4 * steps}};
    server.store().offer(
        server.publication(prompt, window, PartKind::kWindowRows, {path.begin(), path.begin() + steps}));
    server.run_all();
    world_.head_bytes_asked = 0;
    const auto head = ask_for(window.end);
    ASSERT_TRUE(head.has_value()) << steps;
    EXPECT_EQ(head->path.size(), steps);
    EXPECT_LT(world_.head_bytes_asked, 40'000u);
  }
  EXPECT_EQ(server.store().counters().damaged, 0u);
}

TEST_F(SharedStoreTest, AHoleOnTheWayEndsThePath) {
  ShareServer one(world_);
  const Tokens prompt = share_prompt(1, 100);
  one.publish(prompt, every(20, 80), PartKind::kPoint);
  ASSERT_EQ(world_.objects.size(), 8u);
  // Rows of [40, 60) are evicted.
  for (auto& [name, object] : world_.objects) {
    const auto envelope = Vault({.fingerprint = sim::sample_fingerprint(1)}).open_envelope(name, object.head);
    ASSERT_TRUE(envelope.ok());
    if (envelope->kind == PartKind::kRows && envelope->end == Position{60}) object.head.clear();
  }
  EXPECT_EQ(ShareServer(world_).restorable(prompt, every(20, 100)), Position{40});
  EXPECT_EQ(ShareServer(world_).restorable(prompt, every(20, 100), PartKind::kPoint), Position{40});
}

// A server publishes segments that end on a grid, of which a reader guesses each end.
TEST_F(SharedStoreTest, AHundredThousandTokensOnTheGridTakeTwoRoundTrips) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 100'000);
  server.publish(prompt, every(2048, 98'304));
  const std::uint64_t before = world_.calls;
  const auto path = server.find(prompt, every(256, 100'000));
  EXPECT_EQ(world_.calls - before, 2u);
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->end, Position{98'304});
  EXPECT_EQ(path->rows.size(), 48U);
}

// The way is asked for once its end is known.
TEST_F(SharedStoreTest, AHundredThousandTokensElsewhereTakeThreeRoundTrips) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 100'000);
  server.publish(prompt, every(2000, 80'000));
  const std::uint64_t before = world_.calls;
  const auto path = server.find(prompt, every(256, 100'000));
  EXPECT_EQ(world_.calls - before, 3u);
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->end, Position{80'000 / 256 / 125 * 32'000});
}

// An engine such as S3 is asked for few heads at once.
TEST_F(SharedStoreTest, FewHeadsAtOnceFindTheSameEnd) {
  const Tokens prompt = share_prompt(1, 100'000);
  for (const std::uint32_t depth : {0u, 256u, 512u, 51'200u, 99'840u}) {
    FrailWorld world(clock_);
    ShareServer publisher(world);
    if (depth > 0) publisher.publish(prompt, every(256, depth));
    ShareServer reader(world, {}, 8);
    const std::uint64_t before = world.calls;
    const auto path = reader.find(prompt, every(256, 100'000));
    EXPECT_EQ(path ? path->end : Position{}, Position{depth});
    EXPECT_LE(world.call_names_asked, 8u) << depth;
    // The way has its own, as many as it has segments, of which the first ones come together with its end.
    EXPECT_LE(world.calls - before, 3u + 2u + depth / 256 / 8) << depth;
  }
}

TEST_F(SharedStoreTest, APromptThatIsNotThereIsNotAskedForAgainAtOnce) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 100);
  EXPECT_FALSE(server.find(prompt, every(10, 100)).has_value());
  const std::uint64_t calls = world_.calls;
  EXPECT_FALSE(server.find(prompt, every(10, 100)).has_value());
  EXPECT_EQ(world_.calls, calls);
  clock_.advance_ms(3500);
  EXPECT_FALSE(server.find(prompt, every(10, 100)).has_value());
  EXPECT_EQ(world_.calls, calls + 1);
}

// ---- whose state it is ----

TEST_F(SharedStoreTest, OtherModelsDevicesKeysAndTenantsSeeNothing) {
  ShareOptions options{.fingerprint = sim::sample_fingerprint(1), .device = "cpu: haswell", .key = "secret"};
  const Tokens prompt = share_prompt(1, 40);
  ShareServer one(world_, options);
  one.publish(prompt, every(20, 40));
  EXPECT_EQ(ShareServer(world_, options).restorable(prompt, every(20, 40)), Position{40});
  const auto sees = [&](const std::function<void(ShareOptions&)>& change) {
    ShareOptions changed = options;
    change(changed);
    return ShareServer(world_, changed).restorable(prompt, every(20, 40)) != Position{};
  };
  EXPECT_FALSE(sees([](ShareOptions& o) { o.fingerprint = sim::sample_fingerprint(2); }));
  EXPECT_FALSE(sees([](ShareOptions& o) { o.device = "cpu: zen4"; }));
  EXPECT_FALSE(sees([](ShareOptions& o) { o.device = ""; }));
  EXPECT_FALSE(sees([](ShareOptions& o) { o.weights = "of other files with this fingerprint"; }));
  EXPECT_FALSE(sees([](ShareOptions& o) { o.key = "other"; }));
  EXPECT_FALSE(sees([](ShareOptions& o) { o.key = ""; }));
  const Tenant tenant = tenant_of(options.fingerprint, "salt");
  EXPECT_EQ(ShareServer(world_, options).restorable(prompt, every(20, 40), PartKind::kRows, tenant), Position{});
  one.publish(prompt, every(20, 40), {}, tenant);
  EXPECT_EQ(world_.objects.size(), 4u);
  clock_.advance_ms(4000);
  EXPECT_EQ(ShareServer(world_, options).restorable(prompt, every(20, 40), PartKind::kRows, tenant), Position{40});
}

// Somebody who can write to the engine, and knows everything but the key.
TEST_F(SharedStoreTest, NamesAndCodesNeedTheKey) {
  const ShareOptions options{.fingerprint = sim::sample_fingerprint(1), .key = "secret"};
  const Tokens prompt = share_prompt(1, 40);
  FrailWorld forged(clock_);
  ShareServer forger(forged, {.fingerprint = sim::sample_fingerprint(1), .key = "guess"});
  forger.publish(prompt, every(20, 40));
  ShareServer server(world_, options);
  server.publish(prompt, every(20, 40));
  for (const auto& [name, object] : forged.objects) EXPECT_FALSE(world_.objects.contains(name));
  // Its objects under the right names.
  auto from = forged.objects.begin();
  for (auto& [name, object] : world_.objects) object = (from++)->second;
  ShareServer reader(world_, options);
  EXPECT_EQ(reader.restorable(prompt, every(20, 40)), Position{});
  EXPECT_EQ(reader.store().counters().damaged, 2u);
}

TEST_F(SharedStoreTest, EncryptionHidesPromptsAndState) {
  const ShareOptions options{.fingerprint = sim::sample_fingerprint(1), .key = "secret", .encrypt = true};
  const Tokens prompt = share_prompt(1, 40);
  ShareServer(world_, options).publish(prompt, every(20, 40), PartKind::kPoint);
  ASSERT_EQ(world_.objects.size(), 4u);
  const ByteSpan ids = std::as_bytes(TokenSpan(prompt).first(4));
  for (const auto& [name, object] : world_.objects) {
    EXPECT_TRUE(std::ranges::search(object.head, ids).empty());
    for (const auto& piece : object.pieces) {
      for (const Position end : every(20, 40)) {
        const auto own = ShareServer(world_, options).publication(prompt, {end, end}, PartKind::kPoint, {});
        EXPECT_TRUE(std::ranges::search(piece, own.payload->bytes().first(32)).empty());
      }
    }
  }
  EXPECT_EQ(ShareServer(world_, options).restorable(prompt, every(20, 40), PartKind::kPoint), Position{40});
  // Servers that do not encrypt what they write read it as well.
  EXPECT_EQ(ShareServer(world_, {.fingerprint = sim::sample_fingerprint(1), .key = "secret"})
                .restorable(prompt, every(20, 40), PartKind::kPoint),
            Position{40});
}

// Returns true if some run of `size` bytes of `secret` lies in some object of the engine; runs begin at each `step`th
// byte.
bool shows_any(const FrailWorld& world, ByteSpan secret, std::size_t size, std::size_t step) {
  for (const auto& [name, object] : world.objects) {
    for (std::size_t at = 0; at + size <= secret.size(); at += step) {
      const ByteSpan run = secret.subspan(at, size);
      if (!std::ranges::search(object.head, run).empty()) return true;
      for (const auto& piece : object.pieces) {
        if (!std::ranges::search(piece, run).empty()) return true;
      }
    }
  }
  return false;
}

// The ids that were sampled are the next prompt's.
TEST_F(SharedStoreTest, EncryptionHidesRecords) {
  const ShareOptions clear{.fingerprint = sim::sample_fingerprint(1), .key = "secret"};
  const Tokens ids = share_prompt(3, 64);
  const ByteSpan contents = std::as_bytes(std::span(ids));
  const auto join = [](ByteSpan there, ByteSpan offered) {
    std::vector<std::byte> both(there.begin(), there.end());
    both.insert(both.end(), offered.begin(), offered.end());
    return both;
  };
  for (const bool encrypts : {false, true}) {
    world_.objects.clear();
    ShareOptions options = clear;
    options.encrypt = encrypts;
    ShareServer server(world_, options);
    PrefixHash replaced, merged;
    replaced.bytes.fill(1);
    merged.bytes.fill(2);
    const auto offer = [&](const PrefixHash& key, MergeRecords merge) {
      EXPECT_TRUE(server.store().offer_record(key, {contents.begin(), contents.end()}, std::move(merge)));
      server.run_all();
    };
    offer(replaced, {});
    offer(merged, join);
    offer(merged, join);
    EXPECT_EQ(shows_any(world_, contents, 4 * sizeof(TokenId), sizeof(TokenId)), !encrypts);
    // Servers with the key read either, whatever they write themselves.
    for (const bool other_encrypts : {false, true}) {
      options.encrypt = other_encrypts;
      ShareServer other(world_, options);
      const auto records = other.store().records({replaced, merged}, clock_.monotonic_ns() + 1'000'000'000);
      ASSERT_TRUE(records[0].ok() && records[1].ok());
      EXPECT_TRUE(std::ranges::equal(*records[0], contents));
      EXPECT_EQ(records[1]->size(), 2 * contents.size());
    }
  }
}

// Whoever has the model's file can compute the hashes of a guessed prompt.
TEST_F(SharedStoreTest, EncryptionHidesHashes) {
  const Tokens prompt = share_prompt(1, 40);
  for (const bool encrypts : {false, true}) {
    world_.objects.clear();
    ShareServer server(world_, {.key = "secret", .encrypt = encrypts});
    EXPECT_EQ(server.publish(prompt, every(20, 40), PartKind::kWhole), 4u);
    for (std::uint32_t end = 0; end <= 40; end += 20) {
      const PrefixHash hash = hash_of(sim::sample_fingerprint(1), kNoTenant, TokenSpan(prompt).first(end));
      EXPECT_TRUE(server.store().offer_record(hash, std::vector<std::byte>(64)));
      server.run_all();
      EXPECT_EQ(shows_any(world_, std::as_bytes(std::span(hash.bytes)), 8, 1), !encrypts) << end;
    }
    EXPECT_EQ(ShareServer(world_, {.key = "secret"}).restorable(prompt, every(20, 40), PartKind::kWhole), Position{40});
  }
}

// Equal records are not equal there, nor is one that was written twice.
TEST_F(SharedStoreTest, EncryptedRecordsOfTheSameContentsDiffer) {
  ShareServer server(world_, {.fingerprint = sim::sample_fingerprint(1), .key = "secret", .encrypt = true});
  std::vector<std::vector<std::byte>> seen;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(server.store().offer_record(PrefixHash{}, std::vector<std::byte>(100)));
    server.run_all();
    ASSERT_EQ(world_.objects.size(), 1u);
    // After the record's head and its salt.
    const auto& head = world_.objects.begin()->second.head;
    seen.emplace_back(head.begin() + 32, head.end() - 32);
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[1], seen[2]);
}

TEST_F(SharedStoreTest, EncryptionNeedsAKey) {
  sim::SimExecutor executor;
  const auto made = SharedStore::make(std::make_unique<FrailEngine>(world_), {.encrypt = true}, clock_, executor);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
}

// ---- publishing ----

TEST_F(SharedStoreTest, NothingIsPublishedWithoutItsParent) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 60);
  std::vector<format::PathStep> path{server.step(prompt, Position{20}), server.step(prompt, Position{40})};
  EXPECT_TRUE(server.store().offer(server.publication(prompt, {Position{20}, Position{40}}, PartKind::kRows, path)));
  server.run_all();
  EXPECT_TRUE(world_.objects.empty());
  EXPECT_EQ(server.store().counters().orphans, 1u);
}

// An engine that began anew has what was published last again, and lacks the root.
TEST_F(SharedStoreTest, NothingIsPublishedAfterAHoleAnywhereOnItsPath) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 120);
  server.publish(prompt, every(20, 100));
  std::vector<format::PathStep> path;
  for (const Position end : every(20, 120)) path.push_back(server.step(prompt, end));
  const auto whole = world_.objects;
  for (const auto& [name, object] : whole) {
    world_.objects = whole;
    world_.objects.erase(name);
    clock_.advance_ms(10'000);
    EXPECT_TRUE(
        server.store().offer(server.publication(prompt, {Position{100}, Position{120}}, PartKind::kRows, path)));
    server.run_all();
    EXPECT_EQ(world_.objects.size(), 4u);
  }
  EXPECT_EQ(server.store().counters().orphans, 5u);
}

TEST_F(SharedStoreTest, ObjectsThatAreThereAreNotWrittenAgain) {
  const Tokens prompt = share_prompt(1, 80);
  ShareServer(world_).publish(prompt, every(20, 80));
  EXPECT_EQ(world_.puts, 4u);
  ShareServer other(world_);
  other.publish(prompt, every(20, 80));
  EXPECT_EQ(world_.puts, 4u);
  EXPECT_EQ(other.store().counters().already_there, 4u);
}

TEST_F(SharedStoreTest, TheQueueIsBoundedAndRefusesTheNewest) {
  ShareServer server(world_, {.queue_limit = ByteCount{20'000}});
  const Tokens prompt = share_prompt(1, 2000);
  const std::size_t taken = server.offer(prompt, every(20, 2000));
  EXPECT_LT(taken, 100u);
  EXPECT_LE(server.store().queued(), ByteCount{20'000});
  EXPECT_EQ(server.store().counters().refused, 100 - taken);
  server.run_all();
  EXPECT_EQ(server.store().queued(), ByteCount{});
  // Small ones that were taken after a larger one was refused had no parent.
  const ShareCounters counters = server.store().counters();
  EXPECT_EQ(counters.published + counters.orphans, taken);
  EXPECT_EQ(server.restorable(prompt, every(20, 2000)), Position{static_cast<std::uint32_t>(20 * counters.published)});
}

TEST_F(SharedStoreTest, AFullEngineStopsPublishingForAWhile) {
  ShareServer server(world_);
  world_.full = true;
  const Tokens prompt = share_prompt(1, 80);
  server.publish(prompt, every(20, 80));
  EXPECT_EQ(server.store().counters().publish_failures, 1u);
  const std::uint64_t calls = world_.calls;
  EXPECT_EQ(server.publish(prompt, every(20, 80)), 0u);
  EXPECT_EQ(world_.calls, calls);
  world_.full = false;
  clock_.advance_ms(5100);
  EXPECT_EQ(server.publish(prompt, every(20, 80)), 4u);
  EXPECT_TRUE(server.find(prompt, every(20, 80)).has_value());
}

TEST_F(SharedStoreTest, AHiccupWhilePublishingLosesNothing) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 100);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kHung);
  server.publish(prompt, every(20, 100));
  EXPECT_TRUE(world_.objects.empty());
  EXPECT_EQ(server.store().counters().waiting, 5u);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
  for (int i = 0; i < 3; ++i) {
    server.store().tick();
    server.run_all();
  }
  EXPECT_EQ(server.store().counters().waiting, 0u);
  EXPECT_EQ(server.store().queued(), ByteCount{});
  EXPECT_EQ(server.restorable(prompt, every(20, 100)), Position{100});
}

TEST_F(SharedStoreTest, NothingWaitsForADeadEngine) {
  ShareServer server(world_);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kRefusing);
  server.publish(share_prompt(1, 400), every(20, 400));
  EXPECT_GT(server.store().counters().waiting, 0u);
  for (int i = 0; i < 20; ++i) {
    server.store().tick();
    server.run_all();
    clock_.advance_ms(100);
  }
  const ShareCounters counters = server.store().counters();
  EXPECT_EQ(counters.waiting, 0u);
  EXPECT_EQ(counters.refused + counters.publish_failures, 20u);
  EXPECT_EQ(server.store().queued(), ByteCount{});
}

TEST_F(SharedStoreTest, AHalfWrittenObjectIsNotThere) {
  const Tokens prompt = share_prompt(1, 20);
  for (std::size_t part = 1; part < 10; ++part) {
    FrailWorld world(clock_);
    world.cut_put_at = part;
    ShareServer server(world);
    server.publish(prompt, every(20, 20));
    const bool whole = world.cut_put_at != 0;  // the object has fewer parts
    EXPECT_EQ(ShareServer(world).restorable(prompt, every(20, 20)), Position{whole ? 20u : 0u}) << part;
    clock_.advance_ms(2000);
    server.store().tick();
    server.run_all();
    server.publish(prompt, every(20, 20));
    EXPECT_EQ(ShareServer(world).restorable(prompt, every(20, 20)), Position{20}) << part;
  }
}

TEST_F(SharedStoreTest, ModesReadOrWriteOnly) {
  const Tokens prompt = share_prompt(1, 40);
  ShareServer writer(world_, {.mode = ShareMode::kWrite});
  EXPECT_EQ(writer.publish(prompt, every(20, 40)), 2u);
  EXPECT_FALSE(writer.store().readable());
  EXPECT_FALSE(writer.find(prompt, every(20, 40)).has_value());
  ShareServer reader(world_, {.mode = ShareMode::kRead});
  EXPECT_EQ(reader.restorable(prompt, every(20, 40)), Position{40});
  EXPECT_EQ(reader.publish(share_prompt(2, 40), every(20, 40)), 0u);
  EXPECT_FALSE(reader.store().offer_record(PrefixHash{}, {}));
}

TEST_F(SharedStoreTest, DistrustEndsAllUse) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 40);
  server.publish(prompt, every(20, 40));
  server.offer(share_prompt(2, 40), every(20, 40));
  server.store().distrust();
  server.run_all();
  EXPECT_EQ(world_.objects.size(), 2u);
  EXPECT_EQ(server.publish(share_prompt(3, 40), every(20, 40)), 0u);
  EXPECT_FALSE(server.find(prompt, every(20, 40)).has_value());
}

TEST_F(SharedStoreTest, UsesAreReportedOnceAMinute) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 40);
  server.publish(prompt, every(20, 40));
  const auto path = server.find(prompt, every(20, 40));
  ASSERT_TRUE(path.has_value());
  const std::vector<format::SegmentHeader> used{path->rows[0].segment, path->rows[1].segment};
  for (int i = 0; i < 5; ++i) {
    server.store().touch(used);
    server.run_all();
  }
  for (const auto& segment : used) EXPECT_EQ(world_.touches[server.name_of(segment)], 1);
  EXPECT_EQ(server.store().counters().touched, 2u);
  clock_.advance_ms(61'000);
  server.store().touch(used);
  server.run_all();
  for (const auto& segment : used) EXPECT_EQ(world_.touches[server.name_of(segment)], 2);
}

// The client that got a reply goes on with it elsewhere, before hundreds of MB are published.
TEST_F(SharedStoreTest, RecordsArePublishedBeforeSegments) {
  ShareServer server(world_, {.queue_limit = ByteCount{20'000}});
  const Tokens prompt = share_prompt(1, 400);
  EXPECT_LT(server.offer(prompt, every(20, 400)), 20u) << "the queue is full";
  PrefixHash key;
  EXPECT_TRUE(server.store().offer_record(key, std::vector<std::byte>(300)));
  std::vector<ObjectKind> published;
  world_.before_call = [&] {
    for (const auto& [name, object] : world_.objects) {
      if (published.empty()) published.push_back(name.kind);
    }
  };
  server.run_all();
  world_.before_call = [] {};
  ASSERT_FALSE(published.empty());
  EXPECT_EQ(published.front(), ObjectKind::kRecord);
  EXPECT_GT(world_.puts, 5u) << "segments as well";
  EXPECT_EQ(server.store().queued(), ByteCount{});
}

TEST_F(SharedStoreTest, RecordsThatWaitAreBounded) {
  ShareServer server(world_);
  PrefixHash key;
  const std::vector<std::byte> large(format::kMostRecordBytes);
  std::size_t taken = 0;
  for (; taken < 1000 && server.store().offer_record(key, large); ++taken) key.bytes[taken % 32] += 1;
  EXPECT_GT(taken, 10u);
  EXPECT_LT(taken, 1000u);
  EXPECT_LE(server.store().queued(), mebibytes(17));
  server.run_all();
  EXPECT_EQ(server.store().queued(), ByteCount{});
  EXPECT_EQ(world_.puts, taken);
}

TEST_F(SharedStoreTest, RecordsComeBackUnderTheirKeys) {
  ShareServer one(world_, {.key = "secret"});
  PrefixHash key;
  key.bytes.fill(7);
  const std::vector<std::byte> contents = sim::sample_bytes(1, 300);
  EXPECT_TRUE(one.store().offer_record(key, contents));
  one.run_all();
  ShareServer other(world_, {.key = "secret"});
  const auto records = other.store().records({key, PrefixHash{}}, clock_.monotonic_ns() + 1'000'000'000);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(*records[0], contents);
  EXPECT_EQ(records[1].error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(one.store().offer_record(key, std::vector<std::byte>(format::kMostRecordBytes + 1)));
  world_.objects.begin()->second.head.back() ^= std::byte{1};
  EXPECT_EQ(other.store().records({key}, clock_.monotonic_ns() + 1'000'000'000).front().error().kind,
            ErrorKind::kDamaged);
}

}  // namespace
}  // namespace kvkeep::share
