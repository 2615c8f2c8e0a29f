#include "os/append_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "os/paths.h"

namespace kvkeep::os {
namespace {

std::string lines_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 0777;
}

class AppendFileTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "lines") const { return directory_.path() + "/" + name; }
  TemporaryDirectory directory_ = TemporaryDirectory::make("append").value();
};

TEST_F(AppendFileTest, IsPrivateAndGoesOnWhereItEnded) {
  ASSERT_TRUE(AppendFile::open(path()).value().append("one\n"));
  ASSERT_TRUE(AppendFile::open(path()).value().append("two\n"));
  EXPECT_EQ(lines_of(path()), "one\ntwo\n");
  EXPECT_EQ(mode_of(path()), 0600U);
}

TEST_F(AppendFileTest, AFileThatExistsKeepsItsMode) {
  std::ofstream(path()) << "zero\n";
  ASSERT_EQ(::chmod(path().c_str(), 0640), 0);
  ASSERT_TRUE(AppendFile::open(path()).value().append("one\n"));
  EXPECT_EQ(lines_of(path()), "zero\none\n");
  EXPECT_EQ(mode_of(path()), 0640U);
}

TEST_F(AppendFileTest, IsMadeAnewWhenItWasRotatedOrRemoved) {
  AppendFile file = AppendFile::open(path()).value();
  ASSERT_TRUE(file.append("one\n"));
  std::filesystem::rename(path(), path("old"));
  ASSERT_TRUE(file.append("two\n"));
  std::filesystem::remove(path());
  ASSERT_TRUE(file.append("three\n"));
  EXPECT_EQ(lines_of(path("old")), "one\n");
  EXPECT_EQ(lines_of(path()), "three\n");
}

TEST_F(AppendFileTest, ReopeningMakesTheFileBeforeItHasALine) {
  AppendFile file = AppendFile::open(path()).value();
  ASSERT_TRUE(file.append("one\n"));
  ASSERT_TRUE(file.reopen());
  EXPECT_EQ(lines_of(path()), "one\n");
  std::filesystem::rename(path(), path("old"));
  ASSERT_TRUE(file.reopen());
  EXPECT_EQ(lines_of(path()), "");
  EXPECT_EQ(mode_of(path()), 0600U);
}

TEST_F(AppendFileTest, RefusesWhatCannotBeAppendedTo) {
  for (const std::string& bad : {directory_.path(), path("no/such"), path("pipe")}) {
    if (bad == path("pipe")) {
      ASSERT_EQ(::mkfifo(bad.c_str(), 0600), 0);
    }
    const auto opened = AppendFile::open(bad);
    ASSERT_FALSE(opened.ok()) << bad;
    EXPECT_EQ(opened.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(opened.error().message.find(bad), std::string::npos);
  }
}

TEST_F(AppendFileTest, ALineThatDoesNotFitIsNotThereAndTheNextOneIs) {
  AppendFile file = AppendFile::open(path()).value();
  ASSERT_TRUE(file.append("one\n"));
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {10, before.rlim_max};
  ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status refused = file.append("a line that is too long\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoSpace);
  ASSERT_TRUE(file.append("two\n"));
  EXPECT_EQ(lines_of(path()), "one\ntwo\n");
}

TEST_F(AppendFileTest, ADirectoryThatVanishedIsAnErrorUntilItIsBack) {
  std::filesystem::create_directory(path("sub"));
  AppendFile file = AppendFile::open(path("sub/lines")).value();
  std::filesystem::remove_all(path("sub"));
  EXPECT_FALSE(file.append("one\n").ok());
  std::filesystem::create_directory(path("sub"));
  EXPECT_TRUE(file.append("two\n").ok());
  EXPECT_EQ(lines_of(path("sub/lines")), "two\n");
}

}  // namespace
}  // namespace kvkeep::os
