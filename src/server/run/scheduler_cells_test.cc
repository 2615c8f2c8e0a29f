// The scheduler when the model's memory is too small for all requests that run, load or stay: which one gives cells
// back, and that no client loses a reply and nothing is prefilled twice.

#include "server/run/scheduler_test_fixture.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

TEST(SchedulerCells, TwoSessionsThatExceedTheMemoryComeBackFromRam) {
  World world({.cells = 1000, .sequences = 4});
  world.start();
  std::mt19937 random(5);
  auto a = random_tokens(random, 600);
  auto b = random_tokens(random, 600);
  for (int turn = 0; turn < 4; ++turn) {
    for (auto* session : {&a, &b}) {
      const Reply reply = world.ask(*session, 10);
      ASSERT_EQ(reply.tokens, world.expected(*session, 10));
      if (turn > 0) {
        EXPECT_EQ(reply.stats.prefilled_tokens, 11U);
        EXPECT_EQ(reply.stats.source, CacheSource::kRamToken);
      }
      *session = *session + reply.tokens + random_tokens(random, 10);
    }
  }
}

TEST(SchedulerCells, WaitingForCellsIsNoPrefill) {
  SteppingClock clock;
  World world(WorldOptions{.fake = {.cells = 700, .batch_tokens = 100}, .clock = &clock});
  std::mt19937 random(8);
  auto first = world.submit(random_tokens(random, 600), 50);
  auto second = world.submit(random_tokens(random, 600), 50);
  world.start();
  const JobStats before = first.get().stats;
  const JobStats after = second.get().stats;
  EXPECT_GT(after.queue_ms, before.prompt_ms + before.predicted_ms);
  EXPECT_LT(after.prompt_ms, after.queue_ms);
}

// A prompt that finds no room lets short ones go first, but not all that come.
TEST(SchedulerCells, AFewStartNextToOneThatWaitsForCells) {
  World world({.cells = 1000, .sequences = 6}, mebibytes(64), {.parallel = 3});
  std::mt19937 random(9);
  const auto giant = random_tokens(random, 600);
  auto runs = world.submit(random_tokens(random, 600), 200);
  auto waits = world.submit(giant, 4);
  std::vector<std::future<Reply>> others;
  std::size_t calls = 0;
  std::ptrdiff_t ended = 0;
  const auto is_ready = [](const std::future<Reply>& reply) {
    return reply.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  world.engine.set_on_decode([&](std::span<const engine::BatchToken>) {
    if (++calls == 5) {
      for (int i = 0; i < 12; ++i) others.push_back(world.submit(random_tokens(random, 20), 2));
    }
    if (!is_ready(runs)) ended = std::ranges::count_if(others, is_ready);
  });
  world.start();
  EXPECT_EQ(waits.get().tokens, world.expected(giant, 4));
  EXPECT_EQ(ended, static_cast<std::ptrdiff_t>(policy::kMostOvertaken));
  for (auto& other : others) EXPECT_EQ(other.get().finish, Finish::kLength);
}

TEST(SchedulerCells, RequestsThatOutgrowTheMemoryAreSetAsideAndAllSucceed) {
  World world({.cells = 1000, .sequences = 6}, mebibytes(64), {.parallel = 3});
  std::mt19937 random(6);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 3; ++i) {
    prompts.push_back(random_tokens(random, 40));
    replies.push_back(world.submit(prompts.back(), 600));
  }
  world.start();
  for (std::size_t i = 0; i < 3; ++i) {
    const Reply reply = replies[i].get();
    EXPECT_EQ(reply.finish, Finish::kLength);
    EXPECT_EQ(reply.tokens, world.expected(prompts[i], 600)) << "request " << i;
  }
  const SchedulerStats stats = world.scheduler.stats();
  EXPECT_GT(stats.set_aside, 0U);
  EXPECT_LE(stats.prefilled_tokens, 3 * 40 + stats.set_aside) << "who is resumed prefills the last sampled token only";
}

// As when window cells run out, of which each fork needs its own.
TEST(SchedulerCells, AForkThatIsRefusedTakesNothingFromTheRequestItWasToShareWith) {
  World world({.cells = 2000, .sequences = 6}, mebibytes(64), {.parallel = 2});
  world.engine.set_faults({.fail_fork = 1});
  std::mt19937 random(44);
  const auto prompt = random_tokens(random, 200);
  const auto longer = prompt + random_tokens(random, 20);
  auto first = world.submit(prompt, 100);
  auto second = world.submit(longer, 100);
  world.start();
  EXPECT_EQ(first.get().tokens, world.expected(prompt, 100));
  const Reply reply = second.get();
  EXPECT_EQ(reply.tokens, world.expected(longer, 100));
  EXPECT_EQ(reply.stats.ram_tokens, 200U) << "what was captured of it comes from the cache";
  EXPECT_EQ(world.engine.counters().forks, 0U);
}

TEST(SchedulerCells, TheIdleSequenceUsedLastStaysLongest) {
  World world({.cells = 1000, .sequences = 4});
  world.start();
  std::mt19937 random(40);
  const auto older = random_tokens(random, 200);
  const auto newer = random_tokens(random, 200);
  const auto growing = random_tokens(random, 50);
  (void)world.ask(older, 1);
  (void)world.ask(newer, 1);
  EXPECT_EQ(world.ask(growing, 600).tokens, world.expected(growing, 600)) << "needs the cells of one of them";
  EXPECT_EQ(world.ask(newer, 1).stats.memory_tokens, 199U);
  EXPECT_EQ(world.ask(older, 1).stats.ram_tokens, 199U);
}

TEST(SchedulerCells, IdleSequencesLeaveTheMemoryWhenTheirTimeIsOver) {
  constexpr std::int64_t kHourMs = 3'600'000;
  sim::SimClock clock;
  World world(WorldOptions{.scheduler = {.parallel = 2, .idle_to_live_ns = 2 * kHourMs * 1'000'000}, .clock = &clock});
  world.start();
  std::mt19937 random(43);
  const auto older = random_tokens(random, 200);
  const auto newer = random_tokens(random, 200);
  (void)world.ask(older, 1);
  (void)world.ask(newer, 1);  // by now the first one is idle
  clock.advance_ms(kHourMs);
  EXPECT_EQ(world.ask(older, 1).stats.memory_tokens, 199U);
  (void)world.ask(newer, 1);
  clock.advance_ms(2 * kHourMs);
  EXPECT_EQ(world.ask(older, 1).stats.ram_tokens, 199U);
}

TEST(SchedulerCells, AReplyThatCanTakeCellsFromNobodyEndsLikeAFullContext) {
  World world;
  world.engine.set_faults({.no_cells_decode = 5});
  world.start();
  std::mt19937 random(42);
  const auto prompt = random_tokens(random, 20);
  const Reply reply = world.ask(prompt, 50);
  EXPECT_EQ(reply.finish, Finish::kLength);
  EXPECT_EQ(reply.tokens, world.expected(prompt, 4));
}

// ---- cells for rows that are being read from disk ----

// 1,000 cells; a stored prompt of 600 tokens, whose rows are on disk, is sent again, while a prompt of 30 tokens gets a
// long reply. Reads run when the engine thread decodes, or when the test waits.
class LoadedDuringAReply : public testing::Test {
 protected:
  static constexpr std::size_t kStored = 600;
  // 40 rows of 32 bytes and a header are a segment.
  static WorldOptions options(const std::string& directory, std::size_t cells) {
    return {.fake = {.cells = static_cast<std::uint32_t>(cells), .batch_tokens = 40},
            .ram = ByteCount{0},
            .disk_directory = directory};
  }
  void SetUp() override {
    World world(options(directory_.path(), 1000));
    world.start();
    (void)world.ask(stored_, 1);
    world.stop();
    world.cache.flush();
  }
  WorldOptions with_reader(std::size_t cells, ByteCount load_window = mebibytes(256)) {
    WorldOptions options = LoadedDuringAReply::options(directory_.path(), cells);
    options.scheduler = {.parallel = 2, .load_window = load_window};
    options.hand_run_reader = &reader_;
    return options;
  }
  // Calls `on_decoded` with the number of tokens of the long reply, on the engine thread.
  void when_talking(World& world, std::function<void(std::size_t)> on_decoded) {
    world.engine.set_on_decode([this, on_decoded](std::span<const engine::BatchToken> batch) {
      if (batch.size() == 1) on_decoded(++decoded_);
    });
  }
  void run_one_read() { EXPECT_TRUE(reader_.run_one()); }
  Reply wait(std::future<Reply>& reply) {
    while (!ready(reply)) reader_.run_all();
    return reply.get();
  }
  void expect_nothing_lost(World& world, const Reply& loaded, const Reply& talker, std::size_t reply_tokens) {
    EXPECT_EQ(loaded.tokens, world.expected(stored_, 2));
    EXPECT_EQ(loaded.stats.prefilled_tokens, 1U);
    EXPECT_EQ(loaded.stats.disk_tokens, kStored - 1);
    EXPECT_EQ(talker.tokens, world.expected(talker_, reply_tokens));
    EXPECT_LE(talker.stats.prefilled_tokens, talker_.size() + 1);
  }

  const sim::TemporaryDirectory directory_;
  sim::SimExecutor reader_;
  std::mt19937 random_{41};
  const std::vector<TokenId> stored_ = random_tokens(random_, kStored);
  const std::vector<TokenId> talker_ = random_tokens(random_, 30);
  std::size_t decoded_ = 0;
};

TEST_F(LoadedDuringAReply, TwoLoadsDoNotTakeTheSameCells) {
  const auto second = random_tokens(random_, kStored);
  {
    World world(options(directory_.path(), 1000));
    world.start();
    (void)world.ask(second, 1);
    world.stop();
    world.cache.flush();
  }
  World world(with_reader(1000));
  auto first_reply = world.submit(stored_, 100);
  auto second_reply = world.submit(second, 100);
  world.start();
  EXPECT_EQ(wait(first_reply).stats.prefilled_tokens, 1U);
  const Reply reply = wait(second_reply);
  EXPECT_EQ(reply.stats.prefilled_tokens, 1U);
  EXPECT_EQ(reply.stats.disk_tokens, kStored - 1);
  EXPECT_EQ(reply.tokens, world.expected(second, 100));
  EXPECT_EQ(world.scheduler.stats().set_aside, 0U) << "nothing was read before there was room for it";
}

// Next to a long reply and a prompt that is being read, a third request has no room: it waits, instead of being
// interrupted when the rows arrive.
TEST_F(LoadedDuringAReply, CellsOfWhatIsBeingReadAreNotPlannedForOthers) {
  WorldOptions options = with_reader(1000);
  options.scheduler.parallel = 3;
  World world(options);
  when_talking(world, [&](std::size_t decoded) {
    if (decoded == 10) reader_.run_all();  // the third could have prefilled most of its prompt, in slices of 40
  });
  auto loaded = world.submit(stored_, 2);
  auto talker = world.submit(talker_, 100);
  const auto prompt = random_tokens(random_, 500);
  auto third = world.submit(prompt, 2);
  world.start();
  const Reply late = wait(third);
  EXPECT_EQ(late.tokens, world.expected(prompt, 2));
  EXPECT_EQ(late.stats.prefilled_tokens, 500U);
  expect_nothing_lost(world, loaded.get(), talker.get(), 100);
  EXPECT_EQ(world.scheduler.stats().set_aside, 0U);
}

TEST_F(LoadedDuringAReply, AYoungerReplyGivesItsCellsToWhatWasLoaded) {
  std::atomic<bool> released = false;
  World world(with_reader(1000));
  when_talking(world, [&](std::size_t decoded) {
    if (decoded != 450) return;
    reader_.run_all();
    released = true;
  });
  auto loaded = world.submit(stored_, 2);
  auto talker = world.submit(talker_, 600);
  world.start();
  // A fast writer has the talker's rows on disk when it resumes: then they are read, too.
  while (!ready(talker)) {
    if (released) reader_.run_all();
  }
  const Reply talked = talker.get();
  expect_nothing_lost(world, loaded.get(), talked, 600);
  EXPECT_EQ(world.scheduler.stats().set_aside, 1U);
}

TEST_F(LoadedDuringAReply, LoadedRowsWaitForAnOlderReply) {
  World world(with_reader(1000));
  std::future<Reply> loaded;
  when_talking(world, [&](std::size_t decoded) {
    if (decoded == 20) loaded = world.submit(stored_, 2);
    if (decoded == 450) reader_.run_all();
  });
  auto talker = world.submit(talker_, 600);
  world.start();
  const Reply talked = talker.get();
  expect_nothing_lost(world, wait(loaded), talked, 600);
  EXPECT_EQ(talked.stats.prefilled_tokens, talker_.size()) << "it was not interrupted";
}

TEST_F(LoadedDuringAReply, IdleSequencesLeaveForWhatWasLoaded) {
  World world(with_reader(1000));
  auto loaded = world.submit(stored_, 2);
  auto talker = world.submit(talker_, 450);
  world.start();
  const Reply talked = talker.get();
  expect_nothing_lost(world, wait(loaded), talked, 450);
}

// ---- cells of a half-loaded prompt ----

// Six segments: the restored part of the stored prompt while the rest is still to be read.
constexpr ByteCount kSixSegments{8000};

TEST_F(LoadedDuringAReply, AnOlderReplyIsNotCutShortByOneThatLoads) {
  World world(with_reader(700, kSixSegments));
  std::future<Reply> loaded;
  when_talking(world, [&](std::size_t decoded) {
    if (decoded == 20) loaded = world.submit(stored_, 2);
    if (decoded == 30) run_one_read();
  });
  auto talker = world.submit(talker_, 500);
  world.start();
  const Reply talked = talker.get();
  EXPECT_EQ(talked.stats.prefilled_tokens, talker_.size()) << "it was not interrupted";
  EXPECT_EQ(world.scheduler.stats().set_aside, 1U) << "240 rows of the other were there already";
  expect_nothing_lost(world, wait(loaded), talked, 500);
}

TEST_F(LoadedDuringAReply, AYoungerReplyIsResumedAfterAnOlderOneThatLoads) {
  World world(with_reader(700 + 200, kSixSegments));
  when_talking(world, [&](std::size_t decoded) {
    if (decoded == 30) run_one_read();
  });
  auto loaded = world.submit(stored_, 2);
  auto talker = world.submit(talker_, 700);
  world.start();
  while (world.scheduler.stats().set_aside == 0 && !ready(talker)) {}
  const Reply first = wait(loaded);
  expect_nothing_lost(world, first, wait(talker), 700);
}

TEST_F(LoadedDuringAReply, StopsWhileALoadGoesOnWhoseCellsWereGivenBack) {
  World world(with_reader(700, kSixSegments));
  std::future<Reply> loaded;
  std::atomic<bool> stopped = false;
  when_talking(world, [&](std::size_t decoded) {
    if (decoded == 20) loaded = world.submit(stored_, 2);
    if (decoded == 30) run_one_read();
    if (world.scheduler.stats().set_aside == 0) return;
    world.scheduler.stop();
    stopped = true;
  });
  auto talker = world.submit(talker_, 500);
  world.start();
  while (!ready(talker) || !ready(loaded)) {
    if (stopped) reader_.run_all();  // earlier, it would take the read that is to go on
  }
  EXPECT_EQ(talker.get().finish, Finish::kError);
  EXPECT_EQ(loaded.get().finish, Finish::kError);
}

}  // namespace
}  // namespace kvkeep::server
