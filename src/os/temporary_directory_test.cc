#include "os/temporary_directory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kvkeep::os {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryDirectoryTest, IsPrivateAndGoesWithAllItHolds) {
  std::string path;
  {
    const auto made = TemporaryDirectory::make("kvkeep-test-");
    ASSERT_TRUE(made.ok()) << made.error().message;
    path = made->path();
    EXPECT_EQ(fs::path(path).filename().string().find("kvkeep-test-"), 0U);
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    fs::create_directories(path + "/a/b");
    std::ofstream(path + "/a/b/file") << "text";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryDirectoryTest, MovingKeepsOneOwner) {
  auto first = TemporaryDirectory::make("kvkeep-test-").value();
  auto second = TemporaryDirectory::make("kvkeep-test-").value();
  const std::string first_path = first.path();
  const std::string second_path = second.path();
  EXPECT_NE(first_path, second_path);
  second = std::move(first);
  EXPECT_TRUE(fs::exists(first_path));
  EXPECT_FALSE(fs::exists(second_path));
  EXPECT_EQ(second.path(), first_path);
}

TEST(TemporaryDirectoryTest, ParentThatIsNotThereIsAnError) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/nowhere/at/all", 1);
  const auto made = TemporaryDirectory::make("kvkeep-test-");
  if (before == nullptr)
    ::unsetenv("TMPDIR");
  else
    ::setenv("TMPDIR", kept.c_str(), 1);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kIo);
  EXPECT_NE(made.error().message.find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace kvkeep::os
