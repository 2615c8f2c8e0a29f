// Goal: victims among 100k candidates within microseconds (it runs under the cache's lock).

#include <benchmark/benchmark.h>

#include <random>

#include "policy/evict_order.h"

namespace kvkeep::policy {
namespace {

// Conversations of 20 segments.
std::vector<EvictCandidate> conversations() {
  std::mt19937_64 random(1);
  std::vector<EvictCandidate> all;
  for (std::uint32_t i = 0; i < 100000; ++i) {
    const SegmentId parent = i % 20 == 0 ? kRootSegment : SegmentId{i};
    const auto used_ns = static_cast<std::int64_t>(random() >> 15);
    all.push_back({SegmentId{i + 1}, parent, ByteCount{1000}, 64, Position{i % 20 * 64}, used_ns});
  }
  return all;
}

// The argument is for how many segments room is needed.
void BM_ChooseFromOrder100k(benchmark::State& state) {
  EvictOrder order;
  for (const EvictCandidate& candidate : conversations()) order.put(candidate);
  EvictOrder::Request request{ByteCount{static_cast<std::uint64_t>(state.range(0)) * 1000}};
  request.now_ns = std::int64_t{1} << 50;
  for (auto _ : state) benchmark::DoNotOptimize(order.choose(request, [](SegmentId) { return false; }));
}
BENCHMARK(BM_ChooseFromOrder100k)->Arg(1)->Arg(64)->Arg(1000)->Unit(benchmark::kMicrosecond);

// The cost of keeping the order for each candidate that is used, written or dropped.
void BM_OrderTouched100k(benchmark::State& state) {
  std::vector<EvictCandidate> candidates = conversations();
  EvictOrder order;
  for (const EvictCandidate& candidate : candidates) order.put(candidate);
  std::int64_t now_ns = std::int64_t{1} << 50;
  for (std::size_t i = 0; auto _ : state) {
    EvictCandidate& used = candidates[i++ * 7919 % candidates.size()];
    used.last_used_ns = ++now_ns;
    order.put(used);
  }
}
BENCHMARK(BM_OrderTouched100k);

// The same, where every fourth segment ends at a point.
std::vector<EvictCandidate> conversations_and_points() {
  std::vector<EvictCandidate> all = conversations();
  for (std::uint32_t i = 0; i < 100000; ++i) {
    all[i].above = all[i].parent;
    if (i % 4 != 3) continue;
    EvictCandidate point = all[i];
    point.segment = SegmentId{100001 + i};
    point.parent = point.above = SegmentId{i + 1};
    point.begin = point.begin + point.tokens;
    point.tokens = 0;
    point.kind = CandidateKind::kPoint;
    all.push_back(point);
  }
  return all;
}

// Each victim is chosen, leaves for good, and comes back as new. The argument is how many
// conversations begin with the same segment, which ends at a point.
void BM_PointsOrder100k(benchmark::State& state) {
  std::vector<EvictCandidate> all = conversations_and_points();
  const auto alike = static_cast<std::uint32_t>(state.range(0));
  for (std::uint32_t i = 1; i < alike; ++i) all[20 * i].parent = all[20 * i].above = SegmentId{4};
  for (std::uint32_t i = 1; i < alike; ++i) all[20 * i].begin = Position{256};
  EvictOrder order({true, 0});
  std::vector<EvictCandidate> by_id(200'001);
  for (const EvictCandidate& candidate : all) {
    order.put(candidate);
    by_id[candidate.segment.value()] = candidate;
  }
  std::int64_t now_ns = std::int64_t{1} << 50;
  for (auto _ : state) {
    const auto victims = order.choose({ByteCount{1}, 1, ++now_ns}, [](SegmentId) { return false; });
    EvictCandidate& victim = by_id[victims.front().value()];
    order.erase(victim.segment);
    victim.last_used_ns = now_ns;
    order.put(victim);
  }
}
BENCHMARK(BM_PointsOrder100k)->Arg(1)->Arg(1000)->Unit(benchmark::kMicrosecond);

// The first decision of an order, which sets its clock.
void BM_FirstVictim100k(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    EvictOrder order;
    for (const EvictCandidate& candidate : conversations()) order.put(candidate);
    state.ResumeTiming();
    benchmark::DoNotOptimize(order.choose({ByteCount{1}}, [](SegmentId) { return false; }));
  }
}
BENCHMARK(BM_FirstVictim100k)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::policy
