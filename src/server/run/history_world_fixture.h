#pragma once

// A server without HTTP that a test stops, kills and starts again over a simulated disk, step by step: files are
// written when the test says so, disks are read at once, time is a count: each run is the same.

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/run/bent_engine_fixture.h"
#include "server/run/scheduler_test_fixture.h"
#include "share/frail_engine_fixture.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"
#include "testing/sim/virtual_time.h"

namespace kvkeep::server {

using Tokens = std::vector<TokenId>;

struct Ask {
  Tokens prompt;
  policy::PromptMarkers markers = {};
  std::size_t reply_tokens = 8;
  bool cache_prompt = true;
};

class HistoryWorld {
 public:
  struct Options {
    FakeOptions fake = {};
    SchedulerOptions scheduler = {};
    ByteCount ram = mebibytes(64);
    bool disk = true;
    ByteCount disk_budget = mebibytes(64);
    policy::RestoreMode restore = policy::RestoreMode::kAlways;
    // How long the clock says that they take.
    std::int64_t prefill_ms_per_token = 0;
    std::int64_t load_ms_per_byte = 0;
    bool shared = false;  // it has a shared tier, `share_engine`
    // Its answers take their time beside the engine: four look-ups and three loads go on at once.
    bool shared_beside = false;
    double shared_answer_ms = 0.3;
    double shared_most_deadline_ms = 50;
  };

  explicit HistoryWorld(Options chosen, Bend bend_chosen = Bend::kNothing)
      : options(std::move(chosen)), bend(bend_chosen) {
    options.scheduler.restore = options.restore;
    open();
  }
  ~HistoryWorld() { close(); }
  HistoryWorld(const HistoryWorld&) = delete;
  HistoryWorld& operator=(const HistoryWorld&) = delete;

  // Returns replies in the order of the requests; fewer if one does not come. All are submitted before the first
  // prefill.
  std::vector<Reply> ask(const std::vector<Ask>& asked) {
    std::promise<void> all_submitted;
    const std::shared_future<void> gate(all_submitted.get_future());
    engine->fake.set_on_decode([this, gate](std::span<const engine::BatchToken> batch) {
      gate.wait();
      pass_time_of(batch);
    });
    std::vector<std::future<Reply>> futures;
    for (const Ask& one : asked) {
      if (auto future = submit(one)) futures.push_back(std::move(*future));
    }
    all_submitted.set_value();
    std::vector<Reply> replies;
    for (std::future<Reply>& future : futures) {
      if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) return replies;
      replies.push_back(future.get());
    }
    wait_until_idle();
    return replies;
  }

  // The request is under way; nullopt: it was refused.
  std::optional<std::future<Reply>> submit(const Ask& one) {
    auto sink = std::make_shared<CollectingSink>();
    auto future = sink->future();
    if (!scheduler->submit(job_of(one), sink)) return std::nullopt;
    return future;
  }
  // Time passes, for what goes on beside the engine as well.
  void pass_ms(std::int64_t ms) { time.pass_ns(ms * 1'000'000); }
  // Returns when no request runs. Others may wait.
  void wait_until_none_runs() const {
    while (scheduler->stats().running > 0) std::this_thread::yield();
  }

  // The process ends in order, and starts again.
  void restart() {
    close();
    files.kill();  // gives up the lock
    open();
  }
  // The process dies, loses unwritten state, and starts again.
  void die(bool power_cut) {
    files.set_plan({sim::FaultKind::kCrash, 1});
    writer.forget_all();
    close();
    power_cut ? files.power_cut() : files.kill();
    files.heal();
    open();
  }
  std::vector<std::string> segment_paths() const {
    std::vector<std::string> segments;
    for (const std::string& path : files.paths()) {
      if (format::is_file_name(path.substr(path.rfind('/') + 1))) segments.push_back(path);
    }
    return segments;
  }
  std::vector<std::string> segment_paths(format::PartKind kind) const {
    std::vector<std::string> segments = segment_paths();
    std::erase_if(segments, [kind](const std::string& path) {
      return path.substr(path.find('.', path.rfind('/'))) != format::file_suffix(kind);
    });
    return segments;
  }
  Tokens expected(const Ask& asked) const {
    return engine->fake.expected_text(asked.prompt, asked.reply_tokens, World::greedy());
  }

  Options options;
  const Bend bend;
  sim::SimFileSystem files;
  sim::SimExecutor writer;
  sim::SimClock clock;
  sim::VirtualTime time{clock};
  share::FrailWorld share_engine{clock};
  sim::SimExecutor share_worker;
  bool searches_wait = false;  // for the end of the test: others hold all searchers up
  std::unique_ptr<BentEngine> engine;
  std::unique_ptr<cache::Cache> cache;
  std::unique_ptr<Scheduler> scheduler;

 private:
  class AtOnce final : public os::Executor {
   public:
    void post(std::function<void()> task) override { task(); }
    void drain() override {}
  };
  class Searcher final : public os::Executor {
   public:
    explicit Searcher(const bool& waits) : waits_(waits) {}
    void post(std::function<void()> task) override { waits_ ? waiting_.post(std::move(task)) : task(); }
    void drain() override { waiting_.drain(); }

   private:
    const bool& waits_;
    sim::SimExecutor waiting_;
  };

  static Job job_of(const Ask& asked) {
    Job job;
    job.id = "history";
    job.kind = "chat";
    job.prompt = asked.prompt;
    job.markers = asked.markers;
    job.sampling = World::greedy();
    job.max_tokens = static_cast<std::int64_t>(asked.reply_tokens);
    job.cache_prompt = asked.cache_prompt;
    return job;
  }
  void pass_time_of(std::span<const engine::BatchToken> batch) {
    pass_ms(options.prefill_ms_per_token * static_cast<std::int64_t>(batch.size()));
  }
  void open() {
    engine = std::make_unique<BentEngine>(options.fake, bend);
    engine->fake.set_on_decode([this](std::span<const engine::BatchToken> batch) { pass_time_of(batch); });
    engine->bent_memory.on_restore = [this](std::size_t bytes) {
      pass_ms(options.load_ms_per_byte * static_cast<std::int64_t>(bytes));
    };
    std::unique_ptr<store::DiskStore> disk;
    if (options.disk) {
      auto opened = store::DiskStore::open(
          {.directory = "/kv", .fingerprint = engine->description().fingerprint, .budget = options.disk_budget}, files,
          clock);
      EXPECT_TRUE(opened) << "a disk that works opens, whatever it holds";
      if (opened) disk = std::move(*opened);
    }
    cache = std::make_unique<cache::Cache>(cache::CacheOptions{.fingerprint = engine->description().fingerprint,
                                                               .ram_budget = options.ram,
                                                               .shape = engine->memory().shape()},
                                           std::move(disk), clock, writer, reader_, std::vector<cache::FurtherTier>{},
                                           open_shared());
    cache->settle();
    scheduler = std::make_unique<Scheduler>(options.scheduler, *engine, *cache, clock);
    thread_ = std::thread([this] { scheduler->run(); });
  }
  // Look-ups run on the thread that submits, while the engine thread waits for them.
  cache::SharedSetup open_shared() {
    if (!options.shared) return {};
    share_engine.answer_ms = options.shared_answer_ms;
    share_engine.most_deadline_ms = options.shared_most_deadline_ms;
    auto store = share::SharedStore::make(std::make_unique<share::FrailEngine>(share_engine),
                                          {.fingerprint = engine->description().fingerprint}, clock, share_worker);
    EXPECT_TRUE(store.ok());
    share_worker.run_all();
    if (!options.shared_beside) {
      return {.store = std::move(*store), .worker = &share_worker, .reader = &reader_, .searcher = &searcher_};
    }
    share_engine.pass_ns = [this](std::int64_t ns) { time.pass_ns(ns); };
    if (readers_ == nullptr) readers_ = std::make_unique<sim::VirtualTime::Threads>(time, 3);
    if (searchers_ == nullptr) searchers_ = std::make_unique<sim::VirtualTime::Threads>(time, 4);
    return {
        .store = std::move(*store), .worker = &share_worker, .reader = readers_.get(), .searcher = searchers_.get()};
  }
  void close() {
    scheduler->stop();
    thread_.join();
    cache->flush();
    scheduler.reset();
    cache.reset();
    engine.reset();
  }
  // After a reply its sequence is captured.
  void wait_until_idle() {
    for (;;) {
      const SchedulerStats now = scheduler->stats();
      if (now.running == 0 && now.waiting == 0) return;
      std::this_thread::yield();
    }
  }

  AtOnce reader_;
  Searcher searcher_{searches_wait};
  std::unique_ptr<sim::VirtualTime::Threads> readers_;
  std::unique_ptr<sim::VirtualTime::Threads> searchers_;
  std::thread thread_;
};

}  // namespace kvkeep::server
