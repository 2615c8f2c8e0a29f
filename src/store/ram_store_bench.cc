// Why staging buffers are touched ahead: the engine's thread pays for page faults of fresh memory.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cstring>

#include "store/ram_store.h"
#include "testing/sim/sample_segments.h"

namespace kvkeep::store {
namespace {

void copy_into(benchmark::State& state, bool reuse) {
  const auto rows = sim::sample_bytes(1, static_cast<std::size_t>(state.range(0)) << 20);
  BufferPool pool({.idle_limit = reuse ? mebibytes(256) : ByteCount{0}});
  if (reuse) pool.prepare(1, rows.size(), nullptr);
  for (auto _ : state) {
    StagingBuffer buffer = pool.acquire(rows.size());
    std::memcpy(buffer.span().data(), rows.data(), rows.size());
    benchmark::DoNotOptimize(std::move(buffer).freeze(rows.size()));
    if (reuse) continue;
    state.PauseTiming();
    malloc_trim(0);  // else the allocator hands the same touched memory out again, which a long run seldom finds
    state.ResumeTiming();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * rows.size()));
}

void BM_CopyIntoTouchedBuffer(benchmark::State& state) { copy_into(state, true); }
BENCHMARK(BM_CopyIntoTouchedBuffer)->Arg(1)->Arg(4)->Arg(30)->Unit(benchmark::kMicrosecond);

void BM_CopyIntoFreshMemory(benchmark::State& state) { copy_into(state, false); }
BENCHMARK(BM_CopyIntoFreshMemory)->Arg(1)->Arg(4)->Arg(30)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::store
