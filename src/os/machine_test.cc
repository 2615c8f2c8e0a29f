#include "os/machine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "os/child_process.h"
#include "os/paths.h"
#include "os/process.h"

namespace kvkeep::os {
namespace {

// Returns the flags of the mapping with this address (proc(5), VmFlags); "" if there is none.
std::string mapping_flags(const std::byte* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') inside = begin <= wanted && wanted < end;
    if (inside && line.starts_with("VmFlags:")) return line + ' ';
  }
  return {};
}

TEST(LargePages, AreAskedForWhereBytesFillThem) {
  constexpr std::size_t kBytes = 16 << 20;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  const MutableByteSpan bytes(memory.get(), kBytes);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3000}})
    prefer_large_pages(bytes.first(size));
  const std::byte* middle = bytes.data() + kBytes / 2;
  ASSERT_NE(mapping_flags(middle), "");
  EXPECT_EQ(mapping_flags(middle).find(" hg "), std::string::npos);
  prefer_large_pages(bytes.subspan(5));
  // The kernel of a system without them knows no such wish.
  const bool has_any = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
  EXPECT_EQ(mapping_flags(middle).find(" hg ") != std::string::npos, has_any);
  std::ranges::fill(bytes, std::byte{7});
  EXPECT_EQ(std::ranges::count(bytes, std::byte{7}), static_cast<std::ptrdiff_t>(kBytes));
}

TEST(MappedMemory, IsWholePagesWhosePartsGoBack) {
  constexpr std::size_t kUnit = 64 << 10;
  const MutableByteSpan pages = map_memory((5 << 20) + 1);
  ASSERT_EQ(pages.size(), (5 << 20) + kUnit);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % (2 << 20), 0U) << "large pages fit";
  touch_memory(pages.first(kUnit));
  std::ranges::fill(pages, std::byte{7});
  unmap_memory(pages.first(kUnit));
  EXPECT_EQ(std::ranges::count(pages.subspan(kUnit), std::byte{7}), static_cast<std::ptrdiff_t>(pages.size() - kUnit));
  EXPECT_EQ(mapping_flags(pages.data()), "");
  unmap_memory(pages.subspan(kUnit));
  EXPECT_EQ(mapping_flags(pages.data() + kUnit), "");
}

TEST(MachineInfoTest, SaysWhatItRunsOn) {
  const MachineInfo info = machine_info();
  EXPECT_GE(info.logical_cpus, 1U);
  EXPECT_GT(info.memory.value(), 16U << 20);
  EXPECT_EQ(info.processor.find_first_of("\n\t"), std::string::npos);
  EXPECT_EQ(info.system.find('"'), std::string::npos);
}

const ProcessTime* find(const ProcessorTimes& times, int id) {
  const auto found = std::ranges::find(times.processes, id, &ProcessTime::id);
  return found == times.processes.end() ? nullptr : &*found;
}

void compute_for(double seconds) {
  const double end_s = cpu_seconds() + seconds;
  while (cpu_seconds() < end_s) {}
}

TEST(Processes, ThisOneIsAmongThemWithItsTime) {
  const auto before = processor_times();
  ASSERT_TRUE(before.ok());
  compute_for(0.1);
  const auto after = processor_times();
  ASSERT_TRUE(after.ok());
  const ProcessTime* then = find(*before, process_id());
  const ProcessTime* now = find(*after, process_id());
  ASSERT_NE(then, nullptr);
  ASSERT_NE(now, nullptr);
  EXPECT_EQ(now->parent, ::getppid());
  EXPECT_EQ(now->started_ticks, then->started_ticks);
  EXPECT_TRUE(now->name.starts_with("os_test")) << now->name;
  EXPECT_GE(now->cpu_s, then->cpu_s + 0.05);  // ticks are coarse
  EXPECT_GE(after->busy_s, before->busy_s + 0.05);
  EXPECT_GE(after->idle_s, before->idle_s);
  EXPECT_GE(after->stolen_s, before->stolen_s);
}

TEST(Processes, ChildrenThatEndedCountForTheirParent) {
  const double before_s = find(processor_times().value(), process_id())->children_cpu_s;
  ASSERT_TRUE(
      run_child({.program = "/bin/sh", .arguments = {"-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"}}).ok());
  EXPECT_GT(find(processor_times().value(), process_id())->children_cpu_s, before_s);
}

TEST(Processes, WaitsAreCountedOverAllThreads) {
  const auto before = voluntary_switches(process_id());
  ASSERT_TRUE(before.ok());
  constexpr int kWaits = 50;
  std::uint64_t meanwhile = 0;
  std::thread([&] {
    for (int i = 0; i < kWaits; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    meanwhile = voluntary_switches(process_id()).value();  // a thread that has ended no longer counts
  }).join();
  EXPECT_GE(meanwhile, *before + kWaits);
  EXPECT_FALSE(voluntary_switches(0).ok());
}

TEST(ProcessIoTest, CountsWhatAProcessWrites) {
  const TemporaryDirectory directory = TemporaryDirectory::make("kvkeep-io-").value();
  const auto before = bytes_written_by(process_id());
  ASSERT_TRUE(before.ok()) << before.error().message;
  constexpr std::size_t kBytes = 1'000'000;
  std::ofstream(directory.path() + "/file") << std::string(kBytes, 'x');
  const std::uint64_t written = bytes_written_by(process_id()).value() - *before;
  EXPECT_GE(written, kBytes);
  EXPECT_LT(written, 2 * kBytes);
}

// A file system in memory cannot let go of its files.
TEST(PageCache, IsLeftByFilesOfRealFileSystems) {
  const TemporaryDirectory directory = TemporaryDirectory::make("kvkeep-pages-").value();
  const std::string path = directory.path() + "/file";
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{1'000'000}}) {
    std::ofstream(path, std::ios::trunc) << std::string(size, 'x');
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::fdatasync(file), 0);
    struct statfs info{};
    ASSERT_EQ(::fstatfs(file, &info), 0);
    ::close(file);
    EXPECT_EQ(drop_from_page_cache(path).value(), size == 0 || info.f_type != TMPFS_MAGIC);
  }
  EXPECT_EQ(drop_from_page_cache(directory.path() + "/none").error().kind, ErrorKind::kNotFound);
}

TEST(ProcessIoTest, NoProcessIsNoFigure) {
  const auto written = bytes_written_by(-1);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::kUnsupported);
}

}  // namespace

}  // namespace kvkeep::os
