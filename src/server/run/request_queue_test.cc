// The queue without a scheduler: facts stay with their requests, and who overtook whom is counted.

#include "server/run/request_queue.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "server/run/parts_fixture.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

struct Waiting {
  std::string id;
  std::size_t tokens = 10;
  std::uint64_t session = policy::kNoSession;
  int priority = 0;
  std::uint64_t key = policy::kNoKey;
};

std::unique_ptr<Request> waiting_request(const Waiting& waiting) {
  Job job{.id = waiting.id, .kind = "test", .prompt = counting(waiting.tokens), .sampling = {}};
  job.session = waiting.session;
  job.priority = waiting.priority;
  job.key = waiting.key;
  return make_request({.job = std::move(job), .replies = {std::make_shared<CollectingSink>()}});
}

std::string ids_of(const RequestQueue& queue) {
  std::string ids;
  for (const auto& request : queue.all()) ids += request->job.id;
  return ids;
}

std::vector<std::uint32_t> overtaken_in(const RequestQueue& queue) {
  std::vector<std::uint32_t> counts;
  for (const auto& facts : queue.facts()) counts.push_back(facts.overtaken);
  return counts;
}

// Those whose numbers are listed leave, if it is their turn to be checked. Returns the numbers of all that are checked.
std::vector<std::uint64_t> check_some(RequestQueue& queue, const std::vector<std::uint64_t>& leaving = {},
                                      std::int64_t now_ns = 0) {
  std::vector<std::uint64_t> checked;
  queue.drop_some(now_ns, [&](Request& request) {
    checked.push_back(request.number);
    return std::ranges::find(leaving, request.number) != leaving.end();
  });
  return checked;
}

std::vector<std::uint32_t> passed_in(const RequestQueue& queue) {
  std::vector<std::uint32_t> counts;
  for (const auto& facts : queue.facts()) counts.push_back(facts.passed);
  return counts;
}

void expect_facts_agree(const RequestQueue& queue) {
  ASSERT_EQ(queue.facts().size(), queue.size());
  EXPECT_TRUE(std::ranges::is_sorted(queue.facts(), {}, &policy::QueuedRequest::number));
  for (std::size_t i = 0; i < queue.size(); ++i) {
    EXPECT_EQ(queue.facts()[i].number, queue.all()[i]->number);
    EXPECT_EQ(queue.facts()[i].session, queue.all()[i]->job.session);
    EXPECT_TRUE(queue.facts()[i].awaits || !queue.all()[i]->awaits.has_value());
  }
}

TEST(RequestQueue, KeepsTheOrderOfArrivalAndItsFacts) {
  RequestQueue queue;
  EXPECT_TRUE(queue.empty());
  queue.add(waiting_request({.id = "a", .tokens = 30, .session = 7, .priority = 2}));
  queue.add(waiting_request({.id = "b", .tokens = 20}));
  EXPECT_EQ(ids_of(queue), "ab");
  EXPECT_EQ(queue.facts()[0].work, 30U) << "all of its prompt, until it was looked up";
  EXPECT_EQ(queue.facts()[0].session, 7U);
  EXPECT_EQ(queue.facts()[0].priority, 2);
  EXPECT_EQ(queue.facts()[1].number, 2U);
  expect_facts_agree(queue);
}

TEST(RequestQueue, EachIsCheckedAgainAndAgainAFewAtATime) {
  RequestQueue queue;
  EXPECT_TRUE(check_some(queue).empty());
  constexpr std::size_t kMany = 2 * RequestQueue::kMostChecked + 5;
  for (std::size_t i = 0; i < kMany; ++i) queue.add(waiting_request({.id = "a"}));
  for (int turn = 0; turn < 2; ++turn) {
    std::size_t checked = 0;
    for (const std::size_t expected : {RequestQueue::kMostChecked, RequestQueue::kMostChecked, std::size_t{5}}) {
      const auto some = check_some(queue);
      ASSERT_EQ(some.size(), expected);
      for (const std::uint64_t number : some) EXPECT_EQ(number, ++checked);
    }
    EXPECT_EQ(checked, kMany);
  }
  (void)check_some(queue);
  while (queue.size() > 2) (void)queue.take(0);
  EXPECT_EQ(check_some(queue).size(), 2U) << "there are not so many any more";
}

TEST(RequestQueue, NoneIsCheckedLaterBecauseOthersLeaveOrCome) {
  RequestQueue queue;
  for (std::size_t i = 0; i < 2 * RequestQueue::kMostChecked; ++i) queue.add(waiting_request({.id = "a"}));
  const std::uint64_t next = RequestQueue::kMostChecked + 1;
  (void)check_some(queue, {1, 6, 10});
  EXPECT_EQ(queue.size(), 2 * RequestQueue::kMostChecked - 3);
  expect_facts_agree(queue);
  (void)queue.take(2);
  auto branch = waiting_request({.id = "b"});
  branch->number = 2;
  queue.add_branch(std::move(branch));
  EXPECT_EQ(check_some(queue).front(), next);
}

TEST(RequestQueue, AllAreCheckedOnceAfterAClientLeftOrWhenTheTimeOfOneIsOver) {
  constexpr std::int64_t kMs = 1'000'000;
  RequestQueue queue;
  constexpr std::size_t kMany = 3 * RequestQueue::kMostChecked;
  for (std::size_t i = 0; i < kMany; ++i) {
    auto made = waiting_request({.id = "a"});
    made->submitted_ns = 10 * kMs;
    if (i == 150) made->job.longest_ms = 5;
    if (i == 160) made->job.longest_ms = 9;
    queue.add(std::move(made));
  }
  EXPECT_EQ(check_some(queue, {}, 15 * kMs).size(), RequestQueue::kMostChecked);
  queue.check_all();
  EXPECT_EQ(check_some(queue, {180}, 15 * kMs).size(), kMany);
  EXPECT_EQ(check_some(queue, {}, 15 * kMs).front(), 1U) << "the cycle begins anew";
  EXPECT_EQ(check_some(queue, {151}, 15 * kMs + 1).size(), kMany - 1);
  EXPECT_EQ(check_some(queue, {}, 19 * kMs).size(), RequestQueue::kMostChecked);
  EXPECT_EQ(check_some(queue, {161}, 19 * kMs + 1).size(), kMany - 2);
  EXPECT_EQ(check_some(queue, {}, 1'000 * kMs).size(), RequestQueue::kMostChecked) << "the others have time";
}

TEST(RequestQueue, ASessionOvertakesItsOwnAndPassesOthersOfItsKey) {
  RequestQueue queue;
  queue.add(waiting_request({.id = "a", .session = 1}));
  queue.add(waiting_request({.id = "b", .session = 2}));
  queue.add(waiting_request({.id = "c", .session = 2}));
  queue.add(waiting_request({.id = "d", .session = 1, .key = 5}));
  queue.note_started(*queue.take(2));
  EXPECT_EQ(overtaken_in(queue), (std::vector<std::uint32_t>{0, 1, 0}));
  EXPECT_EQ(passed_in(queue), (std::vector<std::uint32_t>{1, 0, 0}));
  queue.note_started(*queue.take(1));
  EXPECT_EQ(passed_in(queue), (std::vector<std::uint32_t>{2, 0}));
  queue.add(waiting_request({.id = "e", .session = 1}));
  EXPECT_EQ(passed_in(queue), (std::vector<std::uint32_t>{2, 0, 0}));
  auto taken = queue.take(0);
  taken->awaits = AwaitedPrefix{.number = 9, .until = Position{4}};
  queue.put_back(std::move(taken));
  EXPECT_EQ(passed_in(queue), (std::vector<std::uint32_t>{2, 0, 0})) << "it keeps what it waited for";
  queue.note_started(*queue.take(2));
  EXPECT_EQ(passed_in(queue), (std::vector<std::uint32_t>{0, 0})) << "its session was served";
}

// Of a thousand requests each is overtaken and passed often, if others of its session differ in what they need.
TEST(RequestQueue, ASessionWithManyRequestsLeavesHalfToAnother) {
  std::mt19937 random(7);
  for (const std::size_t places : {1U, 4U}) {
    for (const std::size_t many : {20U, 300U, 1'000U}) {
      RequestQueue queue;
      std::vector<std::uint64_t> running;  // sessions
      std::map<std::uint64_t, std::size_t> starts;
      const auto keep_open = [&](std::uint64_t session, std::size_t count) {
        auto open =
            static_cast<std::size_t>(std::ranges::count(running, session) +
                                     std::ranges::count(queue.facts(), session, &policy::QueuedRequest::session));
        for (; open < count; ++open) {
          queue.add(waiting_request({.id = "x", .tokens = 1 + random() % 200, .session = session}));
        }
      };
      for (int start = 0; start < 400; ++start) {
        if (running.size() == places) running.erase(running.begin() + static_cast<std::ptrdiff_t>(random() % places));
        keep_open(1, many);
        keep_open(2, 4);
        policy::ScheduleView view{.admitted = {},
                                  .queued = queue.facts(),
                                  .idle = {},
                                  .most_admitted = places,
                                  .served_last = queue.served_last(),
                                  .limits = {}};
        for (const std::uint64_t session : running) {
          view.admitted.push_back({.phase = policy::ScheduledRequest::Phase::kDecode, .session = session});
        }
        const auto taken = queue.take(policy::next_start(view)->at);
        queue.note_started(*taken);
        running.push_back(taken->job.session);
        ++starts[taken->job.session];
      }
      EXPECT_NEAR(static_cast<double>(starts[2]), 200, 10) << many << " next to 4, places: " << places;
    }
  }
}

TEST(RequestQueue, AKeyOvertakesOnlyItsOwn) {
  RequestQueue queue;
  queue.add(waiting_request({.id = "a", .key = 1}));
  queue.add(waiting_request({.id = "b", .key = 2}));
  queue.add(waiting_request({.id = "c", .key = 2}));
  queue.note_started(*queue.take(2));
  EXPECT_EQ(overtaken_in(queue), (std::vector<std::uint32_t>{0, 0}));
  EXPECT_EQ(passed_in(queue), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(queue.facts()[0].key_started, 0U);
  EXPECT_EQ(queue.facts()[1].key_started, 1U);
  queue.add(waiting_request({.id = "d", .key = 2}));
  EXPECT_EQ(queue.facts()[2].key_started, 1U);
}

// One key has hundreds of requests, each more urgent than those of two keys that ask for little at a time.
TEST(RequestQueue, AKeyWithManyRequestsHoldsUpNoOther) {
  for (const std::size_t places : {1U, 4U}) {
    RequestQueue queue;
    for (int i = 0; i < 300; ++i) queue.add(waiting_request({.id = "many", .priority = -5, .key = 1}));
    std::vector<std::uint64_t> running;  // keys
    std::map<std::uint64_t, int> waited;
    for (int start = 0; start < 200; ++start) {
      for (const std::uint64_t key : {2U, 3U}) {
        if (std::ranges::count(queue.facts(), key, &policy::QueuedRequest::key) == 0)
          queue.add(waiting_request({.id = "few", .key = key}));
      }
      if (running.size() == places) running.erase(running.begin());
      policy::ScheduleView view{
          .admitted = {}, .queued = queue.facts(), .idle = {}, .most_admitted = places, .limits = {}};
      for (const std::uint64_t key : running) {
        view.admitted.push_back({.phase = policy::ScheduledRequest::Phase::kDecode, .key = key});
      }
      const auto taken = queue.take(policy::next_start(view)->at);
      queue.note_started(*taken);
      running.push_back(taken->job.key);
      for (const std::uint64_t key : {1U, 2U, 3U}) ++waited[key];
      waited[taken->job.key] = 0;
      for (const auto& [key, starts] : waited) ASSERT_LE(starts, 3) << key << " of " << places;
    }
  }
}

TEST(RequestQueue, CountsRepliesWithTheirBranches) {
  RequestQueue queue;
  auto with_branches = waiting_request({.id = "a"});
  for (int i = 0; i < 2; ++i) with_branches->branches.push_back(waiting_request({.id = "b"}));
  queue.add(std::move(with_branches));
  queue.add(waiting_request({.id = "c"}));
  EXPECT_EQ(queue.replies(), 4U);
  (void)check_some(queue, {2});
  EXPECT_EQ(queue.replies(), 3U);
  (void)check_some(queue, {1});
  EXPECT_EQ(queue.replies(), 0U) << "with its branches";
  queue.add(waiting_request({.id = "c"}));
  const auto taken = queue.take(0);
  EXPECT_EQ(queue.replies(), 0U);
}

TEST(RequestQueue, KnowsWhatEachWaitsFor) {
  constexpr std::int64_t kMs = 1'000'000;
  RequestQueue queue;
  auto made = waiting_request({.id = "a"});
  made->submitted_ns = 2 * kMs;
  queue.add(std::move(made));
  auto taken = queue.take(0);
  EXPECT_EQ(taken->stats.waits.now(), WaitCause::kPlace);
  taken->awaits = AwaitedPrefix{.number = 9, .until = Position{4}};
  taken->stats.waits.begin(WaitCause::kPrefix, 5 * kMs);
  queue.put_back(std::move(taken));
  EXPECT_TRUE(queue.release([](const AwaitedPrefix&) { return true; }, 9 * kMs));
  const Waits& waits = queue.all()[0]->stats.waits;
  EXPECT_EQ(waits.now(), WaitCause::kPlace);
  EXPECT_EQ(waits.ended()[WaitCause::kPlace], 3);
  EXPECT_EQ(waits.ended()[WaitCause::kPrefix], 4);
}

TEST(RequestQueue, OneThatStartsOvertakesThoseThatCameBefore) {
  RequestQueue queue;
  for (const char* id : {"a", "b", "c"}) queue.add(waiting_request({.id = id, .session = 7}));
  const auto taken = queue.take(1);
  EXPECT_EQ(taken->job.id, "b");
  EXPECT_EQ(overtaken_in(queue), (std::vector<std::uint32_t>{0, 0})) << "it may not have a place yet";
  EXPECT_EQ(queue.served_last(), policy::kNoSession);
  queue.note_started(*taken);
  EXPECT_EQ(overtaken_in(queue), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(queue.served_last(), 7U);
}

TEST(RequestQueue, OneThatAwaitsAPrefixOvertakesNobodyAndIsNotOvertaken) {
  RequestQueue queue;
  for (const char* id : {"a", "b", "c"}) queue.add(waiting_request({.id = id, .session = 7}));
  auto taken = queue.take(1);
  taken->awaits = AwaitedPrefix{.number = 9, .until = Position{4}};
  queue.put_back(std::move(taken));
  EXPECT_EQ(ids_of(queue), "abc");
  EXPECT_EQ(queue.facts()[1].work, 6U) << "the other one computes the rest";
  expect_facts_agree(queue);
  const auto last = queue.take(2);
  queue.note_started(*last);
  EXPECT_EQ(overtaken_in(queue), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_FALSE(queue.release([](const AwaitedPrefix&) { return false; }, 0));
  EXPECT_TRUE(queue.release([](const AwaitedPrefix& awaited) { return awaited.number == 9; }, 0));
  EXPECT_FALSE(queue.facts()[1].awaits);
  EXPECT_FALSE(queue.release([](const AwaitedPrefix&) { return true; }, 0)) << "nobody awaits anything";
}

TEST(RequestQueue, ABranchGoesBeforeAllThatCameAfterItsPrompt) {
  RequestQueue queue;
  for (const char* id : {"a", "b", "c"}) queue.add(waiting_request({.id = id}));
  const auto prompt = queue.take(1);
  auto branch = waiting_request({.id = "B"});
  branch->number = prompt->number;
  queue.add_branch(std::move(branch));
  EXPECT_EQ(ids_of(queue), "aBc");
  EXPECT_EQ(queue.facts()[1].overtaken, policy::kMostOvertaken);
}

TEST(RequestQueue, EndedRequestsLeaveWithTheirFacts) {
  RequestQueue queue;
  for (const char* id : {"a", "b", "c", "d"}) queue.add(waiting_request({.id = id}));
  (void)check_some(queue, {1, 3});
  EXPECT_EQ(ids_of(queue), "bd");
  expect_facts_agree(queue);
  queue.clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.facts().empty());
}

// Each request is overtaken, and each session passed, a bounded number of times, whatever comes, awaits, is released
// and leaves.
TEST(RequestQueue, RandomHistoriesKeepFactsAndBounds) {
  std::mt19937 random(41);
  RequestQueue queue;
  std::uint32_t most_overtaken = 0;
  for (int step = 0; step < 3'000; ++step) {
    if (queue.size() < 12) {
      const int priority = static_cast<int>(random() % 3);
      queue.add(waiting_request(
          {.id = "x", .tokens = 1 + random() % 200, .session = 1 + random() % 3, .priority = priority}));
    }
    if (random() % 5 == 0) (void)queue.release([&](const AwaitedPrefix&) { return random() % 2 == 0; }, step);
    if (random() % 9 == 0) (void)check_some(queue, {queue.all()[random() % queue.size()]->number});
    const auto next = policy::next_start({.admitted = {},
                                          .queued = queue.facts(),
                                          .idle = {},
                                          .most_admitted = 1,
                                          .served_last = queue.served_last(),
                                          .limits = {}});
    if (next) {
      auto taken = queue.take(next->at);
      if (random() % 4 == 0 && taken->awaited < 8) {
        ++taken->awaited;
        taken->awaits = AwaitedPrefix{.number = 1, .until = Position{1}};
        queue.put_back(std::move(taken));
      } else {
        queue.note_started(*taken);
      }
    }
    expect_facts_agree(queue);
    for (const std::uint32_t count : overtaken_in(queue)) most_overtaken = std::max(most_overtaken, count);
    for (const std::uint32_t count : passed_in(queue)) ASSERT_LT(count, policy::kMostOvertaken + 6);
  }
  EXPECT_EQ(most_overtaken, policy::kMostOvertaken) << "no more, and some were overtaken so often";
}

TEST(RequestQueue, OnePromptIsAwaitedByManyAsFromItsFirstPartOn) {
  RequestQueue queue;
  for (int i = 0; i < 5; ++i) {
    auto request = waiting_request({.id = "x", .tokens = 100, .priority = 2 - i});
    if (i == 0) request->branches.push_back(std::make_unique<Request>());
    queue.add(std::move(request));
  }
  const auto awaits = [](Request& request) {
    if (request.number == 5) return false;
    const auto prompt = static_cast<std::uint64_t>(request.number == 4 ? 2 : 1);
    request.awaits = AwaitedPrefix{.number = prompt, .until = Position{} + (100 - 10 * request.number)};
    return true;
  };
  EXPECT_EQ(queue.hold_back(awaits), 4U);
  EXPECT_EQ(queue.hold_back(awaits), 0U) << "they wait already";
  EXPECT_EQ(queue.replies_awaiting(), 5U) << "one prompt has two replies";
  ASSERT_EQ(queue.awaited().size(), 2U);
  EXPECT_EQ(queue.awaited()[0].first.until, Position{70});
  EXPECT_EQ(queue.awaited()[0].priority, 0);
  std::size_t asked = 0;
  const auto computed_to = [&asked](std::uint32_t end) {
    return [&asked, end](const AwaitedPrefix& prefix) {
      ++asked;
      return prefix.number == 1 && prefix.until <= Position{end};
    };
  };
  EXPECT_FALSE(queue.release(computed_to(69), 0));
  EXPECT_EQ(asked, 2U) << "once for each prompt";
  EXPECT_TRUE(queue.release(computed_to(80), 0));
  ASSERT_EQ(queue.awaited().size(), 2U);
  EXPECT_EQ(queue.replies_awaiting(), 3U);
  EXPECT_EQ(queue.awaited()[0].first.until, Position{90});
  (void)check_some(queue, {4});
  EXPECT_EQ(queue.awaited().size(), 1U) << "nobody awaits the other prompt any more";
  EXPECT_EQ(queue.replies_awaiting(), 2U);
}

class RequestQueueEstimates : public PartsTest {};

TEST_F(RequestQueueEstimates, WorkIsTheRestOfAPromptThatTheCacheHas) {
  Sequences sequences = make_sequences();
  const PromptLookup lookup{{.context_tokens = 1000, .least_point_tokens = 32}, engine.memory(), cache, sequences};
  run(sequences, counting(60));
  RequestQueue queue;
  for (const char* id : {"a", "b", "c"}) queue.add(waiting_request({.id = id, .tokens = 80}));
  queue.estimate(lookup, {}, 2);
  EXPECT_EQ(queue.facts()[0].work, 20U);
  EXPECT_EQ(queue.facts()[1].work, 20U);
  EXPECT_EQ(queue.facts()[2].work, 80U) << "two at a time";
  queue.estimate(lookup, {}, 2);
  EXPECT_EQ(queue.facts()[2].work, 20U);
}

TEST_F(RequestQueueEstimates, OneThatAwaitsAPrefixIsNotLookedUp) {
  Sequences sequences = make_sequences();
  const PromptLookup lookup{{.context_tokens = 1000, .least_point_tokens = 32}, engine.memory(), cache, sequences};
  run(sequences, counting(60));
  RequestQueue queue;
  for (const char* id : {"a", "b"}) queue.add(waiting_request({.id = id, .tokens = 80}));
  auto taken = queue.take(0);
  taken->awaits = AwaitedPrefix{.number = 9, .until = Position{70}};
  queue.put_back(std::move(taken));
  queue.estimate(lookup, {}, 1);
  EXPECT_EQ(queue.facts()[0].work, 10U) << "another request computes the rest";
  EXPECT_EQ(queue.facts()[1].work, 20U) << "the one before it counts as none";
}

}  // namespace
}  // namespace kvkeep::server
