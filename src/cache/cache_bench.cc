// What a lookup costs on a long path with points.

#include <benchmark/benchmark.h>

#include "cache/cache.h"
#include "testing/sim/sample_segments.h"

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

}  // namespace
}  // namespace kvkeep::cache
