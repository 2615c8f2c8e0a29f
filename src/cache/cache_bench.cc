// The cost of a lookup on a long path with points.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <optional>

#include "cache/cache.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::cache {
namespace {

const FingerprintHash kModel = sim::sample_fingerprint(1);

// A conversation of 102,400 tokens in RAM, segments of 256, with what its class of models needs every 1,024 tokens.
struct LongConversation {
  explicit LongConversation(const StateShape& shape)
      : background(os::make_thread_executor("bench")),
        cache({.fingerprint = kModel, .ram_budget = mebibytes(64), .shape = shape}, nullptr, os::real_clock(),
              *background, *background) {
    Track track = cache.track({});
    while (tokens.size() < 102'400) {
      for (int i = 0; i < 256; ++i) tokens.push_back(static_cast<TokenId>(tokens.size() * 7919 % 100'003));
      cache.store(track, TokenSpan(tokens).last(256), cache.staging(kBytes), kBytes);
      if (!shape.needs_points() || tokens.size() % 1024 != 0) continue;
      if (shape.points) {
        cache.store_point(track, point_kind(shape), cache.staging(kBytes), kBytes);
      } else {
        const Position window{track.position().value() - shape.window_tokens};
        for (const TokenRange run : cache.missing_windows(track, window)) {
          cache.store_window(track, run, cache.staging(kBytes), kBytes);
        }
      }
    }
    background->drain();
  }
  static constexpr std::size_t kBytes = 1024;
  std::vector<TokenId> tokens;
  std::unique_ptr<os::Executor> background;
  Cache cache;
};

// Lookup, and where it can put a sequence: once per request.
void BM_LeaseOfALongConversation(benchmark::State& state) {
  const StateShape shape{.cacheable = true,
                         .window_tokens = state.range(0) == 1 ? 1024U : 0U,
                         .points = state.range(0) == 2,
                         .whole_points = false};
  LongConversation conversation(shape);
  for (auto _ : state) {
    const auto lease = conversation.cache.lease(conversation.tokens);
    const auto restorable = lease->restorable();
    if (lease->end().value() != conversation.tokens.size() || restorable.empty()) return state.SkipWithError("lost");
    benchmark::DoNotOptimize(restorable);
  }
}
BENCHMARK(BM_LeaseOfALongConversation)->ArgName("rows_windows_points")->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

// The place and names of one window's rows at the end of it: once per captured piece.
void BM_WindowsMissingAtTheEnd(benchmark::State& state) {
  LongConversation conversation({.cacheable = true, .window_tokens = 1024});
  const Track track = conversation.cache.track(conversation.tokens);
  for (auto _ : state) {
    benchmark::DoNotOptimize(conversation.cache.missing_windows(track, Position{track.position().value() - 1024}));
  }
}
BENCHMARK(BM_WindowsMissingAtTheEnd)->Unit(benchmark::kMicrosecond);

// ---- what the writer and eviction do under the lock ----

// A conversation that goes on at its end, of `segments` before, each with a point; the disk is in memory.
struct GrowingConversation {
  explicit GrowingConversation(std::size_t segments) {
    auto disk =
        store::DiskStore::open({.directory = "/cache", .fingerprint = kModel, .budget = mebibytes(4096)}, files, clock);
    cache = std::make_unique<Cache>(CacheOptions{.fingerprint = kModel,
                                                 .ram_budget = mebibytes(64),
                                                 .save_index_after = 1 << 30,
                                                 .shape = {.cacheable = true, .points = true}},
                                    std::move(*disk), clock, writer, writer);
    track.emplace(cache->track({}));
    while (segments-- > 0) store_one();
  }
  void store_one() {
    std::vector<TokenId> tokens(16);
    for (TokenId& token : tokens) token = static_cast<TokenId>(next++ * 7919 % 100'003);
    cache->store(*track, tokens, cache->staging(kBytes), kBytes);
    cache->store_point(*track, format::PartKind::kPoint, cache->staging(kBytes), kBytes);
    writer.run_all();
  }
  static constexpr std::size_t kBytes = 64;
  sim::SimFileSystem files{1};
  sim::SimClock clock;
  sim::SimExecutor writer;
  std::unique_ptr<Cache> cache;
  std::optional<Track> track;
  std::size_t next = 0;
};

// Writing a segment and a point that continue a path of so many: independent of its length.
void BM_WriteBelowAPathOf(benchmark::State& state) {
  GrowingConversation conversation(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) conversation.store_one();
}
BENCHMARK(BM_WriteBelowAPathOf)->Arg(100)->Arg(1'000)->Arg(10'000)->Iterations(200)->Unit(benchmark::kMicrosecond);

// Room in RAM where decoded states are held: independent of how many segments there are.
void BM_RamRoomBeside(benchmark::State& state) {
  sim::SimClock clock;
  sim::SimExecutor writer;
  const auto segments = static_cast<std::size_t>(state.range(0));
  const std::size_t state_bytes = 4096;
  Cache cache({.fingerprint = kModel,
               .ram_budget = ByteCount{segments * 16 * sizeof(TokenId) + 64 * state_bytes},
               .shape = {.cacheable = true, .points = true, .whole_points = true}},
              nullptr, clock, writer, writer);
  TokenId next = 0;
  const auto store_one = [&](bool with_states) {
    Track track = cache.track({});
    std::vector<TokenId> tokens(16);
    for (int i = 0; i < (with_states ? 2 : 1); ++i) {
      for (TokenId& token : tokens) token = next++;
      cache.store(track, tokens, cache.staging(0), 0);
      if (!with_states) continue;
      cache.make_room_for_point(state_bytes);
      store::StagingBuffer bytes = cache.staging(state_bytes);
      std::ranges::fill(bytes.span(), std::byte{1});
      cache.store_point(track, format::PartKind::kWhole, std::move(bytes), state_bytes);
      writer.run_all();
    }
  };
  for (std::size_t i = 0; i < segments; ++i) store_one(false);
  for (auto _ : state) store_one(true);
}
BENCHMARK(BM_RamRoomBeside)->Arg(1'000)->Arg(100'000)->Iterations(300)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::cache
