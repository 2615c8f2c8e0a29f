// A server that stops, or whose engine is full, keeps no request waiting, and its log names that state instead of
// calling it a failure.

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <functional>
#include <memory>
#include <sstream>

#include "share/recent_names.h"
#include "share/shared_store.h"
#include "share/shared_world_fixture.h"

namespace kvkeep::share {
namespace {

// Returns the lines that `act` writes to the log.
std::string logged_by(const std::function<void()>& act) {
  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(lines)));
  act();
  spdlog::set_default_logger(before);
  return lines.str();
}

// A server that stops waits for nothing longer, whatever hangs: publications and those that wait for them, probes, and
// what the engine says of itself.
TEST_F(SharedStoreTest, AServerThatStopsWaitsForNoEngine) {
  for (const bool all_hangs : {true, false}) {
    ShareServer server(world_, {.when_well = [&](ObjectEngine&, std::int64_t deadline_ns) {
                         clock_.advance_ns(std::max<std::int64_t>(deadline_ns - clock_.monotonic_ns(), 0));
                         return false;
                       }});
    server.publish(share_prompt(9, 20), every(20, 20));
    world_.puts_hang = !all_hangs;
    if (all_hangs) std::ranges::fill(world_.nodes, FrailWorld::Node::kHung);
    const std::int64_t end_ns = clock_.monotonic_ns() + 3 * kSecondNs;
    server.store().end_by(end_ns);
    for (int round = 0; round < 5; ++round) {
      server.publish(share_prompt(round, 400), every(20, 400));
      server.tick();
      server.prober().run_all();
    }
    EXPECT_LE(clock_.monotonic_ns(), end_ns + 5 * kSecondNs) << "each tick is a second";
    clock_.advance_ns(std::max<std::int64_t>(end_ns - clock_.monotonic_ns(), 0));
    const std::int64_t over_ns = clock_.monotonic_ns();
    const std::string log = logged_by([&] {
      server.publish(share_prompt(70, 400), every(20, 400));
      server.store().tick();
      server.run_all();
      server.prober().run_all();
    });
    EXPECT_LE(clock_.monotonic_ns(), over_ns + 1'000) << "nothing waits any more";
    EXPECT_EQ(log, "") << "no trouble of the engine";
    world_.puts_hang = false;
    std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
  }
}

TEST(TransferLimits, MayEndEarlierWhileATransferIsUnderWay) {
  const auto end = std::make_shared<std::atomic<std::int64_t>>(INT64_MAX);
  const TransferLimits limits{30 * kSecondNs, 3 * kSecondNs, end};
  EXPECT_EQ(limits.wait_until(kSecondNs), 4 * kSecondNs);
  *end = 2 * kSecondNs;
  EXPECT_EQ(limits.end_ns(), 2 * kSecondNs);
  EXPECT_EQ(limits.wait_until(kSecondNs), 2 * kSecondNs);
}

// It is still read: the log says what stops, and that it is the only thing.
TEST_F(SharedStoreTest, AFullEngineIsNoTrouble) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 100);
  server.publish(prompt, every(20, 100));
  world_.full = true;
  const std::string log = logged_by([&] { server.publish(share_prompt(2, 100), every(20, 100)); });
  EXPECT_NE(log.find("frail://engine is full (used memory > 'maxmemory'): publishing pauses for 5 s, and reads go on"),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("trouble"), std::string::npos) << log;
  EXPECT_EQ(server.store().counters().failures, 1U);
  EXPECT_EQ(server.restorable(prompt, every(20, 100)), Position{100});
}

}  // namespace
}  // namespace kvkeep::share
