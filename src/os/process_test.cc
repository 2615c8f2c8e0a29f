#include "os/process.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "os/executor.h"
#include "os/paths.h"

namespace kvkeep::os {
namespace {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Memory, MemoryThatAnotherThreadFreedGoesBackToTheSystem) {
  constexpr std::size_t kPieces = 16'384;
  constexpr std::size_t kPieceBytes = 4'000;
  const auto other = make_thread_executor("other");
  std::vector<std::unique_ptr<char[]>> pieces;
  other->post([&] {
    for (std::size_t i = 0; i < kPieces; ++i) pieces.push_back(std::make_unique<char[]>(kPieceBytes));
  });
  other->drain();
  // Sanitizers have an allocator of their own, which is not counted here and keeps freed memory on purpose.
  const bool ours = mallinfo2().uordblks != 0;
  other->post([&] {
    for (std::size_t i = 0; i + 1 < kPieces; ++i) pieces[i].reset();  // the last one prevents the heap from shrinking
  });
  other->drain();
  const std::size_t before = resident_bytes();
  return_freed_memory();
  EXPECT_TRUE(!ours || resident_bytes() + kPieces * kPieceBytes / 2 < before) << before << " " << resident_bytes();
}

TEST(OpenFiles, TheSoftLimitBecomesTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const std::size_t raised = raise_open_files_limit();
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(raised, before.rlim_max);
}

namespace fs = std::filesystem;

TEST(Environment, HoldsWhatIsSetAndNothingElse) {
  ASSERT_EQ(::setenv("KVKEEP_TEST_VALUE", "a=b", 1), 0);
  ASSERT_EQ(::setenv("KVKEEP_TEST_EMPTY", "", 1), 0);
  ::unsetenv("KVKEEP_TEST_ABSENT");
  const Environment environment = read_environment();
  EXPECT_EQ(environment.at("KVKEEP_TEST_VALUE"), "a=b");
  EXPECT_EQ(environment.at("KVKEEP_TEST_EMPTY"), "");
  EXPECT_FALSE(environment.contains("KVKEEP_TEST_ABSENT"));
}

TEST(FindProgramTest, FindsWhatAShellWouldRun) {
  const auto found = find_program("sh");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found->ends_with("/sh")) << *found;
  EXPECT_EQ(find_program("/bin/sh").value(), "/bin/sh");
}

TEST(FindProgramTest, AFileThatCannotBeRunIsNoProgram) {
  const TemporaryDirectory directory = TemporaryDirectory::make("kvkeep-find-").value();
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "text";
  for (const std::string& name :
       {file, directory.path(), directory.path() + "/none", std::string("no-such-program"), std::string()}) {
    const auto found = find_program(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().kind, ErrorKind::kNotFound);
    EXPECT_NE(found.error().message.find("no such program"), std::string::npos);
  }
  fs::permissions(file, fs::perms::owner_exec, fs::perm_options::add);
  EXPECT_TRUE(find_program(file).ok());
}

TEST(Random, BytesAreFilledInAndDiffer) {
  std::vector<std::byte> one(1000);
  std::vector<std::byte> other(1000);
  fill_random(one);
  fill_random(other);
  EXPECT_NE(one, other);
  const auto zeros = [](const std::vector<std::byte>& bytes) { return std::ranges::count(bytes, std::byte{0}); };
  EXPECT_LT(zeros(one), 40);  // 4 are usual
}

}  // namespace

}  // namespace kvkeep::os
