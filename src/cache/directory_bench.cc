// A large directory: opening it until prompts can be matched (store, headers or saved index, prefix index), saving its
// index, and a server's work about once a second, by itself or next to others. Made once for a run below
// $KVKEEP_BENCH_DIR or the system's temporary directory, a block for each file (400 MB), and removed at the end.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>

#include "cache/cache.h"
#include "cache/cache_stats.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::cache {
namespace {

constexpr std::int64_t kSmall = 10'000;
constexpr std::int64_t kLarge = 100'000;
constexpr std::uint32_t kSegmentsEach = 20;
constexpr std::size_t kRowsBytes = 256;  // rows are not read here

const FingerprintHash kModel = sim::sample_fingerprint(1);

// A clock that a benchmark can advance: servers look at the others' work only for a small share of the time.
class LeapingClock final : public os::Clock {
 public:
  std::int64_t monotonic_ns() override { return os::real_clock().monotonic_ns() + leapt_ns_; }
  std::int64_t wall_ns() override { return os::real_clock().wall_ns() + leapt_ns_; }
  void leap() { leapt_ns_ += 3600LL * 1'000'000'000; }

 private:
  std::atomic<std::int64_t> leapt_ns_ = 0;
};

std::unique_ptr<store::DiskStore> open_store(const std::string& directory, bool use_saved_index,
                                             os::Clock& clock = os::real_clock()) {
  auto store = store::DiskStore::open(
      {.directory = directory, .fingerprint = kModel, .budget = mebibytes(1 << 20), .use_saved_index = use_saved_index},
      os::real_file_system(), clock);
  return store ? std::move(*store) : nullptr;
}

CacheOptions options() { return {.fingerprint = kModel, .ram_budget = mebibytes(1), .min_disk_tokens = 8}; }

struct Segment {
  format::SegmentHeader header;
  std::vector<std::byte> rows;
};

// Tokens of a conversation's segment: turns end anywhere, and prefill goes in steps. On average about 512.
std::uint32_t token_count(std::uint32_t conversation, std::uint32_t number) {
  static constexpr std::uint32_t kHead[] = {32, 224};
  if (number < 2) return kHead[number];
  return number % 3 == 0 ? 512 : 16 + (conversation * 7919 + number * 104'729) % 1100;
}

// The next of a conversation.
Segment next_segment(std::uint32_t conversation, std::uint32_t count, PrefixHasher& hasher) {
  Segment next{.header = {}, .rows = sim::sample_bytes(conversation, kRowsBytes)};
  next.header.fingerprint = kModel;
  next.header.name.begin = hasher.position();
  next.header.name.begin_hash = hasher.current();
  for (std::uint32_t i = 0; i < count; ++i) {
    next.header.tokens.push_back(static_cast<TokenId>((conversation * 7919 + hasher.position().value() + i) % 100'003));
  }
  hasher.append(next.header.tokens);
  next.header.name.end = hasher.position();
  next.header.name.end_hash = hasher.current();
  format::Part part;
  part.size_bytes = next.rows.size();
  part.sum = format::part_checksum(kModel, next.header.name, part.kind, next.rows);
  next.header.parts = {part};
  return next;
}

// Written plainly, without syncs: only later work with the files is measured.
bool write_segment(const std::string& directory, const Segment& segment) {
  const std::string name = format::file_name(segment.header.name);
  auto file = os::real_file_system().create(directory + "/" + kModel.hex() + "/" + name);
  return file && (*file)->append(format::encode_header(segment.header)) && (*file)->append(segment.rows);
}

bool fill(const std::string& directory, std::int64_t files) {
  if (open_store(directory, false) == nullptr) return false;  // makes the directories
  PrefixHasher within(kModel);                                // a segment of the conversation before
  for (std::uint32_t i = 0; i < files / kSegmentsEach; ++i) {
    PrefixHasher hasher = i % 10 == 9 ? within : PrefixHasher(kModel);
    for (std::uint32_t k = 0; k < kSegmentsEach; ++k) {
      const PrefixHasher before = hasher;
      const Segment segment = next_segment(i, token_count(i, k), hasher);
      if (!write_segment(directory, segment)) return false;
      if (k != 6) continue;
      within = before;
      within.append(TokenSpan(segment.header.tokens).first(100 + i % 400));
    }
  }
  const auto store = open_store(directory, false);
  if (store != nullptr) store->save_index();
  return store != nullptr;
}

const std::string& directory_of(std::int64_t files) {
  static std::map<std::int64_t, sim::TemporaryDirectory> made;
  const auto [entry, is_new] = made.try_emplace(files, sim::bench_directory());
  if (is_new && !fill(entry->second.path(), files)) std::abort();
  return entry->second.path();
}

// Empties the system's caches of file contents, directories and inodes. Only root may; false: it was not possible.
bool drop_system_caches() {
  ::sync();
  std::ofstream out("/proc/sys/vm/drop_caches");
  return static_cast<bool>(out << 3 << std::flush);
}

void BM_OpenDirectory(benchmark::State& state) {
  const std::string& directory = directory_of(state.range(0));
  const bool use_saved_index = state.range(1) != 0;
  const bool cold = state.range(2) != 0;
  const std::unique_ptr<os::Executor> background = os::make_thread_executor("bench");
  for (auto _ : state) {
    state.PauseTiming();
    if (cold && !drop_system_caches()) return state.SkipWithError("only root can empty the system's caches");
    state.ResumeTiming();
    auto store = open_store(directory, use_saved_index);
    const bool as_asked = (store->counters().headers_read == 0) == use_saved_index;
    auto cache = std::make_unique<Cache>(options(), std::move(store), os::real_clock(), *background, *background);
    cache->settle();
    state.PauseTiming();
    if (!as_asked) return state.SkipWithError("the saved index was not used as asked");
    if (cache->stats().segments != static_cast<std::size_t>(state.range(0)))
      return state.SkipWithError("files missing");
    cache.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_OpenDirectory)
    ->ArgNames({"files", "saved_index", "cold"})
    ->ArgsProduct({{kSmall, kLarge}, {0, 1}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// The writer's cost of saving the index, after one more change; reads wait for a part of it.
void BM_SaveIndex(benchmark::State& state) {
  const auto store = open_store(directory_of(state.range(0)), true);
  const format::SegmentName touched = store->take_recovered().front().header.name;
  for (auto _ : state) {
    store->touch(touched, os::real_clock().wall_ns());
    store->save_index();
  }
}
BENCHMARK(BM_SaveIndex)->ArgName("files")->Arg(kSmall)->Arg(kLarge)->UseRealTime()->Unit(benchmark::kMillisecond);

// A server on a directory, and how long its engine would have waited for the cache's lock.
class Server {
 public:
  Server(const std::string& directory, LeapingClock& clock)
      : writer_(os::make_thread_executor("bench")),
        prober_(os::make_thread_executor("probe")),
        cache_(options(), open_store(directory, true, clock), clock, *writer_, *writer_) {
    cache_.settle();
    writer_->drain();
  }

  // Returns the seconds that it took.
  double tick() {
    stop_ = false;
    prober_->post([this] { probe(); });
    const std::int64_t begin_ns = os::real_clock().monotonic_ns();
    cache_.tick();
    writer_->drain();
    const std::int64_t end_ns = os::real_clock().monotonic_ns();
    stop_ = true;
    prober_->drain();
    return static_cast<double>(end_ns - begin_ns) * 1e-9;
  }
  std::size_t segments() const { return cache_.stats().segments; }
  double longest_wait_ms() const { return static_cast<double>(longest_wait_ns_) * 1e-6; }

 private:
  void probe() {
    while (!stop_) {
      const std::int64_t begin_ns = os::real_clock().monotonic_ns();
      benchmark::DoNotOptimize(cache_.lease({}));
      longest_wait_ns_ = std::max(longest_wait_ns_, os::real_clock().monotonic_ns() - begin_ns);
    }
  }

  std::unique_ptr<os::Executor> writer_;
  std::unique_ptr<os::Executor> prober_;
  std::atomic<bool> stop_ = false;
  std::int64_t longest_wait_ns_ = 0;  // the prober's, read after it was drained
  Cache cache_;
};

void BM_TickAlone(benchmark::State& state) {
  LeapingClock clock;
  Server server(directory_of(state.range(0)), clock);
  for (auto _ : state) {
    clock.leap();
    state.SetIterationTime(server.tick());
  }
  state.counters["longest_wait_ms"] = server.longest_wait_ms();
}
BENCHMARK(BM_TickAlone)->ArgName("files")->Arg(kLarge)->UseManualTime()->Unit(benchmark::kMillisecond);

// Another server has stored a segment, or removed it.
void BM_TickWithNews(benchmark::State& state) {
  LeapingClock clock;
  Server server(directory_of(state.range(0)), clock);
  const auto other = open_store(directory_of(state.range(0)), true, clock);
  const std::size_t before = server.segments();
  PrefixHasher hasher(kModel);
  const Segment news = next_segment(60'000, 512, hasher);
  const auto tell = [&] {
    (void)other->tick();
    clock.leap();
  };
  for (auto _ : state) {
    for (int i = 0; i < 3; ++i) {  // they learn of each other, and the other one is given room
      server.tick();
      tell();
    }
    if (!other->put(news.header, {{format::PartKind::kRows, news.rows}})) return state.SkipWithError("no room");
    tell();
    state.SetIterationTime(server.tick());
    if (server.segments() != before + 1) return state.SkipWithError("what the other one stored was not found");
    if (!other->remove(news.header.name)) return state.SkipWithError("not removed");
    tell();
  }
  state.counters["longest_wait_ms"] = server.longest_wait_ms();
}
BENCHMARK(BM_TickWithNews)->ArgName("files")->Arg(kLarge)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::cache
