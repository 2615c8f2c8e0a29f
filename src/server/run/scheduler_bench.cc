// At 16 running requests and 1,000 waiting ones, a round of the scheduler shall take at most 1 % of a decode step of
// such a batch: some 100 microseconds. `kvkeep bench --parts` compares it with a real decode step; this one is for
// profiles. Nothing of a model call counts, but a call leaves cold caches behind: each round walks through a buffer as
// large as a small model's weights.

#include <benchmark/benchmark.h>
#include <spdlog/spdlog.h>

#include <numeric>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "engine/fake/fake_engine.h"
#include "engine/timed_engine.h"
#include "os/clock.h"
#include "os/threads.h"
#include "server/run/scheduler.h"

namespace kvkeep::server {
namespace {

class QuietSink final : public JobSink {
 public:
  void on_prefill(const JobStats&, std::size_t, double) override {}
  bool on_token(TokenId, const JobStats&) override { return true; }
  void on_done(Finish, const JobStats&, const std::optional<Error>&) override {}
  bool gone() const override { return false; }
};

constexpr std::size_t kRunning = 16;
constexpr std::size_t kFirstRound = 64;  // all run by then
constexpr std::size_t kLastRound = 264;

// Those that wait share all of their prompts but the last token with one that prefills all the time.
enum class Waiting { kOwnPrompts, kOnePrefix };
constexpr std::size_t kGiantTokens = 40'000;  // take more slices than there are rounds

Job job_of(std::vector<TokenId> prompt, std::size_t number) {
  Job job{.id = "bench", .kind = "chat", .prompt = std::move(prompt), .sampling = {}, .max_tokens = 1'000};
  job.sampling.ignore_eos = true;
  job.session = number % 100;
  return job;
}

// Returns the seconds that a round takes besides the engine.
double seconds_per_round(std::size_t waiting, Waiting kind) {
  spdlog::set_level(spdlog::level::off);  // one line for each request, when the scheduler stops
  engine::fake::FakeEngine fake({.cells = 65'536, .sequences = 2 * kRunning + 2});
  engine::TimedEngine engine(fake, os::thread_cpu_ns);
  const auto writer = os::make_thread_executor("writer");
  cache::Cache cache(
      {.fingerprint = engine.description().fingerprint, .ram_budget = mebibytes(64), .shape = engine.memory().shape()},
      nullptr, os::real_clock(), *writer, *writer);
  // One place more, and slices of 64 tokens: the giant prefills until the end.
  const bool giant = kind == Waiting::kOnePrefix;
  Scheduler scheduler({.parallel = kRunning + (giant ? 1 : 0), .slice_ms = 1e-6}, engine, cache, os::real_clock());
  std::vector<TokenId> shared(giant ? kGiantTokens : 0);
  for (std::size_t i = 0; i < shared.size(); ++i) shared[i] = static_cast<TokenId>((500 + i) % 1'000);
  for (std::size_t i = 0; i < kRunning + (giant ? 1 : 0) + waiting; ++i) {
    std::vector<TokenId> prompt(200);
    std::iota(prompt.begin(), prompt.end(), static_cast<TokenId>(i));
    if (giant && i >= kRunning) prompt = shared;
    prompt.back() = static_cast<TokenId>(i);
    if (!scheduler.submit(job_of(std::move(prompt), i), std::make_shared<QuietSink>())) return 0;
  }
  std::vector<std::uint64_t> weights(std::size_t{3} << 20);
  std::size_t round = 0;
  std::int64_t begin_ns = 0;
  double seconds = 0;
  const auto own_ns = [&engine] { return os::thread_cpu_ns() - engine.taken_ns(); };
  fake.set_on_decode([&](std::span<const engine::BatchToken> batch) {
    if (batch.size() != kRunning) return;  // prefill
    for (std::uint64_t& word : weights) ++word;
    // Within a call: what it took until here is not in taken_ns() yet, but so it is in both readings.
    if (++round == kFirstRound) begin_ns = own_ns();
    if (round != kLastRound) return;
    seconds = static_cast<double>(own_ns() - begin_ns) / 1e9 / (kLastRound - kFirstRound);
    scheduler.stop();
  });
  scheduler.run();
  return seconds;
}

void BM_Round(benchmark::State& state) {
  for (auto _ : state) {
    state.SetIterationTime(seconds_per_round(static_cast<std::size_t>(state.range(0)), Waiting::kOwnPrompts));
  }
}
BENCHMARK(BM_Round)->Arg(0)->Arg(1'000)->UseManualTime()->Iterations(3)->Unit(benchmark::kMicrosecond);

// The same, next to a prompt that prefills; a slice of it in each round. All that wait await a prefix of it.
void BM_RoundOfOnePrefix(benchmark::State& state) {
  for (auto _ : state) {
    state.SetIterationTime(seconds_per_round(static_cast<std::size_t>(state.range(0)), Waiting::kOnePrefix));
  }
}
BENCHMARK(BM_RoundOfOnePrefix)->Arg(0)->Arg(1'000)->UseManualTime()->Iterations(3)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::server
