#pragma once

// A scheduler with its thread over the fake engine, with or without a disk tier, and a client that collects replies.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <thread>

#include "cache/cache.h"
#include "cache/cache_stats.h"
#include "engine/fake/fake_engine.h"
#include "server/run/scheduler.h"
#include "server/run/scheduler_stats.h"
#include "share/shared_store.h"

namespace kvkeep::server {

using engine::fake::FakeEngine;
using engine::fake::FakeOptions;

struct Reply {
  std::vector<TokenId> tokens;
  Finish finish = Finish::kError;
  JobStats stats;
  std::optional<Error> error;
};

// Checks that a started request counts each reused token in one tier, and names a tier as the source that gave some.
inline void expect_counts_agree(const JobStats& stats) {
  EXPECT_EQ(stats.memory_tokens + stats.ram_tokens + stats.disk_tokens + stats.shared_tokens, stats.cached_tokens);
  switch (stats.source) {
    case CacheSource::kNone: EXPECT_EQ(stats.cached_tokens, 0U); break;
    case CacheSource::kMemoryToken:
    case CacheSource::kMemoryText: EXPECT_GT(stats.memory_tokens, 0U); break;
    case CacheSource::kRamToken:
    case CacheSource::kRamText: EXPECT_GT(stats.ram_tokens, 0U); break;
    case CacheSource::kDiskToken:
    case CacheSource::kDiskText: EXPECT_GT(stats.disk_tokens, 0U); break;
    case CacheSource::kSharedToken:
    case CacheSource::kSharedText: EXPECT_GT(stats.shared_tokens, 0U); break;
  }
}

class CollectingSink final : public JobSink {
 public:
  explicit CollectingSink(std::size_t leave_after = SIZE_MAX) : leave_after_(leave_after), gone_(leave_after == 0) {}
  void on_prefill(const JobStats&, std::size_t processed, double) override { processed_.push_back(processed); }
  bool on_token(TokenId token, const JobStats&) override {
    reply_.tokens.push_back(token);
    if (reply_.tokens.size() >= leave_after_) gone_ = true;
    return true;
  }
  void on_done(Finish finish, const JobStats& stats, const std::optional<Error>& error) override {
    reply_.finish = finish;
    reply_.stats = stats;
    reply_.error = error;
    EXPECT_TRUE(std::ranges::is_sorted(processed_)) << "progress went back";
    if (!processed_.empty()) expect_counts_agree(stats);
    promise_.set_value(reply_);
  }
  bool gone() const override { return gone_; }
  void leave() { gone_ = true; }  // any thread
  std::future<Reply> future() { return promise_.get_future(); }

 private:
  const std::size_t leave_after_;
  std::atomic<bool> gone_;
  std::vector<std::size_t> processed_;
  Reply reply_;
  std::promise<Reply> promise_;
};

class CollectedAnswer final : public InspectionSink {
 public:
  void on_answer(Result<Inspection> answer) override { promise_.set_value(std::move(answer)); }
  bool gone() const override { return false; }
  Inspection wait() { return promise_.get_future().get().value(); }

 private:
  std::promise<Result<Inspection>> promise_;
};

// Each reading advances the clock by one step.
class SteppingClock final : public os::Clock {
 public:
  std::int64_t monotonic_ns() override { return now_ns_ += step_ns; }
  std::int64_t wall_ns() override { return now_ns_; }
  std::atomic<std::int64_t> step_ns = 1'000'000;

 private:
  std::atomic<std::int64_t> now_ns_ = 0;
};

struct WorldOptions {
  FakeOptions fake = {};
  ByteCount ram = mebibytes(64);
  SchedulerOptions scheduler = {.parallel = 2};
  std::string disk_directory = {};  // empty: no disk tier
  ByteCount disk_budget = mebibytes(64);
  os::Executor* hand_run_reader = nullptr;  // reads wait until the test runs them
  os::Clock* clock = nullptr;               // the scheduler's; null: the real one
  bool restore_auto = false;
  // Makes this server's way to the engine of a shared tier; empty: there is no such tier.
  std::function<std::unique_ptr<share::ObjectEngine>()> shared = {};
};

// Engine, cache, scheduler and its thread.
class World {
 public:
  explicit World(FakeOptions fake = {}, ByteCount ram = mebibytes(64), SchedulerOptions options = {.parallel = 2})
      : World(WorldOptions{.fake = fake, .ram = ram, .scheduler = options}) {}
  explicit World(const WorldOptions& options)
      : engine(options.fake),
        writer(os::make_thread_executor("writer")),
        reader(os::make_thread_executor("reader")),
        cache({.fingerprint = engine.description().fingerprint,
               .ram_budget = options.ram,
               .shape = engine.memory().shape()},
              open_disk(options), os::real_clock(), *writer,
              options.hand_run_reader != nullptr ? *options.hand_run_reader : *reader, {}, open_shared(options)),
        scheduler(options.restore_auto ? options.scheduler : always(options.scheduler), engine, cache,
                  options.clock != nullptr ? *options.clock : os::real_clock()) {
    cache.settle();
  }
  std::unique_ptr<store::DiskStore> open_disk(const WorldOptions& options) {
    if (options.disk_directory.empty()) return nullptr;
    auto disk = store::DiskStore::open({.directory = options.disk_directory,
                                        .fingerprint = engine.description().fingerprint,
                                        .budget = options.disk_budget},
                                       os::real_file_system(), os::real_clock());
    EXPECT_TRUE(disk.ok());
    return std::move(*disk);
  }
  cache::SharedSetup open_shared(const WorldOptions& options) {
    if (!options.shared) return {};
    share_worker = os::make_thread_executor("share-worker");
    share_reader = os::make_thread_executor("share-reader");
    searcher = os::make_thread_executor("searcher");
    auto store = share::SharedStore::make(options.shared(),
                                          {.fingerprint = engine.description().fingerprint, .device = {}, .key = {}},
                                          os::real_clock(), *share_worker);
    EXPECT_TRUE(store.ok());
    share_worker->drain();
    return {.store = std::move(*store),
            .worker = share_worker.get(),
            .reader = share_reader.get(),
            .searcher = searcher.get()};
  }
  // Returns when all that ended requests computed is in the shared tier. A request captures its reply after on_done,
  // and the engine thread answers no question before that.
  void publish() {
    const auto sink = std::make_shared<CollectedAnswer>();
    EXPECT_TRUE(scheduler.inspect({.tokens = {1}}, sink).ok());
    (void)sink->wait();
    cache.flush();
    share_worker->drain();
  }
  ~World() { stop(); }

  // The fake engine prefills faster than any restore: only `always` makes counts predictable.
  static SchedulerOptions always(SchedulerOptions options) {
    options.restore = policy::RestoreMode::kAlways;
    return options;
  }
  void start() {
    thread = std::thread([this] { scheduler.run(); });
  }
  void stop() {
    scheduler.stop();
    if (thread.joinable()) thread.join();
  }
  std::future<Reply> submit(const std::vector<TokenId>& prompt, std::optional<std::int64_t> max_tokens,
                            bool cache_prompt = true, std::size_t leave_after = SIZE_MAX,
                            const Tenant& tenant = kNoTenant, const engine::AdapterScales& adapters = {}) {
    auto sink = std::make_shared<CollectingSink>(leave_after);
    auto future = sink->future();
    Job job = job_of(prompt, max_tokens);
    job.cache_prompt = cache_prompt;
    job.tenant = tenant;
    job.adapters = adapters;
    const Status accepted = scheduler.submit(std::move(job), sink);
    EXPECT_TRUE(accepted.ok());
    return future;
  }
  // The scheduler finds all of them in the same round.
  std::vector<std::future<Reply>> submit_at_once(const std::vector<std::vector<TokenId>>& prompts,
                                                 std::int64_t max_tokens) {
    std::vector<std::future<Reply>> replies;
    std::vector<Submission> submissions;
    for (const auto& prompt : prompts) {
      auto sink = std::make_shared<CollectingSink>();
      replies.push_back(sink->future());
      submissions.push_back({job_of(prompt, max_tokens), {std::move(sink)}});
    }
    EXPECT_TRUE(scheduler.submit(std::move(submissions)).ok());
    return replies;
  }
  Reply ask(const std::vector<TokenId>& prompt, std::optional<std::int64_t> max_tokens, bool cache_prompt = true) {
    return submit(prompt, max_tokens, cache_prompt).get();
  }
  Reply ask_as(const Tenant& tenant, const std::vector<TokenId>& prompt, std::optional<std::int64_t> max_tokens) {
    return submit(prompt, max_tokens, true, SIZE_MAX, tenant).get();
  }
  static Job job_of(const std::vector<TokenId>& prompt, std::optional<std::int64_t> max_tokens) {
    Job job;
    job.id = "test";
    job.kind = "chat";
    job.prompt = prompt;
    job.sampling = greedy();
    job.max_tokens = max_tokens;
    return job;
  }
  static engine::SamplingParams greedy() {
    engine::SamplingParams params;
    params.temperature = 0;
    return params;
  }
  std::vector<TokenId> expected(const std::vector<TokenId>& prompt, std::size_t count,
                                const engine::AdapterScales& adapters = {}) const {
    return engine.expected_text(prompt, count, greedy(), adapters);
  }

  FakeEngine engine;
  std::unique_ptr<os::Executor> writer;
  std::unique_ptr<os::Executor> reader;
  std::unique_ptr<os::Executor> share_worker;
  std::unique_ptr<os::Executor> share_reader;
  std::unique_ptr<os::Executor> searcher;
  cache::Cache cache;
  Scheduler scheduler;
  std::thread thread;
};

inline std::vector<TokenId> random_tokens(std::mt19937& random, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 1000);
  return tokens;
}

inline std::vector<TokenId> operator+(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline bool ready(const std::future<Reply>& reply) {
  return reply.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
}

inline std::uint32_t seed() {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const std::uint32_t value = given != nullptr ? static_cast<std::uint32_t>(std::atoi(given)) : 20261120;
  std::printf("seed %u (KVKEEP_TEST_SEED)\n", value);
  return value;
}

}  // namespace kvkeep::server
