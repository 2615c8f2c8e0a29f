// Verifying a directory of large files from page cache. The directory is $KVKEEP_BENCH_DIR or the system's temporary
// one. The argument is how many threads read.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "inspect/verify.h"
#include "store/disk_store.h"
#include "testing/sim/sample_segments.h"

namespace kvkeep::inspect {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFiles = 32;
constexpr std::size_t kFileBytes = 32 << 20;
const FingerprintHash kModel = sim::sample_fingerprint(1);

// A gigabyte of conversations of one segment each, written once for all runs.
class FilledDirectory {
 public:
  FilledDirectory() {
    const char* base = std::getenv("KVKEEP_BENCH_DIR");
    std::string name = (base != nullptr ? fs::path(base) : fs::temp_directory_path()) / "kvkeep-bench-XXXXXX";
    path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
    auto store = store::DiskStore::open({.directory = path_, .fingerprint = kModel, .budget = mebibytes(1 << 20)},
                                        os::real_file_system(), os::real_clock());
    for (std::uint32_t i = 0; store && i < kFiles; ++i) {
      const sim::SampleSegment segment = sim::sample_segment(kModel, i, 0, kFileBytes);
      (void)(*store)->put(segment.header, {{segment.header.name.kind, segment.payload}});
    }
  }
  ~FilledDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void BM_Verify(benchmark::State& state) {
  static const FilledDirectory filled;
  os::FileSystem& files = os::real_file_system();
  const auto directory = find_models(files, filled.path());
  std::vector<std::unique_ptr<os::Executor>> threads;
  std::vector<os::Executor*> executors;
  for (int i = 0; i < state.range(0); ++i) {
    threads.push_back(os::make_thread_executor("verify"));
    executors.push_back(threads.back().get());
  }
  for (auto _ : state) {
    const auto report = verify(files, *directory, executors);
    if (!report || !report->clean() || report->files != kFiles) return state.SkipWithError("not whole");
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kFiles * kFileBytes));
}
BENCHMARK(BM_Verify)->Arg(1)->Arg(2)->Arg(4)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::inspect
