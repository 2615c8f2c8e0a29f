// Opening a directory of 10,000 segment files until prompts can be matched: store, headers or saved index, prefix
// index. The directory is below the system's temporary one. And what a lookup costs on a long path with points.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <fstream>

#include "cache/cache.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::cache {
namespace {

constexpr std::uint32_t kConversations = 500;
constexpr std::uint32_t kSegmentsEach = 20;
constexpr std::uint32_t kTokensEach = 512;
constexpr std::size_t kRowsBytes = 16 << 10;

const FingerprintHash kModel = sim::sample_fingerprint(1);

std::unique_ptr<store::DiskStore> open_store(const std::string& directory, bool use_saved_index) {
  auto store = store::DiskStore::open(
      {.directory = directory, .fingerprint = kModel, .budget = mebibytes(1 << 20), .use_saved_index = use_saved_index},
      os::real_file_system(), os::real_clock());
  return store ? std::move(*store) : nullptr;
}

// The next segment of a conversation; written plainly, without syncs: only opening is measured.
bool write_segment(const std::string& directory, std::uint32_t conversation, PrefixHasher& hasher) {
  format::SegmentHeader header;
  header.fingerprint = kModel;
  header.name.begin = hasher.position();
  header.name.begin_hash = hasher.current();
  for (std::uint32_t i = 0; i < kTokensEach; ++i) {
    header.tokens.push_back(static_cast<TokenId>((conversation * 7919 + hasher.position().value() + i) % 100'003));
  }
  hasher.append(header.tokens);
  header.name.end = hasher.position();
  header.name.end_hash = hasher.current();
  const std::vector<std::byte> rows = sim::sample_bytes(conversation, kRowsBytes);
  format::Part part;
  part.size_bytes = rows.size();
  part.sum = format::part_checksum(kModel, header.name, part.kind, rows);
  header.parts = {part};
  auto file = os::real_file_system().create(directory + "/" + kModel.hex() + "/" + format::file_name(header.name));
  return file && (*file)->append(format::encode_header(header)) && (*file)->append(rows);
}

const std::string& ten_thousand_files() {
  static const sim::TemporaryDirectory directory;
  static const bool made = [] {
    if (open_store(directory.path(), false) == nullptr) return false;  // makes what is below the directory
    for (std::uint32_t i = 0; i < kConversations; ++i) {
      PrefixHasher hasher(kModel);
      for (std::uint32_t k = 0; k < kSegmentsEach; ++k) {
        if (!write_segment(directory.path(), i, hasher)) return false;
      }
    }
    return true;
  }();
  if (!made) std::abort();
  return directory.path();
}

// Empties the system's caches of file contents, directories and inodes. Only root may; false: it was not possible.
bool drop_system_caches() {
  ::sync();
  std::ofstream out("/proc/sys/vm/drop_caches");
  return static_cast<bool>(out << 3 << std::flush);
}

void BM_OpenTenThousandFiles(benchmark::State& state) {
  const std::string& directory = ten_thousand_files();
  const bool use_saved_index = state.range(0) != 0;
  const bool cold = state.range(1) != 0;
  const std::unique_ptr<os::Executor> background = os::make_thread_executor("bench");
  open_store(directory, false)->save_index();
  for (auto _ : state) {
    state.PauseTiming();
    if (cold && !drop_system_caches()) return state.SkipWithError("only root can empty the system's caches");
    state.ResumeTiming();
    auto store = open_store(directory, use_saved_index);
    const bool as_asked = (store->counters().headers_read == 0) == use_saved_index;
    const Cache cache({.fingerprint = kModel, .ram_budget = mebibytes(1), .min_disk_tokens = 8}, std::move(store),
                      os::real_clock(), *background, *background);
    state.PauseTiming();
    if (!as_asked) return state.SkipWithError("the saved index was not used as asked");
    if (cache.stats().segments != kConversations * kSegmentsEach) return state.SkipWithError("files are missing");
    background->drain();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_OpenTenThousandFiles)
    ->ArgNames({"saved_index", "cold"})
    ->ArgsProduct({{0, 1}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// What the writer pays to save the index of a directory, after one more change.
void BM_SaveIndexOfTenThousandFiles(benchmark::State& state) {
  const auto store = open_store(ten_thousand_files(), true);
  const format::SegmentName touched = store->take_recovered().front().header.name;
  for (auto _ : state) {
    store->touch(touched, os::real_clock().wall_ns());
    store->save_index();
  }
}
BENCHMARK(BM_SaveIndexOfTenThousandFiles)->UseRealTime()->Unit(benchmark::kMillisecond);

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
