// Many requests at a time: how long each waited and why, whose time is over, and how much work a round is.

#include <spdlog/spdlog.h>

#include "server/run/request_queue.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

std::future<Reply> submit_with(World& world, const std::vector<TokenId>& prompt, std::int64_t max_tokens,
                               double longest_ms) {
  auto sink = std::make_shared<CollectingSink>();
  auto future = sink->future();
  Job job{.id = "test", .kind = "chat", .prompt = prompt, .sampling = World::greedy(), .max_tokens = max_tokens};
  job.longest_ms = longest_ms;
  EXPECT_TRUE(world.scheduler.submit(std::move(job), std::move(sink)).ok());
  return future;
}

TEST(SchedulerWaits, AreCountedByCause) {
  SteppingClock clock;
  WorldOptions options{.scheduler = {.parallel = 4, .slice_ms = 1e-6}, .clock = &clock};
  World world(options);
  std::mt19937 random(41);
  const auto shared = random_tokens(random, 400);
  auto giant = world.submit(shared + random_tokens(random, 300), 20);
  auto follower = world.submit(shared + random_tokens(random, 20), 3);
  auto beside = world.submit(random_tokens(random, 300), 20);
  auto last = world.submit(random_tokens(random, 30), 3);
  world.start();
  const auto waited = [](std::future<Reply>& reply) { return reply.get().stats.waits.ended(); };
  const WaitTimes of_giant = waited(giant);
  const WaitTimes of_follower = waited(follower);
  const WaitTimes of_beside = waited(beside);
  const WaitTimes of_last = waited(last);
  EXPECT_GT(of_giant[WaitCause::kTurn], 0) << "others prefilled between its slices";
  EXPECT_EQ(of_giant[WaitCause::kPrefix], 0);
  EXPECT_GT(of_follower[WaitCause::kPrefix], 0);
  EXPECT_GT(of_last[WaitCause::kPlace], 0);
  for (const WaitTimes* each : {&of_giant, &of_follower, &of_beside, &of_last}) {
    EXPECT_EQ((*each)[WaitCause::kDisk], 0);
    EXPECT_EQ((*each)[WaitCause::kCells], 0);
  }
  world.stop();
  WaitTimes sum;
  for (const WaitTimes* each : {&of_giant, &of_follower, &of_beside, &of_last}) sum.add(*each);
  for (const WaitCause cause : kWaitCauses) EXPECT_NEAR(world.scheduler.stats().waited[cause], sum[cause], 1e-6);
  EXPECT_GT(world.scheduler.stats().cells.used, 0U);
}

// Two replies that do not fit into the model's memory together.
TEST(SchedulerWaits, ForCellsAreNotPredicting) {
  SteppingClock clock;
  World world(WorldOptions{.fake = {.cells = 600}, .scheduler = {.parallel = 2}, .clock = &clock});
  std::mt19937 random(42);
  auto older = world.submit(random_tokens(random, 40), 450);
  auto younger = world.submit(random_tokens(random, 40), 450);
  world.start();
  const JobStats of_older = older.get().stats;
  const JobStats of_younger = younger.get().stats;
  EXPECT_GT(world.scheduler.stats().set_aside, 0U);
  EXPECT_EQ(of_older.waits.ended()[WaitCause::kCells], 0);
  EXPECT_GT(of_younger.waits.ended()[WaitCause::kCells], 50);
  EXPECT_LT(of_younger.predicted_ms, 1.3 * of_older.predicted_ms);
}

TEST(SchedulerDeadlines, EndAReplyWithWhatItHas) {
  SteppingClock clock;
  World world(WorldOptions{.scheduler = {.parallel = 1}, .clock = &clock});
  std::mt19937 random(43);
  auto reply = submit_with(world, random_tokens(random, 20), 2'000, 300);
  world.start();
  const Reply got = reply.get();
  EXPECT_EQ(got.finish, Finish::kLength);
  EXPECT_GT(got.tokens.size(), 10U);
  EXPECT_LT(got.tokens.size(), 300U);
}

TEST(SchedulerDeadlines, RefuseARequestThatWaitsTooLong) {
  SteppingClock clock;
  World world(WorldOptions{.scheduler = {.parallel = 1}, .clock = &clock});
  std::mt19937 random(44);
  auto runs = world.submit(random_tokens(random, 20), 1'000);
  auto waits = submit_with(world, random_tokens(random, 20), 5, 100);
  world.start();
  const Reply refused = waits.get();
  EXPECT_EQ(refused.finish, Finish::kError);
  EXPECT_EQ(refused.error->kind, ErrorKind::kBusy);
  EXPECT_EQ(refused.stats.prefilled_tokens, 0U);
  EXPECT_EQ(runs.get().tokens.size(), 1'000U);
}

TEST(SchedulerDeadlines, KeepWhatAPrefillHasComputed) {
  SteppingClock clock;
  World world(WorldOptions{.fake = {.batch_tokens = 64}, .scheduler = {.parallel = 1}, .clock = &clock});
  std::mt19937 random(45);
  const auto prompt = random_tokens(random, 2'000);
  auto late = submit_with(world, prompt, 5, 100);
  world.start();
  EXPECT_EQ(late.get().error->kind, ErrorKind::kBusy);
  const Reply again = world.ask(prompt, 5);
  EXPECT_GE(again.stats.cached_tokens, 64U);
  EXPECT_EQ(again.tokens, world.expected(prompt, 5));
}

class GoneSink final : public JobSink {
 public:
  explicit GoneSink(std::atomic<std::size_t>& served) : served_(served) {}
  void on_prefill(const JobStats&, std::size_t, double) override { ++served_; }
  bool on_token(TokenId, const JobStats&) override { return true; }
  void on_done(Finish, const JobStats&, const std::optional<Error>&) override {}
  bool gone() const override { return true; }

 private:
  std::atomic<std::size_t>& served_;
};

// More than are checked in a round.
TEST(SchedulerRounds, AClientThatLeftTheQueueGetsNoPlace) {
  std::atomic<std::size_t> served = 0;
  World world({}, mebibytes(64), {.parallel = 1});
  std::mt19937 random(47);
  for (int i = 0; i < 200; ++i) {
    Job job{.id = "left", .kind = "chat", .prompt = random_tokens(random, 20), .sampling = World::greedy()};
    job.max_tokens = 1;
    ASSERT_TRUE(world.scheduler.submit(std::move(job), std::make_shared<GoneSink>(served)).ok());
  }
  auto last = world.submit(random_tokens(random, 20), 2);
  world.start();
  EXPECT_EQ(last.get().tokens.size(), 2U);
  EXPECT_EQ(served, 0U);
}

// Its client is looked for, which takes a cache line or two of each.
class CountingSink final : public JobSink {
 public:
  explicit CountingSink(std::atomic<std::size_t>& looks) : looks_(looks) {}
  void on_prefill(const JobStats&, std::size_t, double) override {}
  bool on_token(TokenId, const JobStats&) override { return true; }
  void on_done(Finish, const JobStats&, const std::optional<Error>&) override {}
  bool gone() const override {
    ++looks_;
    return false;
  }

 private:
  std::atomic<std::size_t>& looks_;
};

TEST(SchedulerRounds, LookAtAFewOfAThousandThatWait) {
  std::atomic<std::size_t> looks = 0;
  World world({}, mebibytes(64), {.parallel = 1});
  std::mt19937 random(46);
  auto runs = submit_with(world, random_tokens(random, 4), 100, 0);
  for (int i = 0; i < 1'000; ++i) {
    Job job{.id = "waits", .kind = "chat", .prompt = random_tokens(random, 200), .sampling = World::greedy()};
    job.max_tokens = 1;
    ASSERT_TRUE(world.scheduler.submit(std::move(job), std::make_shared<CountingSink>(looks)).ok());
  }
  std::size_t decodes = 0;
  std::size_t looks_so_far = 0;
  world.engine.set_on_decode([&](std::span<const engine::BatchToken>) {
    if (++decodes == 90) looks_so_far = looks;
  });
  world.start();
  EXPECT_EQ(runs.get().tokens.size(), 100U);
  EXPECT_GE(looks_so_far, 1'000U) << "each has its turn";
  EXPECT_LE(looks_so_far, 95 * RequestQueue::kMostChecked);
  spdlog::set_level(spdlog::level::off);  // a line for each of the thousand
  world.stop();
  spdlog::set_level(spdlog::level::info);
}

// A client that leaves while a thousand wait.
class LeavingSink final : public JobSink {
 public:
  void on_prefill(const JobStats&, std::size_t, double) override {}
  bool on_token(TokenId, const JobStats&) override { return true; }
  void on_done(Finish finish, const JobStats&, const std::optional<Error>&) override { ended = finish; }
  bool gone() const override { return left; }

  bool left = false;
  std::optional<Finish> ended;
};

// All on the engine thread, between two of its calls.
TEST(SchedulerRounds, OneThatLeavesOrIsLateInTheQueueEndsInTheNext) {
  SteppingClock clock;
  World world(WorldOptions{.scheduler = {.parallel = 1}, .clock = &clock});
  std::mt19937 random(48);
  auto runs = submit_with(world, random_tokens(random, 4), 60, 0);
  std::vector<std::shared_ptr<LeavingSink>> sinks;
  for (int i = 0; i < 1'000; ++i) {
    Job job{.id = "waits", .kind = "chat", .prompt = random_tokens(random, 20), .sampling = World::greedy()};
    job.max_tokens = 1;
    if (i == 700) job.longest_ms = 1e5;
    sinks.push_back(std::make_shared<LeavingSink>());
    ASSERT_TRUE(world.scheduler.submit(std::move(job), sinks.back()).ok());
  }
  std::size_t decodes = 0;
  std::vector<std::optional<Finish>> ends;
  world.engine.set_on_decode([&](std::span<const engine::BatchToken>) {
    ++decodes;
    if (decodes == 10) {
      sinks[900]->left = true;
      world.scheduler.wake();
    }
    if (decodes == 12) ends = {sinks[900]->ended};
    if (decodes == 20) clock.step_ns = 200'000'000'000;  // the other one's time is over
    if (decodes == 21) clock.step_ns = 1'000;
    if (decodes == 22) ends.insert(ends.end(), {sinks[700]->ended, sinks[800]->ended});
  });
  world.start();
  EXPECT_EQ(runs.get().tokens.size(), 60U);
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0], Finish::kGone);
  EXPECT_EQ(ends[1], Finish::kError);
  EXPECT_FALSE(ends[2]) << "it has time";
  spdlog::set_level(spdlog::level::off);  // a line for each of the thousand
  world.stop();
  spdlog::set_level(spdlog::level::info);
}

}  // namespace
}  // namespace kvkeep::server
