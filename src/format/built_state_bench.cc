// How fast a state is written as differences from the one before, and how fast it is read again. The bytes are those of
// a state that grew: runs of rows, moved apart by new ones. Real ones are measured where models are.

#include <benchmark/benchmark.h>

#include <random>

#include "format/built_state.h"

namespace kvkeep::format {
namespace {

struct Pair {
  std::vector<std::byte> base;
  std::vector<std::byte> fresh;
};

Pair grown(std::size_t size, double repeated) {
  std::mt19937_64 random(1);
  Pair pair;
  const auto add = [&](std::vector<std::byte>& bytes, std::size_t count) {
    while (count-- > 0) bytes.push_back(static_cast<std::byte>(random()));
  };
  const std::size_t run = 64 << 10;
  while (pair.fresh.size() < size) {
    const std::size_t begin = pair.base.size();
    add(pair.base, static_cast<std::size_t>(static_cast<double>(run) * repeated) | 1);
    pair.fresh.insert(pair.fresh.end(), pair.base.begin() + static_cast<std::ptrdiff_t>(begin), pair.base.end());
    add(pair.fresh, static_cast<std::size_t>(static_cast<double>(run) * (1 - repeated)));
  }
  return pair;
}

void BM_Encode(benchmark::State& state) {
  const Pair pair = grown(static_cast<std::size_t>(state.range(0)) << 20, static_cast<double>(state.range(1)) / 100);
  std::size_t size = 0;
  for (auto _ : state) size = encode_built_state({}, pair.base, pair.fresh, SIZE_MAX)->size();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * pair.fresh.size()));
  state.counters["share_kept"] = 1 - static_cast<double>(size) / static_cast<double>(pair.fresh.size());
}
BENCHMARK(BM_Encode)->ArgsProduct({{64}, {0, 50, 80, 100}})->Args({512, 80})->Unit(benchmark::kMillisecond);

void BM_Decode(benchmark::State& state) {
  const Pair pair = grown(static_cast<std::size_t>(state.range(0)) << 20, static_cast<double>(state.range(1)) / 100);
  const auto stored = encode_built_state({}, pair.base, pair.fresh, SIZE_MAX);
  std::vector<std::byte> out(pair.fresh.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(decode_built_state({}, pair.base, Differences::kFrame, *stored, out).ok());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * pair.fresh.size()));
}
BENCHMARK(BM_Decode)->ArgsProduct({{64}, {0, 80}})->Args({512, 80})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::format
