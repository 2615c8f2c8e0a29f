// The room that calls the system: files, locks, memory, children, background work.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "os/child_process.h"
#include "os/clock.h"
#include "os/executor.h"
#include "os/file_system.h"
#include "os/machine.h"
#include "os/paths.h"
#include "os/process.h"
#include "os/threads.h"

namespace kvkeep::os {
namespace {

namespace fs = std::filesystem;

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <typename T>
ErrorKind kind_of(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? ErrorKind::kAborted : result.error().kind;
}

class FileSystemTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kvkeep-os-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  void write(const std::string& name, std::string_view text) {
    auto file = files_.create(path(name));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->append(bytes_of(text)).ok());
    ASSERT_TRUE((*file)->sync().ok());
  }

  FileSystem& files_ = real_file_system();
  std::string directory_;
};

TEST_F(FileSystemTest, BytesComeBackAndShortReadsAreReported) {
  auto file = files_.create(path("a"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->append(bytes_of("hello ")).ok());
  ASSERT_TRUE((*file)->append(bytes_of("world")).ok());
  ASSERT_TRUE(files_.rename(path("a"), path("b")).ok());
  EXPECT_TRUE((*file)->sync().ok());  // the handle outlives the rename
  EXPECT_TRUE(files_.sync_directory(directory_).ok());
  auto opened = files_.open(path("b"));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(*(*opened)->size(), ByteCount{11});
  std::string out(20, '.');
  const auto count = (*opened)->read_at(6, std::as_writable_bytes(std::span(out)));
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(out.substr(0, *count), "world");
  EXPECT_EQ(kind_of(files_.open(path("a"))), ErrorKind::kNotFound);
}

TEST_F(FileSystemTest, CreatingNeverTakesAnExistingNameAndIsPrivate) {
  write("a", "x");
  EXPECT_EQ(kind_of(files_.create(path("a"))), ErrorKind::kInvalid);
  struct stat info{};
  ASSERT_EQ(::stat(path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_TRUE(files_.make_directories(path("d/e/f")).ok());
  ASSERT_TRUE(files_.make_directories(path("d/e/f")).ok());
  ASSERT_EQ(::stat(path("d/e").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(kind_of(files_.make_directories(path("a"))), ErrorKind::kInvalid);
}

TEST_F(FileSystemTest, LinksAndPipesAreNotOpened) {
  write("target", "x");
  fs::create_symlink(path("target"), path("link"));
  EXPECT_EQ(kind_of(files_.open(path("link"))), ErrorKind::kInvalid);
  EXPECT_EQ(kind_of(files_.create(path("link"))), ErrorKind::kInvalid);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind_of(files_.open(path("pipe"))), ErrorKind::kInvalid);
  fs::create_directory(path("real"));
  fs::create_directory_symlink(path("real"), path("directory_link"));
  EXPECT_EQ(kind_of(files_.list(path("directory_link"))), ErrorKind::kInvalid);
}

TEST_F(FileSystemTest, ListingTellsKindsSizesAndTimes) {
  write("file", "12345");
  ASSERT_TRUE(files_.set_modified(path("file"), 1'234'567'890'123'456'789).ok());
  fs::create_directory(path("sub"));
  fs::create_symlink("file", path("link"));
  auto listed = files_.list(directory_);
  ASSERT_TRUE(listed.ok());
  std::ranges::sort(*listed, {}, &FileInfo::name);
  ASSERT_EQ(listed->size(), 3u);
  const FileInfo& file = (*listed)[0];
  EXPECT_TRUE(file.name == "file" && file.is_regular && !file.is_directory);
  EXPECT_EQ(file.size, ByteCount{5});
  EXPECT_EQ(file.modified_ns, 1'234'567'890'123'456'789);
  EXPECT_FALSE((*listed)[1].is_regular || (*listed)[1].is_directory);  // the link
  EXPECT_TRUE((*listed)[2].is_directory);
  EXPECT_EQ(kind_of(files_.list(path("nowhere"))), ErrorKind::kNotFound);
}

// Enough files for several threads to read their facts.
TEST_F(FileSystemTest, ListingManyTellsEachOnce) {
  constexpr std::size_t kMany = 20'000;
  for (std::size_t i = 0; i < kMany; ++i) std::ofstream(path(std::to_string(i)));
  const auto listed = files_.list(directory_);
  ASSERT_TRUE(listed.ok());
  std::set<std::string> names;
  for (const FileInfo& file : *listed) names.insert(file.name);
  EXPECT_EQ(listed->size(), kMany);
  EXPECT_EQ(names.size(), kMany);
}

TEST_F(FileSystemTest, ALockHasOneHolder) {
  auto lock = files_.lock(path("lock"));
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(kind_of(files_.lock(path("lock"))), ErrorKind::kBusy);
  lock->reset();
  EXPECT_TRUE(files_.lock(path("lock")).ok());
}

TEST_F(FileSystemTest, ALockIsSharedByAnyNumberOrHeldByOne) {
  auto first = files_.lock_shared(path("lock"));
  auto second = files_.lock_shared(path("lock"));
  ASSERT_TRUE(first.ok() && second.ok());
  first->reset();
  EXPECT_EQ(kind_of(files_.lock(path("lock"))), ErrorKind::kBusy);
  second->reset();
  const auto whole = files_.lock(path("lock"));
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(kind_of(files_.lock_shared(path("lock"))), ErrorKind::kBusy);
}

TEST_F(FileSystemTest, ALockThatWasRemovedOrReplacedIsNotInPlace) {
  auto lock = files_.lock(path("lock"));
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE((*lock)->in_place());
  ASSERT_TRUE(files_.rename(path("lock"), path("other")).ok());
  EXPECT_FALSE((*lock)->in_place());
  const auto second = files_.lock(path("lock"));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE((*second)->in_place());
  EXPECT_FALSE((*lock)->in_place());
  ASSERT_TRUE(files_.rename(path("other"), path("lock")).ok());
  EXPECT_TRUE((*lock)->in_place());
}

TEST_F(FileSystemTest, RemovedFilesAreGone) {
  write("a", "x");
  EXPECT_TRUE(files_.remove(path("a")).ok());
  EXPECT_EQ(kind_of(files_.remove(path("a"))), ErrorKind::kNotFound);
  ASSERT_TRUE(files_.make_directories(path("box/inner")).ok());
  EXPECT_FALSE(files_.remove(path("box")).ok()) << "something lies in it";
  EXPECT_TRUE(files_.remove(path("box/inner")).ok());
  EXPECT_TRUE(files_.remove(path("box")).ok());
  EXPECT_FALSE(fs::exists(path("box")));
}

TEST_F(FileSystemTest, SpaceOfAPlaceThatIsNotThereYet) {
  const auto here = files_.space(directory_);
  const auto there = files_.space(path("x/y/z"));
  ASSERT_TRUE(here.ok() && there.ok());
  EXPECT_GT(there->free.value(), 0u);
  EXPECT_EQ(there->total, here->total);
  EXPECT_GE(there->total, there->free);
}

TEST(PhysicalSize, CountsBlocksAndTheInode) {
  EXPECT_EQ(physical_size(ByteCount{0}), ByteCount{4096});
  EXPECT_EQ(physical_size(ByteCount{1}), ByteCount{8192});
  EXPECT_EQ(physical_size(ByteCount{4096}), ByteCount{8192});
  EXPECT_EQ(physical_size(ByteCount{4097}), ByteCount{12288});
}

TEST(Clock, DoesNotGoBack) {
  const std::int64_t before = real_clock().monotonic_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_GE(elapsed_ms(before, real_clock().monotonic_ns()), 2.0);
  EXPECT_GT(real_clock().wall_ns(), 1'600'000'000'000'000'000);
}

TEST(ThreadExecutor, RunsInOrderAndDrains) {
  std::vector<int> order;
  const auto executor = make_thread_executor("a name longer than fifteen");
  for (int i = 0; i < 100; ++i) executor->post([&order, i] { order.push_back(i); });
  executor->drain();
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(ThreadExecutor, DestructionRunsWhatWasPosted) {
  std::atomic<int> ran = 0;
  {
    const auto executor = make_thread_executor("short");
    for (int i = 0; i < 50; ++i) executor->post([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 50);
}

TEST(ThreadExecutor, DrainWaitsForWhatOthersPosted) {
  std::atomic<int> ran = 0;
  const auto executor = make_thread_executor("shared");
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) executor->post([&ran] { ++ran; });
  });
  other.join();
  executor->drain();
  EXPECT_EQ(ran, 50);
}

TEST(ThreadExecutor, SeveralThreadsRunTasksSideBySide) {
  std::atomic<int> inside{0};
  const auto executor = make_thread_executor("executor", 2);
  for (int i = 0; i < 2; ++i) {
    executor->post([&] {
      ++inside;
      wait_until(20'000, [&] { return inside == 2; });  // each waits for the other
    });
  }
  executor->drain();
  EXPECT_EQ(inside, 2);
}

// A task that was posted later and ended does not count for one that was posted before.
TEST(ThreadExecutor, DrainWaitsForEachOfWhatWasPostedBefore) {
  std::atomic<bool> goes_on{false};
  std::atomic<bool> drained{false};
  std::atomic<int> later{0};
  const auto executor = make_thread_executor("executor", 2);
  executor->post([&] { wait_until(20'000, [&] { return goes_on.load(); }); });
  const auto drains = make_thread_executor("drains");
  drains->post([&] {
    executor->drain();
    EXPECT_TRUE(goes_on);
    drained = true;
  });
  pause(std::chrono::milliseconds(20));  // so that it drains by now
  for (int i = 0; i < 10; ++i) executor->post([&] { ++later; });
  EXPECT_TRUE(wait_until(20'000, [&] { return later == 10; }));
  EXPECT_FALSE(drained);
  goes_on = true;
  drains->drain();
  EXPECT_TRUE(drained);
}

TEST(ThreadExecutor, CallsOnItReturnWhatTheTaskDoes) {
  const auto executor = make_thread_executor("called");
  std::thread::id there;
  const auto moved = call_on(*executor, [&] {
    there = std::this_thread::get_id();
    return std::make_unique<int>(7);
  });
  EXPECT_EQ(*moved, 7);
  EXPECT_NE(there, std::this_thread::get_id());
  EXPECT_EQ(call_on(*executor, [] { return std::this_thread::get_id(); }), there);
  call_on(*executor, [&] { there = {}; });
  EXPECT_EQ(there, std::thread::id());
  EXPECT_THROW(call_on(*executor, [] { throw std::runtime_error("from the task"); }), std::runtime_error);
}

TEST(MemoryInfo, ReadsTheAvailableMemory) {
  const auto parsed = parse_available_memory("MemTotal:  9 kB\nMemAvailable:    1024 kB\n");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, mebibytes(1));
  EXPECT_EQ(kind_of(parse_available_memory("MemTotal: 9 kB\n")), ErrorKind::kUnsupported);
  EXPECT_EQ(kind_of(parse_available_memory("MemAvailable: x")), ErrorKind::kUnsupported);
  EXPECT_EQ(kind_of(parse_available_memory("MemAvailable:")), ErrorKind::kUnsupported);
  const auto here = available_memory();
  ASSERT_TRUE(here.ok());
  EXPECT_GT(here->value(), 1u << 20);
}

TEST(Paths, TheCacheHomeFollowsTheEnvironment) {
  ::setenv("HOME", "/home/somebody", 1);
  ::setenv("XDG_CACHE_HOME", "/var/somebody", 1);
  EXPECT_EQ(*user_cache_home(), "/var/somebody");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(*user_cache_home(), "/home/somebody/.cache");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(kind_of(user_cache_home()), ErrorKind::kUnsupported);
}

Result<ChildResult> shell(const std::string& script, ChildOptions options = {}) {
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  return run_child(options);
}

TEST(Child, ItsOutputAndCodeAreReported) {
  const auto result = shell("printf hello; exit 3");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->output, "hello");
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_FALSE(result->succeeded());
}

TEST(Child, ItsSignalIsReported) {
  const auto result = shell("kill -ABRT $$");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->signal, SIGABRT);
}

TEST(Child, IsKilledWhenItsTimeIsOver) {
  const auto silent = shell("exec sleep 60", {.timeout_ms = 50});
  ASSERT_TRUE(silent.ok());
  EXPECT_TRUE(silent->timed_out);
  const auto closed = shell("exec sleep 60 >&-", {.timeout_ms = 50});
  ASSERT_TRUE(closed.ok());
  EXPECT_TRUE(closed->timed_out);
}

TEST(Child, OutputIsBounded) {
  const auto result = shell("head -c 100000 /dev/zero", {.max_output_bytes = 1000});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->output.size(), 1000u);
  EXPECT_TRUE(result->succeeded());
}

TEST(Child, OurOwnBinaryIsTheDefault) {
  const auto result = run_child({.arguments = {"--gtest_list_tests"}});
  ASSERT_TRUE(result.ok());
  EXPECT_NE(result->output.find("OurOwnBinaryIsTheDefault"), std::string::npos);
}

TEST(Child, AMissingProgramIsAnError) {
  EXPECT_EQ(kind_of(run_child({.program = "/no/such/program"})), ErrorKind::kIo);
}

TEST(Self, KnowsItsCost) {
  EXPECT_EQ(process_id(), ::getpid());
  EXPECT_GE(cpu_seconds(), 0.0);
}

}  // namespace
}  // namespace kvkeep::os
