// The processor time of loading from a Valkey server on the same machine: pieces as they are read, with the sum, with
// code and sum, and read ahead on two threads. bench/share_engines.py compares servers with a plain socket.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "os/clock.h"
#include "os/executor.h"
#include "os/file_system.h"
#include "os/threads.h"
#include "share/engines/make_engine.h"
#include "share/engines/valkey_server_fixture.h"
#include "share/read_ahead.h"
#include "share/recent_names.h"
#include "testing/sim/sample_segments.h"

namespace kvkeep::share {
namespace {

constexpr std::size_t kSegments = 8;
constexpr std::size_t kSegmentBytes = 8 << 20;
constexpr std::uint32_t kTokens = 512;
const FingerprintHash kModel = sim::sample_fingerprint(1);

std::unique_ptr<ObjectEngine> engine_at(const std::string& url) {
  return *make_engine(*parse_engine_url(url), {}, os::real_clock(), os::real_file_system());
}

// A server that holds the segments of one path.
struct Shelf {
  Shelf(std::string key, ByteCount ready)
      : store(*SharedStore::make(engine_at(server.url()),
                                 {.fingerprint = kModel, .key = std::move(key), .ready_memory = ready},
                                 os::real_clock(), *worker)) {
    worker->drain();
    std::vector<format::PathStep> path;
    for (std::uint32_t i = 0; i < kSegments; ++i) publish(i, path);
    worker->drain();
  }
  void publish(std::uint32_t number, std::vector<format::PathStep>& path) {
    const auto hash = [](std::uint32_t at) {
      PrefixHash made;
      made.bytes.fill(static_cast<std::uint8_t>(at + 1));
      return made;
    };
    format::SegmentHeader segment;
    segment.fingerprint = kModel;
    segment.name = {.begin = Position{number * kTokens},
                    .end = Position{(number + 1) * kTokens},
                    .begin_hash = hash(number),
                    .end_hash = hash(number + 1),
                    .kind = format::PartKind::kRows};
    segment.tokens.resize(kTokens);
    const format::ShortHash end = format::short_hash(segment.name.end_hash);
    path.push_back({.end = segment.name.end,
                    .place = segment.name.end,
                    .hash = end,
                    .object_end = segment.name.end,
                    .object_hash = end});
    auto buffer = store::PayloadBuffer::allocate(kSegmentBytes);
    std::ranges::fill(buffer.span(), static_cast<std::byte>(number));
    segment.parts = {{.kind = format::PartKind::kRows,
                      .size_bytes = kSegmentBytes,
                      .sum = format::part_checksum(kModel, segment.name, format::PartKind::kRows, buffer.span())}};
    segments.push_back(segment);
    store->offer({.segment = segment, .path = path, .payload = std::move(buffer).freeze()});
  }

  ValkeyServer server;
  std::unique_ptr<os::Executor> worker = os::make_thread_executor("bench");
  std::unique_ptr<SharedStore> store;
  std::vector<format::SegmentHeader> segments;
};

// With a share key, and with memory that lies ready for all of it.
Shelf& shelf(bool with_key, bool ready = false) {
  static std::map<std::pair<bool, bool>, std::unique_ptr<Shelf>> shelves;
  auto& made = shelves[{with_key, ready}];
  if (made == nullptr) {
    made = std::make_unique<Shelf>(with_key ? "a share key of the benchmark" : "",
                                   ByteCount{ready ? kSegments * kSegmentBytes : 0});
  }
  return *made;
}

void report(benchmark::State& state, const char* name, std::int64_t cpu_ns) {
  const double bytes = static_cast<double>(state.iterations()) * kSegments * kSegmentBytes;
  state.counters[name] = static_cast<double>(cpu_ns) / bytes;  // ns a byte are s a GB
}

// RAM keeps what was loaded: memory for each payload comes from the system, unless some lies ready.
using Held = std::vector<std::shared_ptr<const store::Payload>>;

// Pieces into a buffer of their own, unverified.
void BM_Pieces(benchmark::State& state) {
  Shelf& from = shelf(false);
  const auto engine = engine_at(from.server.url());
  std::vector<ObjectName> names =
      engine->list(from.store->space(), "", os::real_clock().monotonic_ns() + kSecondNs)->names;
  if (names.size() != kSegments) return state.SkipWithError("not published");
  const std::int64_t begin = os::thread_cpu_ns();
  for (auto _ : state) {
    Held held;
    for (const ObjectName& name : names) {
      auto buffer = store::PayloadBuffer::allocate(kSegmentBytes);
      const Status read = engine->get(
          name, {.payload_bytes = kSegmentBytes}, buffer.span(), [](std::size_t) {},
          os::real_clock().monotonic_ns() + 10 * kSecondNs);
      if (!read.ok()) return state.SkipWithError("a read failed");
      held.push_back(std::move(buffer).freeze());
    }
  }
  report(state, "s/GB", os::thread_cpu_ns() - begin);
}

void BM_Load(benchmark::State& state) {
  Shelf& from = shelf(state.range(0) == 1, state.range(1) == 1);
  const std::int64_t begin = os::thread_cpu_ns();
  for (auto _ : state) {
    Held held;
    for (const format::SegmentHeader& segment : from.segments) {
      const auto loaded = from.store->get(segment, os::real_clock().monotonic_ns() + 10 * kSecondNs);
      if (!loaded.ok()) return state.SkipWithError("a read failed");
      held.push_back(*loaded);
    }
  }
  report(state, "s/GB", os::thread_cpu_ns() - begin);
}

void BM_LoadAhead(benchmark::State& state) {
  Shelf& from = shelf(state.range(0) == 1, state.range(1) == 1);
  std::vector<std::unique_ptr<os::Executor>> threads;
  std::vector<os::Executor*> helpers;
  for (int i = 0; i < 2; ++i) helpers.push_back(threads.emplace_back(os::make_thread_executor("bench-ahead")).get());
  ReadAhead ahead(*from.store, os::real_clock(), helpers, mebibytes(128));
  std::vector<PatientRead> reads;
  for (const format::SegmentHeader& segment : from.segments) reads.push_back({segment, 10'000});
  const std::int64_t begin = os::thread_cpu_ns();
  for (auto _ : state) {
    Held held;
    ahead.expect(reads);
    for (const PatientRead& read : reads) {
      const auto loaded = ahead.get(read);
      if (!loaded.ok()) return state.SkipWithError("a read failed");
      held.push_back(*loaded);
    }
  }
  std::int64_t busiest = os::thread_cpu_ns() - begin;
  std::int64_t all = busiest;
  for (os::Executor* helper : helpers) {
    const std::int64_t used = os::call_on(*helper, [] { return os::thread_cpu_ns(); });
    busiest = std::max(busiest, used);
    all += used;
  }
  report(state, "s/GB", all);
  report(state, "busiest_s/GB", busiest);
}

BENCHMARK(BM_Pieces)->UseRealTime();
BENCHMARK(BM_Load)->ArgNames({"key", "ready"})->ArgsProduct({{0, 1}, {0, 1}})->UseRealTime();
BENCHMARK(BM_LoadAhead)->ArgNames({"key", "ready"})->ArgsProduct({{0, 1}, {0, 1}})->UseRealTime();

}  // namespace
}  // namespace kvkeep::share
