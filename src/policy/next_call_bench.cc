// Goal: at 16 running requests and 1,000 waiting ones, the decisions of a round take at most 1 % of a decode step of
// such a batch, which takes 10 ms and more on two processors (model make --size small).

#include <benchmark/benchmark.h>

#include <random>

#include "policy/next_call.h"

namespace kvkeep::policy {
namespace {

ScheduleView crowd(std::vector<QueuedRequest>& queue) {
  std::mt19937 random(1);
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    queue.push_back({.number = i + 1, .session = random() % 100, .work = 1 + random() % 9'000});
  }
  ScheduleView view{.admitted = {}, .queued = queue, .idle = {}, .most_admitted = 17, .limits = {}};
  for (std::size_t i = 0; i < 16; ++i) {
    const auto phase = i % 4 == 0 ? ScheduledRequest::Phase::kPrefill : ScheduledRequest::Phase::kDecode;
    view.admitted.push_back({.phase = phase, .session = random() % 100, .tokens = 1'000 + i, .held = i});
  }
  return view;
}

// Each round of the scheduler.
void BM_DecodeAndSlice(benchmark::State& state) {
  std::vector<QueuedRequest> queue;
  const ScheduleView view = crowd(queue);
  for (auto _ : state) {
    benchmark::DoNotOptimize(next_decode(view));
    benchmark::DoNotOptimize(next_slice(view));
  }
}
BENCHMARK(BM_DecodeAndSlice)->Unit(benchmark::kMicrosecond);

// Each time that a place is free.
void BM_Start(benchmark::State& state) {
  std::vector<QueuedRequest> queue;
  const ScheduleView view = crowd(queue);
  for (auto _ : state) benchmark::DoNotOptimize(next_start(view));
}
BENCHMARK(BM_Start)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::policy
