// The disk tier compared with the same bytes without it: the cost of durability, names and checks. The directory is
// $KVKEEP_BENCH_DIR or the system's temporary one; on a memory file system syncs cost nothing.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "base/checksum.h"
#include "store/disk_store.h"
#include "testing/sim/sample_segments.h"

namespace kvkeep::store {
namespace {

namespace fs = std::filesystem;
using format::PartKind;

const FingerprintHash kModel = sim::sample_fingerprint(1);

class BenchDirectory {
 public:
  BenchDirectory() {
    const char* base = std::getenv("KVKEEP_BENCH_DIR");
    std::string name = (base != nullptr ? fs::path(base) : fs::temp_directory_path()) / "kvkeep-bench-XXXXXX";
    path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
  }
  ~BenchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::unique_ptr<DiskStore> open(const BenchDirectory& directory) {
  auto store = DiskStore::open({.directory = directory.path(), .fingerprint = kModel, .budget = mebibytes(1 << 20)},
                               os::real_file_system(), os::real_clock());
  return store ? std::move(*store) : nullptr;
}

// Segment 0 of conversations 1, 2, 3...: names differ, all begin at 0, so that making them is cheap.
sim::SampleSegment segment(std::uint32_t number, std::size_t size) {
  return sim::sample_segment(kModel, number + 1, 0, size);
}

void set_rate(benchmark::State& state, std::size_t size) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * size));
}

void BM_PlainWriteAndSync(benchmark::State& state) {
  const BenchDirectory directory;
  os::FileSystem& files = os::real_file_system();
  const auto bytes = sim::sample_bytes(1, static_cast<std::size_t>(state.range(0)) << 20);
  for (int i = 0; auto _ : state) {
    const std::string path = directory.path() + "/" + std::to_string(++i);
    auto file = files.create(path);
    if (!file || !(*file)->append(bytes) || !(*file)->sync()) return state.SkipWithError("write failed");
    state.PauseTiming();
    (void)files.remove(path).ok();
    state.ResumeTiming();
  }
  set_rate(state, bytes.size());
}
BENCHMARK(BM_PlainWriteAndSync)->Arg(4)->Arg(30)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_DurablePut(benchmark::State& state) {
  const BenchDirectory directory;
  const auto store = open(directory);
  const std::size_t size = static_cast<std::size_t>(state.range(0)) << 20;
  auto sample = segment(0, size);
  for (std::uint32_t i = 0; auto _ : state) {
    state.PauseTiming();
    sample.header = segment(++i, 1).header;
    state.ResumeTiming();
    if (!store->put(sample.header, {{PartKind::kRows, sample.payload}})) return state.SkipWithError("put failed");
    state.PauseTiming();
    (void)store->remove(sample.header.name).ok();
    state.ResumeTiming();
  }
  set_rate(state, size);
}
BENCHMARK(BM_DurablePut)->Arg(4)->Arg(30)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_PlainReadAndChecksum(benchmark::State& state) {
  const BenchDirectory directory;
  os::FileSystem& files = os::real_file_system();
  const std::string path = directory.path() + "/file";
  std::vector<std::byte> bytes = sim::sample_bytes(1, static_cast<std::size_t>(state.range(0)) << 20);
  if (auto file = files.create(path); !file || !(*file)->append(bytes)) return state.SkipWithError("write failed");
  for (auto _ : state) {
    auto file = files.open(path);
    if (!file || !(*file)->read_at(0, bytes)) return state.SkipWithError("read failed");
    benchmark::DoNotOptimize(checksum(bytes));
  }
  set_rate(state, bytes.size());
}
BENCHMARK(BM_PlainReadAndChecksum)->Arg(1)->Arg(4)->Arg(30)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_Get(benchmark::State& state) {
  const BenchDirectory directory;
  const auto store = open(directory);
  auto sample = segment(0, static_cast<std::size_t>(state.range(0)) << 20);
  if (!store->put(sample.header, {{PartKind::kRows, sample.payload}})) return state.SkipWithError("put failed");
  for (auto _ : state) {
    if (!store->get(sample.header, PartKind::kRows, sample.payload)) return state.SkipWithError("get failed");
  }
  set_rate(state, sample.payload.size());
}
BENCHMARK(BM_Get)->Arg(1)->Arg(4)->Arg(30)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::store
