// Prompts prefilled ahead of a request that may come: only while there is nothing else to do.

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "server/run/scheduler_test_fixture.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

// Reports to a test how far the prefill is, on the engine thread.
class WatchedSink final : public JobSink {
 public:
  explicit WatchedSink(std::function<void(std::size_t)> watch = [](std::size_t) {}) : watch_(std::move(watch)) {}
  void on_prefill(const JobStats&, std::size_t processed, double) override { watch_(processed); }
  bool on_token(TokenId, const JobStats&) override { return true; }
  void on_done(Finish finish, const JobStats& stats, const std::optional<Error>& error) override {
    promise_.set_value({.tokens = {}, .finish = finish, .stats = stats, .error = error});
  }
  bool gone() const override { return false; }
  std::future<Reply> future() { return promise_.get_future(); }

 private:
  const std::function<void(std::size_t)> watch_;
  std::promise<Reply> promise_;
};

Job ahead_of(const std::vector<TokenId>& prompt) {
  Job job;
  job.id = "ahead";
  job.kind = "ahead";
  job.prompt = prompt;
  job.sampling = World::greedy();
  job.max_tokens = 0;
  job.ahead = true;
  return job;
}

TEST(PrefillAhead, NextRequestPrefillsOnlyWhatIsNew) {
  World world;
  world.start();
  std::mt19937 random(1);
  const auto prompt = random_tokens(random, 500);
  auto sink = std::make_shared<WatchedSink>();
  auto ahead = sink->future();
  ASSERT_TRUE(world.scheduler.submit(ahead_of(prompt), sink));
  EXPECT_EQ(ahead.get().finish, Finish::kLength);
  EXPECT_EQ(world.ask(prompt + random_tokens(random, 20), 4).stats.prefilled_tokens, 20U);
}

TEST(PrefillAhead, IsRefusedWhileOthersAreThere) {
  World world;  // not started: submitted jobs wait
  std::mt19937 random(2);
  const auto prompt = random_tokens(random, 100);
  auto reply = world.submit(prompt, 2);
  EXPECT_FALSE(world.scheduler.submit(ahead_of(prompt), std::make_shared<WatchedSink>()));
  world.start();
  EXPECT_EQ(reply.get().tokens, world.expected(prompt, 2));
}

TEST(PrefillAhead, EndsBeforeItStartsWhenSomebodyComes) {
  World world;
  std::mt19937 random(3);
  auto sink = std::make_shared<WatchedSink>();
  auto ahead = sink->future();
  ASSERT_TRUE(world.scheduler.submit(ahead_of(random_tokens(random, 400)), sink));
  const auto prompt = random_tokens(random, 100);
  auto reply = world.submit(prompt, 2);
  world.start();
  EXPECT_EQ(reply.get().tokens, world.expected(prompt, 2));
  const Reply dropped = ahead.get();
  EXPECT_EQ(dropped.finish, Finish::kGone);
  EXPECT_EQ(dropped.stats.prefilled_tokens, 0U);
}

// With one place for a running request, so that a newcomer could not run next to the prefill ahead.
TEST(PrefillAhead, EndsAfterTheSliceInWhichSomebodyComesAndKeepsIt) {
  SchedulerOptions options{.parallel = 1};
  options.ahead_slice_ms = 0;  // the shortest slices
  World world({}, mebibytes(64), options);
  std::mt19937 random(4);
  const auto prompt = random_tokens(random, 640);
  const auto longer = prompt + random_tokens(random, 10);
  std::future<Reply> reply;
  std::size_t reached = 0;
  auto sink = std::make_shared<WatchedSink>([&](std::size_t processed) {
    if (reply.valid() || processed < 100) return;
    reached = processed;
    reply = world.submit(longer, 3);
  });
  auto ahead = sink->future();
  ASSERT_TRUE(world.scheduler.submit(ahead_of(prompt), sink));
  world.start();
  const Reply dropped = ahead.get();
  EXPECT_EQ(dropped.finish, Finish::kGone);
  EXPECT_EQ(dropped.stats.prefilled_tokens, reached);
  EXPECT_LE(reached, 100U + 32U);
  const Reply served = reply.get();
  EXPECT_EQ(served.tokens, world.expected(longer, 3));
  EXPECT_EQ(served.stats.cached_tokens, reached);
  EXPECT_EQ(served.stats.prefilled_tokens, longer.size() - reached);
}

TEST(PrefillAhead, OneThatWaitsForTheDiskEndsAtOnce) {
  const sim::TemporaryDirectory directory;
  std::mt19937 random(5);
  const auto prompt = random_tokens(random, 600);
  {
    World world({.ram = ByteCount{0}, .disk_directory = directory.path()});
    world.start();
    (void)world.ask(prompt, 2);
    world.stop();
    world.cache.flush();
  }
  // One place for a running request, and loads of one segment each: the second is being read when a request comes.
  sim::SimExecutor reader;
  SchedulerOptions options{.parallel = 1};
  options.load_window = ByteCount{4096};
  World world({.scheduler = options, .disk_directory = directory.path(), .hand_run_reader = &reader});
  world.start();
  auto sink = std::make_shared<WatchedSink>();
  auto ahead = sink->future();
  ASSERT_TRUE(world.scheduler.submit(ahead_of(prompt + random_tokens(random, 200)), sink));
  while (!reader.run_one()) std::this_thread::yield();
  while (reader.waiting() == 0) std::this_thread::yield();
  const auto other = random_tokens(random, 100);
  auto reply = world.submit(other, 4);
  const bool came = reply.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  reader.run_all();
  ASSERT_TRUE(came) << "it waited for what is being read";
  EXPECT_EQ(reply.get().tokens, world.expected(other, 4));
  const Reply dropped = ahead.get();
  EXPECT_EQ(dropped.finish, Finish::kGone);
  EXPECT_EQ(dropped.stats.prefilled_tokens, 0U);
}

}  // namespace
}  // namespace kvkeep::server
