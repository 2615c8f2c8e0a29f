// The shared tier over an engine that hangs, refuses, cannot serve, or lost a part of an object: what that costs, and
// that it is warm again soon after.

#include <gtest/gtest.h>

#include "share/shared_store.h"
#include "share/shared_world_fixture.h"

namespace kvkeep::share {
namespace {

// ---- broken objects ----

// An engine may evict a part of an object and keep its head, which look-ups use.
TEST_F(SharedStoreTest, AnObjectThatAReaderFoundBrokenIsPublishedAgainByIt) {
  const Tokens prompt = share_prompt(1, 80);
  ShareServer(world_).publish(prompt, every(20, 80));
  ShareServer reader(world_);
  const std::uint64_t before = world_.puts;
  for (const bool damaged : {false, true}) {
    auto& pieces = world_.objects.begin()->second.pieces;
    ASSERT_FALSE(pieces.empty());
    if (damaged) {
      pieces.front().front() ^= std::byte{1};
    } else {
      pieces.back().clear();
    }
    EXPECT_LT(reader.restorable(prompt, every(20, 80)), Position{80});
    EXPECT_LT(ShareServer(world_).restorable(prompt, every(20, 80)), Position{80});
    reader.publish(prompt, every(20, 80));
    EXPECT_EQ(ShareServer(world_).restorable(prompt, every(20, 80)), Position{80});
  }
  EXPECT_EQ(world_.puts, before + 2) << "the others are whole";
  EXPECT_EQ(reader.store().counters().broken, 2u);
}

TEST_F(SharedStoreTest, AnObjectThatItsPublisherTouchesAndIsBrokenIsPublishedAgain) {
  const Tokens prompt = share_prompt(1, 80);
  ShareServer publisher(world_);
  publisher.publish(prompt, every(20, 80));
  const auto path = publisher.find(prompt, every(20, 80));
  ASSERT_TRUE(path.has_value());
  std::vector<format::SegmentHeader> used;
  for (const format::SharedHead& head : path->rows) used.push_back(head.segment);
  world_.objects.begin()->second.pieces.front().clear();
  clock_.advance_ms(4000);
  publisher.publish(prompt, every(20, 80));
  EXPECT_EQ(world_.puts, 4u) << "its head is there";
  publisher.store().touch(used);
  publisher.run_all();
  EXPECT_EQ(publisher.store().counters().broken, 1u);
  publisher.publish(prompt, every(20, 80));
  EXPECT_EQ(world_.puts, 5u);
  EXPECT_EQ(ShareServer(world_).restorable(prompt, every(20, 80)), Position{80});
}

// One of the nodes hangs: the uses of objects at the others are told, and these go on being asked.
TEST_F(SharedStoreTest, TroubleWithUsesIsThatOfTheNodeWhichHasIt) {
  const Tokens prompt = share_prompt(1, 400);
  ShareServer server(world_);
  server.publish(prompt, every(20, 400));
  const auto path = server.find(prompt, every(20, 400));
  ASSERT_TRUE(path.has_value());
  const FrailEngine engine(world_);
  std::vector<format::SegmentHeader> used;
  std::vector<NodeId> nodes;
  for (const format::SharedHead& head : path->rows) {
    used.push_back(head.segment);
    nodes.push_back(engine.node_of(server.name_of(head.segment)));
  }
  for (std::uint32_t hung = 0; hung < world_.nodes.size(); ++hung) {
    clock_.advance_ms(61'000);
    world_.touches.clear();
    world_.nodes[hung] = FrailWorld::Node::kHung;
    server.store().touch(used);
    server.run_all();
    const std::uint64_t gets = world_.gets;
    std::size_t well = 0;
    for (std::size_t i = 0; i < used.size(); ++i) {
      const bool is_well = nodes[i] != NodeId{hung};
      well += is_well ? 1 : 0;
      EXPECT_EQ(world_.touches.contains(server.name_of(used[i])), is_well) << i;
      EXPECT_EQ(server.get(used[i]).ok(), is_well) << i;
    }
    EXPECT_LT(well, used.size());
    EXPECT_EQ(world_.gets - gets, well) << "the one that hangs is not asked";
    world_.nodes[hung] = FrailWorld::Node::kWell;
    clock_.advance_ms(5'000);
    server.store().tick();
    server.run_all();
    server.store().touch(used);
    server.run_all();
    for (const format::SegmentHeader& segment : used) {
      EXPECT_EQ(world_.touches[server.name_of(segment)], 1) << "a minute counts from a use that was told";
    }
  }
}

// Under one end lies the segment of another server, which began elsewhere and has fewer pieces.
TEST_F(SharedStoreTest, ASegmentOfAnotherServerWithTheSameEndIsNotBroken) {
  const Tokens prompt = share_prompt(1, 80);
  ShareServer(world_).publish(prompt, every(20, 80));
  ShareServer other(world_);
  other.publish(prompt, every(40, 80));
  const auto path = other.find(prompt, every(40, 80));
  ASSERT_TRUE(path.has_value());
  for (auto& [name, object] : world_.objects) object.pieces.front().clear();
  std::vector<format::SegmentHeader> used;
  for (format::SharedHead head : path->rows) {
    head.segment.parts.front().size_bytes += 1;
    used.push_back(std::move(head.segment));
  }
  other.store().touch(used);
  other.run_all();
  EXPECT_EQ(other.store().counters().broken, 0u);
}

// The objects of another server under the same names, which cut the prompt elsewhere or encrypted it anew.
TEST_F(SharedStoreTest, AnObjectThatWasReplacedSinceItsHeadWasReadIsNotBroken) {
  const Tokens prompt = share_prompt(1, 80);
  for (const bool elsewhere : {true, false}) {
    SCOPED_TRACE(elsewhere);
    const ShareOptions options{.key = "secret", .encrypt = !elsewhere && can_encrypt()};
    FrailWorld other(clock_);
    ShareServer(other, options).publish(prompt, elsewhere ? every(40, 80) : every(20, 80));
    world_.objects.clear();
    ShareServer(world_, options).publish(prompt, every(20, 80));
    ShareServer reader(world_, options);
    const auto path = reader.find(prompt, every(20, 80));
    ASSERT_TRUE(path.has_value());
    ASSERT_EQ(path->rows.size(), 4U);
    for (const auto& [name, object] : other.objects) world_.objects[name] = object;
    for (std::size_t i = 0; i < path->rows.size(); ++i) {
      const format::SegmentHeader& segment = path->rows[i].segment;
      const auto payload = reader.get(segment);
      const bool has_another_begin = elsewhere && i % 2 == 1;
      ASSERT_EQ(payload.ok(), !has_another_begin) << i;
      if (payload.ok()) {
        EXPECT_TRUE(std::ranges::equal((*payload)->bytes(), right_bytes(segment.name)));
      } else {
        EXPECT_EQ(payload.error().kind, ErrorKind::kNotFound);
      }
    }
    EXPECT_EQ(reader.store().counters().broken, 0U);
    EXPECT_EQ(reader.store().counters().damaged, 0U);
  }
}

// ---- nodes in trouble ----

TEST_F(SharedStoreTest, AHungEngineCostsOneDeadlineForEachOpening) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 100);
  server.publish(prompt, every(20, 100));
  std::ranges::fill(world_.nodes, FrailWorld::Node::kHung);
  double paid_ms = 0;
  for (int request = 0; request < 200; ++request) {
    paid_ms += ms_of([&] { server.find(share_prompt(request, 100), every(20, 100)); });
    clock_.advance_ms(100);
    server.store().tick();
    server.run_all();  // next to requests: its time is nobody's
  }
  const auto openings = server.store().counters().breaker_openings;
  EXPECT_EQ(openings, world_.nodes.size());
  EXPECT_LE(paid_ms, 50.1 * static_cast<double>(openings));
  EXPECT_FALSE(server.store().readable());
}

// However long it was gone. A tick comes each second, and probes of nodes that hang take their time.
TEST_F(SharedStoreTest, AnEngineThatHealsServesAgainWithinFiveSeconds) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 100);
  server.publish(prompt, every(20, 100));
  const auto tick_once = [&] {
    clock_.advance_ms(1000);
    server.store().tick();
    server.run_all();
  };
  for (const int gone_ticks : {1, 3, 10, 100, 1000, 1001}) {
    std::ranges::fill(world_.nodes, FrailWorld::Node::kHung);
    for (int i = 0; i < gone_ticks; ++i) {
      server.find(share_prompt(7, 100), every(20, 100));
      tick_once();
    }
    std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
    const std::int64_t healed_ns = clock_.monotonic_ns();
    while (server.restorable(prompt, every(20, 100)) != Position{100}) {
      tick_once();
      ASSERT_LE(os::elapsed_ms(healed_ns, clock_.monotonic_ns()), 5000) << gone_ticks;
    }
  }
}

// Its probes are answered: only requests show that it is of no use. Whether it hangs before the first byte of a payload
// or in its middle.
TEST_F(SharedStoreTest, AnEngineWhosePayloadsHangCostsOneDeadlineForEachOpening) {
  const Tokens prompt = share_prompt(1, 20);
  ShareServer(world_).publish(prompt, every(20, 20));
  for (const bool in_the_middle : {false, true}) {
    SCOPED_TRACE(in_the_middle);
    ShareServer server(world_);
    world_.reads_hang = !in_the_middle;
    world_.hang_after_bytes = in_the_middle ? 50 : SIZE_MAX;
    int paid = 0;
    for (int request = 0; request < 100; ++request) {
      const double ms = ms_of([&] {
        const auto path = server.find(prompt, every(20, 20));
        if (!path) return;
        EXPECT_FALSE(server.get(path->rows.front().segment).ok());
      });
      if (ms > 3) ++paid;
      EXPECT_LE(ms, 50 + 3 * world_.answer_ms + 0.1) << request;
      server.tick();
    }
    // One for each time that it opens: after 0, 5, 15, 35 and 75 seconds.
    EXPECT_EQ(paid, 5);
    EXPECT_EQ(server.store().counters().breaker_openings, 5U);
  }
}

// Reads that go on side by side share the network: none of them is silent because another one's bytes come.
TEST_F(SharedStoreTest, AReadBesideOthersMayBeSilentForLonger) {
  const Tokens prompt = share_prompt(1, 400);
  ShareServer(world_).publish(prompt, every(20, 400));
  ShareServer server(world_);
  const auto path = server.find(prompt, every(20, 400));
  ASSERT_TRUE(path.has_value());
  const auto silence_ns = [&](std::size_t side_by_side) {
    EXPECT_TRUE(server.store().get(path->rows.front().segment, INT64_MAX, side_by_side).ok());
    return world_.read_silence_ns;
  };
  const std::int64_t alone_ns = silence_ns(1);
  EXPECT_EQ(alone_ns, 50'000'000) << "as long as any look-up may take, however fast they are";
  EXPECT_EQ(silence_ns(3), 3 * alone_ns);
}

TEST_F(SharedStoreTest, ACallerWithoutPatienceForTheRestOfAPayloadIsNoTroubleOfItsNode) {
  const Tokens prompt = share_prompt(1, 200);
  ShareServer(world_).publish(prompt, every(20, 200));
  ShareServer server(world_);
  const auto path = server.find(prompt, every(20, 200));
  ASSERT_TRUE(path.has_value());
  const auto is_large = [](const format::SharedHead& head) { return format::payload_bytes(head.segment) > 1'500; };
  const auto large = std::ranges::find_if(path->rows, is_large);
  ASSERT_NE(large, path->rows.end());
  world_.hang_after_bytes = 1'500;
  EXPECT_FALSE(server.store().get(large->segment, clock_.monotonic_ns() + 2'000'000).ok());
  EXPECT_EQ(server.store().counters().failures, 0U);
  world_.hang_after_bytes = SIZE_MAX;
  EXPECT_TRUE(server.get(large->segment).ok());
}

// Others are served, and it is well again as soon as it heals.
TEST_F(SharedStoreTest, APublicationThatHangsHidesNoHealing) {
  const Tokens prompt = share_prompt(1, 100);
  ShareServer(world_).publish(prompt, every(20, 100));
  ShareServer server(world_);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kHung);
  for (int request = 0; request < 10; ++request) {
    server.find(share_prompt(7, 400), every(20, 400));
    server.tick();
  }
  EXPECT_FALSE(server.store().readable());
  // The worker has a publication in hand, whose connection was cut, for as long as the test lasts.
  std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
  const std::int64_t healed_ns = clock_.monotonic_ns();
  while (server.restorable(prompt, every(20, 100)) != Position{100}) {
    clock_.advance_ms(1'000);
    server.store().tick();
    server.prober().run_all();
    ASSERT_LE(os::elapsed_ms(healed_ns, clock_.monotonic_ns()), 5'000);
  }
}

// Its bytes would be allowed five seconds.
TEST_F(SharedStoreTest, APublicationIsGivenUpWhereNothingGoes) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 20);
  Publication large = server.publication(prompt, {Position{}, Position{20}}, format::PartKind::kRows,
                                         {server.step(prompt, Position{20})});
  format::Part& part = large.segment.parts.front();
  auto buffer = store::PayloadBuffer::allocate(16 << 20);
  std::ranges::fill(buffer.span(), std::byte{7});
  part.size_bytes = buffer.span().size();
  part.sum = format::part_checksum(large.segment.fingerprint, large.segment.name, part.kind, buffer.span());
  large.payload = std::move(buffer).freeze();
  world_.puts_hang = true;
  ASSERT_TRUE(server.store().offer(std::move(large)));
  EXPECT_LE(ms_of([&] { server.run_all(); }), 3'100);
  world_.puts_hang = false;
  server.tick(5'000);
  EXPECT_EQ(server.store().counters().published, 1U) << "it was tried again";
}

// As a directory on a NAS, where each file takes its time.
TEST_F(SharedStoreTest, ANodeThatAnswersForSomeNamesInTimeIsSlowAndHasNotFailed) {
  const Tokens prompt = share_prompt(1, 400);
  ShareServer(world_).publish(prompt, every(20, 400));
  ShareServer server(world_);
  world_.names_in_time = 12;
  for (int request = 0; request < 5; ++request) {
    const auto path = server.find(prompt, every(20, 400));
    ASSERT_TRUE(path.has_value()) << request;
    EXPECT_EQ(path->end, Position{240});
    server.tick(4'000);
  }
  EXPECT_EQ(server.store().counters().failures, 0U);
  EXPECT_GT(server.store().latency_ms(), 5) << "requests that would not wait so long ask no more";
}

TEST_F(SharedStoreTest, ANodeInTroubleCostsOnlyItsOwnNames) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 400);
  server.publish(prompt, every(20, 400));
  world_.nodes[1] = FrailWorld::Node::kRefusing;
  clock_.advance_ms(4000);
  EXPECT_LT(server.restorable(prompt, every(20, 400)), Position{400});
  EXPECT_TRUE(server.store().readable());
  world_.nodes[1] = FrailWorld::Node::kWell;
  server.store().tick();
  server.run_all();
  EXPECT_EQ(server.restorable(prompt, every(20, 400)), Position{400});
}

TEST_F(SharedStoreTest, ALoadingNodeIsAMissAndNoFailure) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 40);
  server.publish(prompt, every(20, 40));
  std::ranges::fill(world_.nodes, FrailWorld::Node::kLoading);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(server.find(prompt, every(20, 40)).has_value());
  EXPECT_EQ(server.store().counters().breaker_openings, 0u);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
  EXPECT_TRUE(server.find(prompt, every(20, 40)).has_value());
}

// An alert on the counter fires, though nothing is asked any more.
TEST_F(SharedStoreTest, ANodeThatRefusesUsGoesOnToCountFailures) {
  ShareServer server(world_);
  world_.refuses_us = true;
  for (int i = 0; i < 3; ++i) {
    server.find(share_prompt(i, 400), every(20, 400));
    server.tick(2'000);
  }
  const std::uint64_t calls = world_.calls;
  const std::uint64_t failures = server.store().counters().failures;
  for (int i = 0; i < 10; ++i) {
    server.find(share_prompt(i + 10, 400), every(20, 400));
    server.tick(2'000);
  }
  EXPECT_EQ(world_.calls, calls) << "a right that is missing is not tried again by requests";
  EXPECT_GE(server.store().counters().failures, failures + 10);
}

// Its names may belong to another node by now. A tick asks it where, and not each tick.
TEST_F(SharedStoreTest, ANodeThatCannotServeIsProbedSoon) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 400);
  server.publish(prompt, every(20, 400));
  const auto probes_after = [&](std::int64_t ms) {
    clock_.advance_ms(ms);
    server.find(prompt, every(20, 400));
    std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
    const std::uint64_t before = world_.probes;
    server.store().tick();
    server.run_all();
    return world_.probes - before;
  };
  EXPECT_EQ(probes_after(10'000), 0u);
  world_.nodes[0] = FrailWorld::Node::kLoading;
  EXPECT_EQ(probes_after(0), 1u);
  EXPECT_EQ(server.restorable(prompt, every(20, 400)), Position{400}) << "it was asked on";
  world_.nodes[0] = FrailWorld::Node::kLoading;
  EXPECT_EQ(probes_after(1000), 0u);
  EXPECT_EQ(probes_after(1000), 1u);
}

TEST_F(SharedStoreTest, DeadlinesFollowTheMeasuredLatency) {
  ShareServer server(world_);
  world_.answer_ms = 2;
  for (std::uint32_t i = 0; i < 20; ++i) server.find(share_prompt(i, 400), every(20, 400));
  EXPECT_NEAR(server.store().latency_ms(), 2, 0.1);
  EXPECT_NEAR(server.store().counters().latency_ms, 2, 0.1);
  EXPECT_EQ(server.store().counters().nodes, 3u);
  EXPECT_EQ(server.store().counters().left_alone, 0u);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kHung);
  EXPECT_NEAR(ms_of([&] { server.find(share_prompt(99, 400), every(20, 400)); }), 8, 1);
  EXPECT_GT(server.store().counters().left_alone, 0u);
}

// Its round trips are many, and none takes longer than usual.
TEST_F(SharedStoreTest, ALongWayAtANodeThatAnswersIsFollowedToItsEnd) {
  constexpr std::size_t kHeadsAtOnce = 1;
  ShareServer server(world_, {}, kHeadsAtOnce);
  const Tokens prompt = share_prompt(1, 3200);
  world_.answer_ms = 6;
  server.publish(prompt, every(20, 3200));
  ShareServer reader(world_, {}, kHeadsAtOnce);
  const double ms = ms_of([&] {
    const auto path = reader.find(prompt, every(20, 3200));
    ASSERT_TRUE(path.has_value());
    EXPECT_EQ(path->end, Position{3200});
  });
  EXPECT_GT(ms, 50) << "a deadline";
}

TEST_F(SharedStoreTest, NodesThatHangAtDifferentRoundTripsCostOneDeadline) {
  ShareServer server(world_, {}, 1);
  world_.nodes[1] = world_.nodes[2] = FrailWorld::Node::kHung;
  const std::uint64_t before = world_.calls;
  const double paid_ms = ms_of([&] { server.find(share_prompt(1, 1600), every(20, 1600)); });
  EXPECT_GT(server.store().counters().failures, 0u);
  EXPECT_LE(paid_ms, 50.1 + world_.answer_ms * static_cast<double>(world_.calls - before));
}

// Requests that would not wait so long ask it no more.
TEST_F(SharedStoreTest, ANodeThatWasSlowIsMeasuredAgain) {
  ShareServer server(world_);
  world_.answer_ms = 30;
  for (std::uint32_t i = 0; i < 20; ++i) server.find(share_prompt(i, 400), every(20, 400));
  EXPECT_NEAR(server.store().latency_ms(), 30, 0.1);
  world_.answer_ms = 2;
  const auto tick_after = [&](std::int64_t ms) {
    clock_.advance_ms(ms);
    server.store().tick();
    server.run_all();
    return server.store().latency_ms();
  };
  EXPECT_NEAR(tick_after(5'000), 30, 0.1) << "not at once";
  EXPECT_NEAR(tick_after(5'000), 2, 0.1);
  world_.answer_ms = 3;
  EXPECT_NEAR(tick_after(10'000), 2, 0.1) << "a probe takes longer than a look-up";
  const std::uint64_t probes = world_.probes;
  world_.answer_ms = 0.3;
  for (std::uint32_t i = 0; i < 20; ++i) server.find(share_prompt(i, 400), every(20, 400));
  tick_after(20'000);
  EXPECT_EQ(world_.probes, probes) << "it is no longer slow";
}

TEST_F(SharedStoreTest, CallsForOneNameDoNotShortenTheDeadlineOfMany) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 400);
  server.publish(prompt, every(20, 400));
  for (int i = 0; i < 20; ++i) (void)server.store().records({PrefixHash{}}, clock_.monotonic_ns() + 1'000'000'000);
  world_.answer_ms = 40;
  EXPECT_TRUE(server.find(prompt, every(20, 400)).has_value());
}

// A long conversation asks for its sampled turns right before its rows are looked up.
TEST_F(SharedStoreTest, RecordsAreAskedForAtTheEnginesPace) {
  constexpr std::size_t kAtOnce = 8;
  ShareServer server(world_, {}, kAtOnce);
  const Tokens prompt = share_prompt(1, 200);
  server.publish(prompt, every(20, 200));
  std::vector<PrefixHash> places;
  for (std::uint8_t i = 0; i < 250; ++i) places.emplace_back().bytes.fill(i);
  for (const std::size_t known : {0U, 249U}) ASSERT_TRUE(server.store().offer_record(places[known], {std::byte{1}}));
  server.run_all();
  world_.answer_ms = 40;
  world_.more_names_take_longer = true;
  const std::int64_t from_ns = clock_.monotonic_ns();
  const auto records = server.store().records(places, from_ns + 300'000'000);
  EXPECT_LE(os::elapsed_ms(from_ns, clock_.monotonic_ns()), 340) << "a round trip begins in time, or not at all";
  EXPECT_TRUE(records[249].ok()) << "the newest come first";
  EXPECT_EQ(records[248].error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(records[0].error().kind, ErrorKind::kBusy) << "nothing is known of it";
  EXPECT_EQ(server.store().counters().failures, 0U);
  EXPECT_NEAR(server.store().latency_ms(), 40, 1);
  EXPECT_TRUE(server.find(prompt, every(20, 200)).has_value());
}

// A request that prefills soon has little patience; that says nothing about the nodes.
TEST_F(SharedStoreTest, ACallerWithoutPatienceIsNoTroubleOfANode) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 400);
  world_.answer_ms = 10;
  server.publish(prompt, every(20, 400));
  const ShareQuery query{.prompt = prompt, .ends = every(20, 400)};
  for (int i = 0; i < 10; ++i) {
    const auto found = server.store().find(query, clock_.monotonic_ns() + 1'000'000);
    EXPECT_FALSE(found.has_value()) << "the first round trip takes all patience";
  }
  EXPECT_EQ(server.store().counters().failures, 0u);
  EXPECT_TRUE(server.find(prompt, every(20, 400)).has_value());
}

TEST_F(SharedStoreTest, AnEngineTellsWhatItIsOnceItIsWell) {
  std::ranges::fill(world_.nodes, FrailWorld::Node::kRefusing);
  int told = 0;
  const ShareOptions options{.when_well = [&](ObjectEngine& engine, std::int64_t deadline_ns) {
    EXPECT_TRUE(engine.facts(deadline_ns).ok());
    return ++told == 2;
  }};
  ShareServer server(world_, options);
  for (int i = 0; i < 10; ++i) server.tick();
  EXPECT_EQ(told, 0) << "it does not answer";
  world_.nodes.front() = FrailWorld::Node::kWell;
  for (int i = 0; i < 400; ++i) server.tick();
  EXPECT_EQ(told, 1) << "one of three nodes answered once";
  std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
  for (int i = 0; i < 400; ++i) server.tick();
  EXPECT_EQ(told, 2);
  std::ranges::fill(world_.nodes, FrailWorld::Node::kRefusing);
  (void)server.find(share_prompt(1, 400), every(20, 400));
  (void)server.find(share_prompt(2, 400), every(20, 400));
  for (int i = 0; i < 10; ++i) server.tick();
  std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
  for (int i = 0; i < 400; ++i) server.tick();
  EXPECT_EQ(told, 3) << "it may have been started with other settings";
  for (int i = 0; i < 400; ++i) server.tick();
  EXPECT_EQ(told, 3) << "that was all";
}

// Nobody asked it anything meanwhile, so that no call failed.
TEST_F(SharedStoreTest, AnEngineThatEndedConnectionsIsAskedWhatItIs) {
  int told = 0;
  ShareServer server(world_, {.when_well = [&](ObjectEngine&, std::int64_t) { return ++told > 0; }});
  for (int i = 0; i < 20; ++i) server.tick();
  EXPECT_EQ(told, 1);
  const auto hang_up = [&] {
    world_.hung_up = {NodeId{1}};
    const std::uint64_t probes = world_.probes;
    server.tick();
    EXPECT_EQ(world_.probes, probes + 1);
  };
  hang_up();
  EXPECT_EQ(told, 2);
  hang_up();
  EXPECT_EQ(told, 2) << "not so soon again";
  for (int i = 0; i < 20; ++i) server.tick();
  EXPECT_EQ(told, 3);
  EXPECT_EQ(server.store().counters().failures, 0u);
}

}  // namespace
}  // namespace kvkeep::share
