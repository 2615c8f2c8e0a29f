// Goals: lookup of a 100k-token prompt among 10k segments <= 2 ms; structure <= 16 bytes per token beyond the ids, also
// for short segments; rebuild of 10k segments well under a second.

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "index/prefix_index.h"

namespace kvkeep::index {
namespace {

std::vector<TokenId> random_tokens(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 32000);
  tokens.front() = static_cast<TokenId>(32000 + seed);  // another seed is another branch from the root on
  return tokens;
}

// `segments` segments of `size` tokens in conversations of `depth` segments; conversation 0 is `main`.
std::vector<TokenId> fill(PrefixIndex& index, std::size_t segments, std::size_t size, std::size_t depth) {
  std::vector<TokenId> main;
  for (std::size_t conversation = 0; conversation * depth < segments; ++conversation) {
    const auto tokens = random_tokens(size * depth, conversation);
    if (conversation == 0) main = tokens;
    Cursor at;
    for (std::size_t i = 0; i < depth; ++i) {
      const TokenSpan part = TokenSpan(tokens).subspan(i * size, size);
      at = {index.insert(at, part, {}, {}), at.at + size};
    }
  }
  return main;
}

// Argument: tokens per segment of the 100k-token prompt.
void BM_Match100k(benchmark::State& state) {
  PrefixIndex index;
  const auto size = static_cast<std::size_t>(state.range(0));
  const auto prompt = fill(index, 10000, size, 100000 / size);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(index.match(prompt));
  state.counters["segments"] = static_cast<double>(index.segment_count());
}
BENCHMARK(BM_Match100k)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

// A system prompt that 10k conversations branch from.
void BM_MatchWideBranch(benchmark::State& state) {
  PrefixIndex index;
  auto prompt = random_tokens(100000, 7);
  const Cursor trunk{index.insert({}, prompt, {}, {}), Position{100000}};
  for (std::uint32_t i = 0; i < 10000; ++i) {
    const auto tail = random_tokens(64, i + 100);
    const Cursor at = index.advance({trunk.segment, Position{(i + 1) * 10}}, tail);
    if (at.at == Position{(i + 1) * 10}) index.insert(at, tail, {}, {});
  }
  prompt.push_back(1);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(index.match(prompt));
}
BENCHMARK(BM_MatchWideBranch)->Unit(benchmark::kMicrosecond);

// A segment with eight windows, from which 10k conversations branch.
void BM_LeavesBelowWideBranch(benchmark::State& state) {
  PrefixIndex index;
  const SegmentId trunk = index.insert({}, random_tokens(2048, 7), {}, {});
  for (std::uint32_t i = 0; i < 10000; ++i) index.insert({trunk, Position{2048}}, random_tokens(1, i), {}, {});
  for (std::uint32_t i = 0; i < 8; ++i) {
    index.insert_leaf({trunk, Position{(i + 1) * 256}}, format::PartKind::kWindowRows, Position{i * 256}, {}, {});
  }
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(index.leaves_of(trunk));
}
BENCHMARK(BM_LeavesBelowWideBranch)->Unit(benchmark::kMicrosecond);

// Argument: tokens per segment. The counter is the number to keep under 16.
void BM_Memory(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  double bytes_per_token = 0;
  for ([[maybe_unused]] auto _ : state) {
    PrefixIndex index;
    fill(index, 10000, size, 20);
    bytes_per_token = static_cast<double>(index.memory().value()) / static_cast<double>(index.token_count());
  }
  state.counters["bytes_per_token_beyond_ids"] = bytes_per_token - sizeof(TokenId);
}
BENCHMARK(BM_Memory)->Arg(16)->Arg(64)->Arg(512)->Arg(2048)->Iterations(3)->Unit(benchmark::kMillisecond);

// Argument: tokens per segment; 10k segments, parents last.
void BM_Rebuild10k(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t kDepth = 20;
  std::vector<std::vector<TokenId>> conversations;
  std::vector<NamedSegment> segments;
  for (std::size_t i = 0; i < 10000 / kDepth; ++i) {
    conversations.push_back(random_tokens(size * kDepth, i));
    PrefixHasher hasher(FingerprintHash{});
    for (std::size_t part = 0; part < kDepth; ++part) {
      const TokenSpan tokens = TokenSpan(conversations.back()).subspan(part * size, size);
      NamedSegment segment{{hasher.position(), hasher.position() + size}, hasher.current(), {}, tokens};
      hasher.append(tokens);
      segment.end_hash = hasher.current();
      segments.insert(segments.begin(), segment);
    }
  }
  for ([[maybe_unused]] auto _ : state) {
    PrefixIndex index;
    benchmark::DoNotOptimize(rebuild(index, {}, segments));
  }
}
BENCHMARK(BM_Rebuild10k)->Arg(64)->Arg(2048)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::index
