// Searches without a shared tier: when one is over, and what a request in the queue does until then.

#include "server/run/search.h"

#include <gtest/gtest.h>

#include "policy/next_call.h"
#include "server/run/parts_fixture.h"
#include "server/run/request_queue.h"
#include "server/run/scheduler_test_fixture.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::server {
namespace {

std::unique_ptr<Request> searching_request(const std::string& id, std::shared_ptr<Search> search) {
  Job job{.id = id, .kind = "test", .prompt = counting(10), .sampling = {}};
  auto request = make_request({.job = std::move(job), .replies = {std::make_shared<CollectingSink>()}});
  request->search = std::move(search);
  return request;
}

TEST(Search, IsOverWhenItIsAnswered) {
  sim::SimClock clock;
  Search search(clock, 300);
  EXPECT_FALSE(search.over());
  EXPECT_TRUE(search.begin());
  clock.advance_ms(7);
  search.answer({.asked = true, .found = Position{512}, .ms = 5});
  EXPECT_TRUE(search.over());
  ASSERT_TRUE(search.result().has_value());
  EXPECT_EQ(search.result()->found, Position{512});
  EXPECT_NEAR(search.ms(), 7, 0.001);
}

TEST(Search, IsOverAfterAWhileWithoutAnAnswer) {
  sim::SimClock clock;
  Search search(clock, 300);
  EXPECT_TRUE(search.begin());
  clock.advance_ms(399);
  EXPECT_FALSE(search.over());
  clock.advance_ms(2);
  EXPECT_TRUE(search.over()) << "docs/sharing.md says 400 ms";
  EXPECT_FALSE(search.result().has_value());
}

// Searches of others come first, and each of them may take its time.
TEST(Search, ItsTimeCountsFromItsTurn) {
  sim::SimClock clock;
  Search search(clock, 300);
  clock.advance_ms(599);
  EXPECT_FALSE(search.over());
  EXPECT_TRUE(search.begin());
  clock.advance_ms(399);
  EXPECT_FALSE(search.over());
  search.answer({.asked = true, .found = Position{512}, .ms = 5});
  EXPECT_EQ(search.result()->found, Position{512});
}

TEST(Search, ATurnThatDoesNotComeSoonIsNotWaitedFor) {
  sim::SimClock clock;
  Search search(clock, 50);
  clock.advance_ms(99);
  EXPECT_FALSE(search.over());
  clock.advance_ms(2);
  EXPECT_TRUE(search.over());
  search.abandon();
  EXPECT_FALSE(search.begin());
}

TEST(Search, ItsRequestWaitsAndHoldsNobodyUp) {
  sim::SimClock clock;
  const auto search = std::make_shared<Search>(clock, 300);
  RequestQueue queue;
  queue.add(searching_request("a", search));
  queue.add(searching_request("b", nullptr));
  const auto next = [&] {
    return policy::next_start({.admitted = {},
                               .queued = queue.facts(),
                               .idle = {},
                               .most_admitted = 2,
                               .served_last = policy::kNoSession,
                               .limits = {}});
  };
  const auto nothing = [](const AwaitedPrefix&) { return false; };
  EXPECT_FALSE(queue.release(nothing, 0));
  EXPECT_LE(queue.longest_wait().count(), 10) << "the search may soon have taken too long";
  ASSERT_TRUE(next().has_value());
  EXPECT_EQ(next()->at, 1U) << "the other one starts";
  search->answer({});
  EXPECT_TRUE(queue.release(nothing, 0));
  EXPECT_EQ(next()->at, 0U);
  EXPECT_FALSE(queue.release(nothing, 0)) << "once";
  EXPECT_EQ(queue.longest_wait().count(), 100);
}

TEST(Searches, BeginOnlyWithASharedTier) {
  World world;
  Searches searches(world.cache, os::real_clock(), [] {});
  Job job{.id = "x", .kind = "test", .prompt = counting(1000), .sampling = {}};
  EXPECT_EQ(searches.begin(job), nullptr);
}

}  // namespace
}  // namespace kvkeep::server
