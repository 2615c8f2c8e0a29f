// Goal: victims among 100k candidates within some milliseconds (it runs under the cache's lock).

#include <benchmark/benchmark.h>

#include <random>

#include "policy/evict.h"
#include "policy/evict_order.h"

namespace kvkeep::policy {
namespace {

// Conversations of 20 segments.
EvictView conversations() {
  std::mt19937_64 random(1);
  EvictView view{{}, std::int64_t{1} << 50};
  for (std::uint32_t i = 0; i < 100000; ++i) {
    const SegmentId parent = i % 20 == 0 ? kRootSegment : SegmentId{i};
    const auto used_ns = static_cast<std::int64_t>(random() >> 15);
    view.candidates.push_back({SegmentId{i + 1}, parent, ByteCount{1000}, 64, Position{i % 20 * 64}, used_ns, 1});
  }
  return view;
}

// The argument is how many segments' worth of bytes must go.
void BM_ChooseVictims100k(benchmark::State& state) {
  const EvictView view = conversations();
  const ByteCount needed{static_cast<std::uint64_t>(state.range(0)) * 1000};
  for (auto _ : state) benchmark::DoNotOptimize(choose_victims(view, needed));
}
BENCHMARK(BM_ChooseVictims100k)->Arg(1)->Arg(1000)->Arg(100000)->Unit(benchmark::kMillisecond);

// The same from an order that is kept: what remains of a decision.
void BM_ChooseFromOrder100k(benchmark::State& state) {
  EvictOrder order;
  for (const EvictCandidate& candidate : conversations().candidates) order.put(candidate);
  EvictOrder::Request request{ByteCount{static_cast<std::uint64_t>(state.range(0)) * 1000}};
  request.now_ns = std::int64_t{1} << 50;
  for (auto _ : state) benchmark::DoNotOptimize(order.choose(request, [](SegmentId) { return false; }));
}
BENCHMARK(BM_ChooseFromOrder100k)->Arg(1)->Arg(64)->Arg(1000)->Unit(benchmark::kMicrosecond);

// What keeping it costs for each candidate that is used, written or dropped.
void BM_OrderTouched100k(benchmark::State& state) {
  std::vector<EvictCandidate> candidates = conversations().candidates;
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
EvictView conversations_and_points() {
  EvictView view = conversations();
  view.needs_points = true;
  for (std::uint32_t i = 0; i < 100000; ++i) {
    view.candidates[i].above = view.candidates[i].parent;
    if (i % 4 != 3) continue;
    EvictCandidate point = view.candidates[i];
    point.segment = SegmentId{100001 + i};
    point.parent = point.above = SegmentId{i + 1};
    point.begin = point.begin + point.tokens;
    point.tokens = 0;
    point.kind = CandidateKind::kPoint;
    view.candidates.push_back(point);
  }
  return view;
}

void BM_ChooseVictims100kAndPoints(benchmark::State& state) {
  const EvictView view = conversations_and_points();
  const ByteCount needed{static_cast<std::uint64_t>(state.range(0)) * 1000};
  for (auto _ : state) benchmark::DoNotOptimize(choose_victims(view, needed));
}
BENCHMARK(BM_ChooseVictims100kAndPoints)->Arg(1)->Arg(1000)->Arg(100000)->Unit(benchmark::kMillisecond);

// From an order that is kept: each victim is chosen, leaves for good, and comes back as new. The argument is how many
// conversations begin with the same segment, which ends at a point.
void BM_PointsOrder100k(benchmark::State& state) {
  EvictView view = conversations_and_points();
  const auto alike = static_cast<std::uint32_t>(state.range(0));
  for (std::uint32_t i = 1; i < alike; ++i)
    view.candidates[20 * i].parent = view.candidates[20 * i].above = SegmentId{4};
  for (std::uint32_t i = 1; i < alike; ++i) view.candidates[20 * i].begin = Position{256};
  EvictOrder order(kByValue, {true, 0});
  std::vector<EvictCandidate> by_id(200'001);
  for (const EvictCandidate& candidate : view.candidates) {
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

// A call while everything is sorted anew by another half-life.
void BM_OrderWhileSorting100k(benchmark::State& state) {
  EvictOrder order;
  for (const EvictCandidate& candidate : conversations().candidates) order.put(candidate);
  EvictOrder::Request request{ByteCount{1}};
  request.now_ns = std::int64_t{1} << 50;
  for (auto _ : state) {
    order.set_half_life(order.half_life_ns() == kLongestHalfLifeNs ? kShortestHalfLifeNs : kLongestHalfLifeNs);
    benchmark::DoNotOptimize(order.choose(request, [](SegmentId) { return false; }));
  }
}
BENCHMARK(BM_OrderWhileSorting100k)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::policy
