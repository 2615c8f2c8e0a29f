// The scheduler with a disk tier: loads run next to the engine thread, may fail, and may be under way when it stops.

#include <filesystem>

#include "cache/capture.h"
#include "server/run/scheduler_test_fixture.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

std::vector<std::filesystem::path> segment_files(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().extension() == ".kvs") files.push_back(entry.path());
  }
  return files;
}

// Returns a prompt of `tokens` tokens; its reply has 10, and both are on disk in `directory`.
std::vector<TokenId> stored_prompt(const std::string& directory, std::size_t tokens, std::uint32_t number) {
  World world({.fake = {.batch_tokens = 128}, .ram = ByteCount{0}, .disk_directory = directory});
  world.start();
  std::mt19937 random(number);
  const auto prompt = random_tokens(random, tokens);
  EXPECT_EQ(world.ask(prompt, 10).tokens, world.expected(prompt, 10));
  world.stop();
  world.cache.flush();
  return prompt;
}

TEST(SchedulerWithDisk, RestoresAfterARestartAndTellsTheTier) {
  const sim::TemporaryDirectory directory;
  const auto prompt = stored_prompt(directory.path(), 600, 20);
  World world({.disk_directory = directory.path()});
  world.start();
  const Reply first = world.ask(prompt, 10);
  EXPECT_EQ(first.tokens, world.expected(prompt, 10));
  EXPECT_EQ(first.stats.prefilled_tokens, 1U);
  EXPECT_EQ(first.stats.source, CacheSource::kDiskToken);
  EXPECT_EQ(first.stats.disk_tokens, 599U);
  EXPECT_EQ(first.stats.ram_tokens + first.stats.memory_tokens, 0U);
  // Push the prompt out of the model's memory, so that only RAM has it.
  std::mt19937 random(21);
  (void)world.ask(random_tokens(random, 3900), 10);
  const Reply again = world.ask(prompt, 10);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.stats.source, CacheSource::kRamToken);
  EXPECT_EQ(again.stats.ram_tokens, 599U);
  EXPECT_EQ(again.stats.disk_tokens + again.stats.memory_tokens, 0U);
}

TEST(SchedulerWithDisk, FirstCapturesFindBuffersReadyIfTheyWerePrepared) {
  const auto fresh_after_one_request = [](bool prepared) {
    const sim::TemporaryDirectory directory;
    World world({.disk_directory = directory.path()});
    if (prepared) cache::prepare_staging(world.cache, world.engine.memory());
    world.cache.flush();  // waits until the posted write has run
    world.start();
    std::mt19937 random(19);
    (void)world.ask(random_tokens(random, 300), 10);
    return world.cache.stats().fresh_buffers;
  };
  EXPECT_GT(fresh_after_one_request(false), 0U);
  EXPECT_EQ(fresh_after_one_request(true), 0U);
}

TEST(SchedulerWithDisk, ASegmentThatCannotBeLoadedCostsOnlyWhatFollowsIt) {
  const std::set<std::size_t> ends{0, 32, 216, 256, 344, 472};  // of the segments before the lost one
  for (std::size_t lost = 0; lost < 6; ++lost) {
    const sim::TemporaryDirectory directory;
    const auto prompt = stored_prompt(directory.path(), 600, 22);
    World world({.fake = {.batch_tokens = 128}, .ram = ByteCount{0}, .disk_directory = directory.path()});
    // Opened before the files are lost, so that a load finds the loss.
    const auto files = segment_files(directory.path());
    ASSERT_GE(files.size(), 6U);
    std::filesystem::resize_file(files[lost], std::filesystem::file_size(files[lost]) - 1);
    world.start();
    const Reply reply = world.ask(prompt, 10);
    EXPECT_EQ(reply.tokens, world.expected(prompt, 10));
    EXPECT_EQ(reply.stats.cached_tokens + reply.stats.prefilled_tokens, prompt.size());
    if (reply.stats.prefilled_tokens > 1) {
      EXPECT_EQ(reply.stats.miss, MissReason::kLoadFailed);
      const std::size_t cached = reply.stats.cached_tokens;
      EXPECT_TRUE(ends.contains(cached)) << "up to the segment that was lost: " << cached;
    }
    EXPECT_EQ(world.ask(prompt, 10).stats.prefilled_tokens, 1U) << "and it was stored again";
  }
}

TEST(SchedulerWithDisk, OthersRunWhileOneLoads) {
  const sim::TemporaryDirectory directory;
  const auto prompt = stored_prompt(directory.path(), 600, 23);
  sim::SimExecutor reader;
  World world({.disk_directory = directory.path(), .hand_run_reader = &reader});
  world.start();
  auto loading = world.submit(prompt, 10);
  std::mt19937 random(24);
  for (int i = 0; i < 3; ++i) {
    const auto other = random_tokens(random, 100);
    ASSERT_EQ(world.ask(other, 20).tokens, world.expected(other, 20));
  }
  ASSERT_EQ(loading.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "nobody ran its read";
  while (loading.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout) reader.run_all();
  const Reply reply = loading.get();
  EXPECT_EQ(reply.tokens, world.expected(prompt, 10));
  EXPECT_EQ(reply.stats.disk_tokens, 599U);
}

TEST(SchedulerWithDisk, StopsWhileALoadIsUnderWay) {
  const sim::TemporaryDirectory directory;
  const auto prompt = stored_prompt(directory.path(), 600, 25);
  sim::SimExecutor reader;
  World world({.disk_directory = directory.path(), .hand_run_reader = &reader});
  world.start();
  auto loading = world.submit(prompt, 10);
  while (reader.waiting() == 0) std::this_thread::yield();
  world.scheduler.stop();
  reader.run_all();
  EXPECT_EQ(loading.get().finish, Finish::kError);
}

// It has one window of its state, and wants more.
TEST(SchedulerDeadlines, HoldWhileStateIsRead) {
  const sim::TemporaryDirectory directory;
  const auto prompt = stored_prompt(directory.path(), 600, 26);
  sim::SimExecutor reader;
  SteppingClock clock;
  World world({.fake = {.batch_tokens = 128},
               .ram = ByteCount{0},
               .scheduler = {.load_window = ByteCount{9000}},
               .disk_directory = directory.path(),
               .hand_run_reader = &reader,
               .clock = &clock});
  world.start();
  auto sink = std::make_shared<CollectingSink>();
  auto future = sink->future();
  Job job{.id = "test", .kind = "chat", .prompt = prompt, .sampling = World::greedy(), .max_tokens = 10};
  job.longest_ms = 60'000;
  ASSERT_TRUE(world.scheduler.submit(std::move(job), std::move(sink)).ok());
  std::size_t reads = 0;
  while (!ready(future)) {
    if (reader.waiting() == 0) continue;
    clock.step_ns = 61'000'000'000;
    reader.run_one();
    ++reads;
  }
  EXPECT_EQ(reads, 1U);
  const Reply refused = future.get();
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->kind, ErrorKind::kBusy);
  EXPECT_GT(refused.stats.waits.ended()[WaitCause::kDisk], 1'000);
}

// Nothing runs its read, which is of two segments and more.
TEST(SchedulerDeadlines, EndARequestBeforeItsStateIsRead) {
  const sim::TemporaryDirectory directory;
  const auto prompt = stored_prompt(directory.path(), 600, 28);
  sim::SimExecutor reader;
  SteppingClock clock;
  World world({.fake = {.batch_tokens = 128},
               .ram = ByteCount{0},
               .disk_directory = directory.path(),
               .hand_run_reader = &reader,
               .clock = &clock});
  world.start();
  auto sink = std::make_shared<CollectingSink>();
  auto future = sink->future();
  Job job{.id = "test", .kind = "chat", .prompt = prompt, .sampling = World::greedy(), .max_tokens = 10};
  job.longest_ms = 60'000;
  ASSERT_TRUE(world.scheduler.submit(std::move(job), std::move(sink)).ok());
  while (reader.waiting() == 0) std::this_thread::yield();
  const std::int64_t step_ns = clock.step_ns.exchange(61'000'000'000);
  const bool ended = future.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  clock.step_ns = step_ns;
  reader.run_all();
  ASSERT_TRUE(ended) << "it held its place until all was read";
  EXPECT_EQ(future.get().error->kind, ErrorKind::kBusy);
  auto retry = world.submit(prompt, 10);
  while (!ready(retry)) reader.run_all();
  const Reply again = retry.get();
  EXPECT_EQ(again.tokens, world.expected(prompt, 10));
  EXPECT_EQ(again.stats.prefilled_tokens, 1U);
}

// The number of rows that were restored when each load was requested.
std::vector<std::uint64_t> restored_before_each_load(World& world, sim::SimExecutor& reader,
                                                     const std::future<Reply>& reply) {
  std::vector<std::uint64_t> restored;
  for (;;) {
    while (reader.waiting() == 0) {
      if (ready(reply)) return restored;
    }
    restored.push_back(world.engine.counters().rows_restored);
    reader.run_one();
  }
}

TEST(SchedulerWithDisk, ALongPathIsRestoredWindowByWindow) {
  const sim::TemporaryDirectory directory;
  const auto prompt = stored_prompt(directory.path(), 600, 26);
  sim::SimExecutor reader;
  // Segments are 128 rows of 32 bytes and a header: two of them are a window.
  World world({.fake = {.batch_tokens = 128},
               .ram = ByteCount{0},
               .scheduler = {.load_window = ByteCount{9000}},
               .disk_directory = directory.path(),
               .hand_run_reader = &reader});
  world.start();
  auto reply = world.submit(prompt, 10);
  EXPECT_EQ(restored_before_each_load(world, reader, reply), (std::vector<std::uint64_t>{0, 256, 472}));
  const Reply done = reply.get();
  EXPECT_EQ(done.tokens, world.expected(prompt, 10));
  EXPECT_EQ(done.stats.disk_tokens, 599U);
}

// ---- rows that the cache refused once, since the disk was slow ----

// 75 MiB of rows, of which the write queue takes 64 MiB while nothing is written.
class RefusedRows : public testing::Test {
 protected:
  static WorldOptions options(const std::string& directory) {
    return {.fake = {.cells = 1300, .batch_tokens = 256, .row_bytes = 64 << 10},
            .ram = ByteCount{0},
            .scheduler = {.parallel = 1},
            .disk_directory = directory,
            .disk_budget = mebibytes(512)};
  }
  void ask_while_nothing_is_written(World& world) {
    world.writer->post([this] { gate_.get_future().wait(); });
    world.start();
    (void)world.ask(prompt_, 2);
    EXPECT_GT(world.cache.stats().refused, 0U);
  }
  void let_it_write() { gate_.set_value(); }
  const sim::TemporaryDirectory directory_;
  std::mt19937 random_{27};
  const std::vector<TokenId> prompt_ = random_tokens(random_, 1200);
  std::promise<void> gate_;
};

TEST_F(RefusedRows, AreKeptBeforeTheirSequenceLeaves) {
  World world(options(directory_.path()));
  ask_while_nothing_is_written(world);
  let_it_write();
  world.writer->drain();
  (void)world.ask(random_tokens(random_, 1200), 2);
  EXPECT_EQ(world.ask(prompt_, 2).stats.prefilled_tokens, 1U);
}

TEST_F(RefusedRows, AreKeptBeforeTheirSequenceIsTruncated) {
  World world(options(directory_.path()));
  ask_while_nothing_is_written(world);
  let_it_write();
  world.writer->drain();
  std::vector<TokenId> branch = prompt_;
  branch.resize(600);
  (void)world.ask(branch + random_tokens(random_, 600), 2);
  EXPECT_EQ(world.ask(prompt_, 2).stats.prefilled_tokens, 1U);
}

TEST_F(RefusedRows, AreKeptWhenTheServerStops) {
  {
    World world(options(directory_.path()));
    ask_while_nothing_is_written(world);
    world.scheduler.stop();
    let_it_write();
    world.stop();
    world.cache.flush();
  }
  World world(options(directory_.path()));
  world.start();
  EXPECT_EQ(world.ask(prompt_, 2).stats.prefilled_tokens, 1U);
}

// The keeper of a shared directory may have evicted the beginning of a conversation a moment before another server is
// stopped: that one's rows are then only in the model's memory.
TEST(SchedulerWithDisk, AtTheEndIsCapturedAnewWhatOthersRemovedMeanwhile) {
  const sim::TemporaryDirectory directory;
  std::mt19937 random(77);
  std::vector<TokenId> prompt = random_tokens(random, 300);
  {
    World keeper({.disk_directory = directory.path()});
    World member({.ram = ByteCount{0}, .disk_directory = directory.path()});
    for (World* world : {&keeper, &member}) {
      world->cache.tick();
      world->writer->drain();
    }
    member.start();
    prompt = prompt + member.ask(prompt, 4).tokens + random_tokens(random, 100);
    member.cache.flush();
    for (const auto& file : segment_files(directory.path())) std::filesystem::remove(file);
    (void)member.ask(prompt, 1);
    member.stop();
    member.cache.flush();
    keeper.cache.tick();
    keeper.writer->drain();
  }
  World next({.disk_directory = directory.path()});
  next.start();
  const Reply reply = next.ask(prompt, 1);
  EXPECT_EQ(reply.stats.disk_tokens, prompt.size() - 1);
  EXPECT_EQ(reply.stats.prefilled_tokens, 1U);
}

}  // namespace
}  // namespace kvkeep::server
