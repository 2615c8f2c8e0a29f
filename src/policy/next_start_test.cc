// Who of a queue starts next: tables of situations, and that no session and no request waits for ever. The twin of
// next_call_test.cc has the same rules.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "policy/next_call_fixture.h"

namespace kvkeep::policy {
namespace {

// Returns what leaves the queue for a single place next.
std::string leaves(const std::vector<QueuedRequest>& queue, std::vector<ScheduledRequest> admitted = {},
                   std::uint64_t served_last = kNoSession) {
  const std::size_t most = admitted.size() + 1;
  return text(next_start({.admitted = std::move(admitted),
                          .queued = queue,
                          .idle = {},
                          .most_admitted = most,
                          .served_last = served_last,
                          .limits = {}}));
}

TEST(NextStart, GoesByWorkWherePlacesAreScarce) {
  EXPECT_EQ(leaves(queue_of({9'000, 100, 500})), "queue 1");
  EXPECT_EQ(leaves(queue_of({9'000, 8'500})), "queue 0") << "about the same";
  auto queue = queue_of({9'000, 100, 500});
  queue[1].awaits = true;
  EXPECT_EQ(leaves(queue), "queue 2");
  queue[0].overtaken = kMostOvertaken;
  EXPECT_EQ(leaves(queue), "queue 2") << "each is a session of its own, so that none of its session overtook it";
  for (QueuedRequest& request : queue) request.session = 7;
  EXPECT_EQ(leaves(queue), "queue 0");
  queue[2].overtaken = kMostOvertaken + 1;
  EXPECT_EQ(leaves(queue), "queue 0") << "the first of those that are due";
}

// A key with many requests, each of a session of its own, takes no more places than a key with one.
TEST(NextStart, SharesPlacesBetweenKeys) {
  auto queue = queue_of({100, 100, 9'000});
  queue[0].key = queue[1].key = 7;
  queue[2].key = 8;
  EXPECT_EQ(leaves(queue), "queue 0");
  EXPECT_EQ(leaves(queue, {of_key(decoding(), 7)}), "queue 2");
  EXPECT_EQ(leaves(queue, {of_key(decoding(), 7), of_key(decoding(), 8)}), "queue 0");
  queue[1].priority = -1;
  queue[0].session = queue[1].session = 3;
  queue[0].overtaken = kMostOvertaken;
  EXPECT_EQ(leaves(queue, {of_key(decoding(), 7)}), "queue 2") << "a priority holds among requests of its key";
  EXPECT_EQ(leaves(queue), "queue 0");
  queue[0].key_started = queue[1].key_started = 5;
  queue[2].key_started = 4;
  EXPECT_EQ(leaves(queue), "queue 2") << "its key waited longer for a start";
}

TEST(NextStart, ServesSessionsInTurn) {
  auto queue = queue_of({100, 100, 9'000});
  queue[0].session = queue[1].session = 7;
  queue[2].session = 8;
  EXPECT_EQ(leaves(queue), "queue 0");
  EXPECT_EQ(leaves(queue, {}, 7), "queue 2") << "not the same twice in a row";
  EXPECT_EQ(leaves(queue, {of_session(decoding(), 7)}), "queue 2") << "the other one has a place";
  EXPECT_EQ(leaves(queue, {of_session(decoding(), 7), of_session(decoding(), 8)}), "queue 0");
  EXPECT_EQ(leaves(queue, {of_session(decoding(), 7), of_session(decoding(), 7), of_session(decoding(), 8)}),
            "queue 2");
  for (QueuedRequest& request : queue) request.session = kNoSession;
  EXPECT_EQ(leaves(queue, {decoding()}), "queue 0") << "requests without a session are nobody's";
}

TEST(NextStart, ServesTheLowestPriorityFirstUntilOthersWereOvertakenTooOften) {
  auto queue = queue_of({100, 9'000, 50});
  queue[1].priority = -2;
  queue[2].priority = 3;
  EXPECT_EQ(leaves(queue), "queue 1");
  queue[1].session = 7;
  EXPECT_EQ(leaves(queue, {of_session(decoding(), 7)}, 7), "queue 1") << "whatever its session runs";
  queue[0].passed = kMostOvertaken;
  EXPECT_EQ(leaves(queue), "queue 0");
  queue[2].passed = kMostOvertaken + 1;
  EXPECT_EQ(leaves(queue), "queue 2") << "its session waits longer";
}

// A session's own order says nothing about others: a flood of requests, each overtaken often, comes in its turn.
TEST(NextStart, ServesTheOvertakenOfASessionInTheSessionsTurn) {
  auto queue = queue_of({9'000, 100, 100, 500});
  for (const std::size_t i : {0U, 1U, 2U}) queue[i].session = 7;
  queue[3].session = 8;
  queue[0].priority = 3;
  queue[0].overtaken = queue[1].overtaken = kMostOvertaken;
  EXPECT_EQ(leaves(queue), "queue 0") << "before the more urgent ones of its session";
  EXPECT_EQ(leaves(queue, {of_session(decoding(), 7)}), "queue 3");
  EXPECT_EQ(leaves(queue, {}, 7), "queue 3");
  queue[3].passed = 2;
  queue[3].work = 100;
  EXPECT_EQ(leaves(queue), "queue 3") << "of sessions with as much to do the one that waits longer";
  queue[0].key = 1;
  EXPECT_EQ(leaves(queue, {of_key(decoding(), 1)}, 8), "queue 1") << "a session ends with its key";
}

// For one place, while shorter and more urgent requests of all sessions come all the time: of n sessions each gets one
// start in kMostOvertaken + n, and later requests of its session go before a request kMostOvertaken times.
TEST(NextStart, EachSessionAndEachRequestWaitsForABoundedNumber) {
  std::mt19937 random(6);
  for (std::size_t sessions = 1; sessions <= 6; ++sessions) {
    std::vector<QueuedRequest> queue;
    std::uint64_t arrived = 0;
    std::uint64_t served_last = kNoSession;
    std::uint32_t most_overtaken = 0;
    std::uint32_t most_passed = 0;
    for (int i = 0; i < 3'000; ++i) {
      while (queue.size() < 24) {
        const std::uint64_t session = 1 + random() % sessions;
        queue.push_back({.number = ++arrived,
                         .session = session,
                         .priority = static_cast<int>(session) + static_cast<int>(random() % 3),
                         .work = std::size_t{1} << (random() % 12)});
      }
      const NextStart start = *next_start(
          {.admitted = {}, .queued = queue, .idle = {}, .most_admitted = 1, .served_last = served_last, .limits = {}});
      const QueuedRequest started = queue[start.at];
      served_last = started.session;
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(start.at));
      for (QueuedRequest& left : queue) {
        const bool same = left.session == started.session;
        left.passed = same ? 0 : left.passed + 1;
        left.overtaken += same && left.number < started.number ? 1 : 0;
        most_overtaken = std::max(most_overtaken, left.overtaken);
        most_passed = std::max(most_passed, left.passed);
      }
    }
    EXPECT_EQ(most_overtaken, kMostOvertaken) << sessions;
    EXPECT_LT(most_passed, kMostOvertaken + sessions) << sessions;
    EXPECT_EQ(most_passed >= kMostOvertaken, sessions > 1) << "the bound is not there in vain";
  }
}

}  // namespace
}  // namespace kvkeep::policy
