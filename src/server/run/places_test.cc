// Places without a scheduler: which request is shown where, and what stays of it.

#include "server/run/places.h"

#include <gtest/gtest.h>

#include "server/run/request.h"
#include "server/run/request_queue.h"
#include "server/run/scheduler_stats.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

std::unique_ptr<Request> admitted_request(std::int64_t max_tokens) {
  Job job;
  job.prompt = {1, 2, 3};
  job.max_tokens = max_tokens;
  job.sampling.grammar.text = "root ::= \"secret\"";
  job.sampling.dry_breakers = {"secret"};
  job.sampling.top_k = 7;
  return make_request({std::move(job), {std::make_shared<CollectingSink>()}});
}

TEST(Places, ARequestKeepsItsPlaceAndLeavesItsCounts) {
  Places places(3);
  EXPECT_FALSE(places.all()[0].running);
  EXPECT_EQ(places.all()[0].task, 0U);
  std::vector<std::unique_ptr<Request>> admitted;
  admitted.push_back(admitted_request(10));
  admitted.push_back(admitted_request(20));
  EXPECT_EQ(places.show(admitted), 2U);
  admitted[0]->stats.predicted_tokens = 4;
  admitted[0]->sink = nullptr;
  EXPECT_EQ(places.show(admitted), 1U);
  admitted.erase(admitted.begin());
  admitted.push_back(admitted_request(30));
  admitted[0]->stats.prefilled_tokens = 3;
  EXPECT_EQ(places.show(admitted), 2U);
  const std::vector<Place> shown = places.all();
  EXPECT_EQ(shown[0].max_tokens, 30) << "the first free place";
  EXPECT_EQ(shown[0].task, 3U);
  EXPECT_EQ(shown[1].max_tokens, 20);
  EXPECT_EQ(shown[1].stats.prefilled_tokens, 3U);
  EXPECT_EQ(shown[2].task, 0U);
}

TEST(Places, ARequestTakesThePlaceThatItWishesForIfItIsFree) {
  Places places(3);
  std::vector<std::unique_ptr<Request>> admitted;
  for (const std::size_t wish : {1U, 1U, 5U}) {
    admitted.push_back(admitted_request(10));
    admitted.back()->job.place = wish;
    (void)places.show(admitted);
  }
  EXPECT_EQ(admitted[0]->stats.place, 1U);
  EXPECT_EQ(admitted[1]->stats.place, 0U) << "the first free one";
  EXPECT_EQ(admitted[2]->stats.place, 2U) << "as llama-server: 5 modulo 3";
}

TEST(Places, AConversationStaysUntilAnotherRequestComes) {
  Places places(2);
  std::vector<std::unique_ptr<Request>> admitted;
  admitted.push_back(admitted_request(10));
  (void)places.show(admitted);
  EXPECT_EQ(places.conversation(0).error().kind, ErrorKind::kBusy);
  places.leave(*admitted[0], {.tokens = {1, 2, 3, 4}});
  admitted[0]->sink = nullptr;
  (void)places.show(admitted);
  EXPECT_EQ(places.conversation(0).value()->tokens, (std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(places.conversation(1).value(), nullptr);
  for (const bool goes_on : {true, false}) {
    std::vector<std::unique_ptr<Request>> ahead;
    ahead.push_back(admitted_request(0));
    ahead[0]->job.ahead = true;
    (void)places.show(ahead);
    places.leave(*ahead[0], {.tokens = goes_on ? std::vector<TokenId>{1, 2, 3, 4, 5} : std::vector<TokenId>{9}});
    ahead[0]->sink = nullptr;
    (void)places.show(ahead);
    EXPECT_EQ(places.conversation(0).value()->tokens.size(), 5U) << "only what goes on from there takes its place";
  }
  places.forget(0);
  EXPECT_EQ(places.conversation(0).value(), nullptr);
}

TEST(Places, AnEndedRequestIsShownUntilAnotherComes) {
  Places places(1);
  std::vector<std::unique_ptr<Request>> admitted;
  admitted.push_back(admitted_request(10));
  EXPECT_EQ(places.show(admitted), 1U);
  admitted[0]->stats.predicted_tokens = 4;
  admitted[0]->sink = nullptr;
  EXPECT_EQ(places.show(admitted), 0U);
  EXPECT_EQ(places.show({}), 0U);
  const Place shown = places.all()[0];
  EXPECT_FALSE(shown.running);
  EXPECT_EQ(shown.stats.predicted_tokens, 4U);
  EXPECT_EQ(shown.sampling.top_k, 7);
  EXPECT_EQ(shown.sampling.grammar.text, "") << "it shows what was asked";
  EXPECT_TRUE(shown.sampling.dry_breakers.empty()) << "it shows what was asked";
}

TEST(Places, ARequestThatEndsAtItsStartTakesNone) {
  Places places(1);
  std::vector<std::unique_ptr<Request>> admitted;
  admitted.push_back(admitted_request(10));
  admitted[0]->sink = nullptr;
  EXPECT_EQ(places.show(admitted), 0U);
  EXPECT_EQ(places.all()[0].task, 0U);
}

TEST(SchedulerTotals, AreThoseOfTheReplies) {
  World world;
  world.start();
  std::mt19937 random(seed());
  const std::vector<TokenId> prompt = random_tokens(random, 300);
  const Reply first = world.ask(prompt, 10);
  const Reply second = world.ask(prompt + random_tokens(random, 50), 20);
  while (world.scheduler.stats().running > 0) std::this_thread::yield();
  const SchedulerStats stats = world.scheduler.stats();
  EXPECT_EQ(stats.prefilled_tokens, first.stats.prefilled_tokens + second.stats.prefilled_tokens);
  EXPECT_EQ(stats.cached_tokens, first.stats.cached_tokens + second.stats.cached_tokens);
  EXPECT_EQ(stats.predicted_tokens, 30U);
  EXPECT_NEAR(stats.predicted_ms, first.stats.predicted_ms + second.stats.predicted_ms, 1e-6);
  EXPECT_GT(stats.prefill_ms, 0);
  EXPECT_LE(stats.prefill_ms, first.stats.prompt_ms + second.stats.prompt_ms);
  EXPECT_EQ(stats.longest_tokens, 300U + 50 + 20 - 1) << "the last token is not decoded";
  EXPECT_GE(stats.model_calls, 28U) << "one for each token after the first";
  EXPECT_EQ(stats.calls_running, stats.model_calls) << "one request ran at a time";
  const std::vector<Place> places = world.scheduler.places().all();
  ASSERT_EQ(places.size(), 2U);
  EXPECT_FALSE(places[0].running);
  EXPECT_EQ(places[0].stats.predicted_tokens, 20U);
  EXPECT_EQ(places[1].task, 0U);
  const std::vector<EndedPlace> ended = world.scheduler.places().ended();
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].stats.predicted_tokens, 20U) << "the last one comes first";
  EXPECT_EQ(ended[1].stats.predicted_tokens, 10U);
  EXPECT_EQ(ended[0].how, Finish::kLength);
  EXPECT_EQ(stats.figures.ends[static_cast<std::size_t>(Finish::kLength)], 2U);
  EXPECT_EQ(stats.figures.memory_tokens, second.stats.memory_tokens);
  EXPECT_EQ(stats.figures.first_token.count(), 2U);
  EXPECT_EQ(stats.figures.token_gap.count(), 28U);
}

TEST(Places, RememberTheLastRequestsThatEnded) {
  Places places(1);
  for (std::size_t i = 0; i < kMostEnded + 5; ++i) {
    const auto request = admitted_request(10);
    request->stats.prompt_tokens = i;
    places.note_end(*request, Finish::kStop, static_cast<std::int64_t>(i));
  }
  const auto ahead = admitted_request(10);
  ahead->job.ahead = true;
  places.note_end(*ahead, Finish::kStop, 0);
  const std::vector<EndedPlace> ended = places.ended();
  ASSERT_EQ(ended.size(), kMostEnded);
  EXPECT_EQ(ended.front().stats.prompt_tokens, kMostEnded + 4);
  EXPECT_EQ(ended.back().ended_ns, 5);
}

// The place that each event of a reply tells; -1: none.
class PlaceSink final : public JobSink {
 public:
  void on_prefill(const JobStats& stats, std::size_t, double) override { note(stats); }
  bool on_token(TokenId, const JobStats& stats) override {
    note(stats);
    return true;
  }
  void on_done(Finish, const JobStats& stats, const std::optional<Error>&) override {
    note(stats);
    places_.set_value(told_);
  }
  bool gone() const override { return false; }
  std::vector<int> told() { return places_.get_future().get(); }

 private:
  void note(const JobStats& stats) { told_.push_back(stats.place ? static_cast<int>(*stats.place) : -1); }

  std::vector<int> told_;
  std::promise<std::vector<int>> places_;
};

std::vector<std::vector<int>> places_told(World& world, std::size_t replies, std::size_t wish) {
  Job job{.id = "test", .kind = "completion", .prompt = {1, 2, 3}, .sampling = World::greedy(), .max_tokens = 3};
  job.place = wish;
  std::vector<std::shared_ptr<PlaceSink>> sinks;
  for (std::size_t i = 0; i < replies; ++i) sinks.push_back(std::make_shared<PlaceSink>());
  EXPECT_TRUE(world.scheduler.submit({{std::move(job), {sinks.begin(), sinks.end()}}}).ok());
  std::vector<std::vector<int>> told;
  for (const auto& sink : sinks) told.push_back(sink->told());
  return told;
}

TEST(Places, EachEventTellsWhereItsRequestRuns) {
  World world({}, mebibytes(64), {.parallel = 2});
  world.start();
  for (const int wish : {1, 0, 3}) {
    const std::vector<int> told = places_told(world, 1, static_cast<std::size_t>(wish)).front();
    EXPECT_EQ(told, std::vector<int>(told.size(), wish % 2)) << wish;
    EXPECT_GE(told.size(), 5U) << "from the beginning of its prefill to its end";
  }
}

TEST(Places, AReplyThatFindsNoPlaceHasOneLater) {
  World world({}, mebibytes(64), {.parallel = 2});
  world.start();
  const auto told = places_told(world, 3, 1);
  EXPECT_EQ(told[0], std::vector<int>(told[0].size(), 1));
  EXPECT_EQ(told[1], std::vector<int>(told[1].size(), 0)) << "it goes on from the first one's prompt at once";
  EXPECT_EQ(told[2].front(), -1);
  EXPECT_GE(told[2].back(), 0);
}

TEST(Places, EachThatWaitsIsCountedForOneCause) {
  Places places(3);
  RequestQueue queue;
  for (int i = 0; i < 3; ++i) queue.add(admitted_request(1));
  queue.hold_back([](Request& request) {
    if (request.number != 2) return false;
    request.awaits = AwaitedPrefix{.number = 9, .until = Position{2}};
    request.stats.waits.begin(WaitCause::kPrefix, 0);
    return true;
  });
  std::vector<std::unique_ptr<Request>> admitted;
  for (int i = 0; i < 3; ++i) admitted.push_back(admitted_request(1));
  admitted[0]->branches.push_back(std::make_unique<Request>());
  admitted[0]->stats.waits.begin(WaitCause::kTurn, 0);
  admitted[1]->stats.waits.begin(WaitCause::kDisk, 0);
  admitted[2]->stats.waits.begin(WaitCause::kCells, 0);
  admitted[2]->sink = nullptr;
  const SchedulerNow now = count_now(admitted, queue, places, {.total = 7});
  EXPECT_EQ(now.running, 2U);
  EXPECT_EQ(now.waiting, 4U) << "three are queued, and one prompt has a further reply";
  EXPECT_EQ(now.cells.total, 7U);
  EXPECT_EQ(now.waiting_for[WaitCause::kPlace], 3U);
  EXPECT_EQ(now.waiting_for[WaitCause::kPrefix], 1U);
  EXPECT_EQ(now.waiting_for[WaitCause::kTurn], 1U);
  EXPECT_EQ(now.waiting_for[WaitCause::kDisk], 1U);
  EXPECT_EQ(now.waiting_for[WaitCause::kCells], 0U) << "it has ended";
}

}  // namespace
}  // namespace kvkeep::server
