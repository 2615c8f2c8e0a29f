#include "os/paths.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kvkeep::os {
namespace {

TEST(Permissions, OwnDirectoriesAreOwn) {
  const auto own = is_own("/proc/self");
  ASSERT_TRUE(own);
  EXPECT_TRUE(*own);
  EXPECT_EQ(is_own("/nowhere/at/all").error().kind, ErrorKind::kNotFound);
}

TEST(Permissions, OnlyRootAndOneselfAreTrusted) {
  EXPECT_TRUE(is_trusted_owner(0, 0));
  EXPECT_TRUE(is_trusted_owner(0, 1000));
  EXPECT_TRUE(is_trusted_owner(1000, 1000));
  EXPECT_FALSE(is_trusted_owner(1000, 0)) << "root, too, asks whose it is";
  EXPECT_FALSE(is_trusted_owner(1000, 1001));
}

TEST(Permissions, AnotherUsersDirectoryIsNotRootsOwn) {
  const TemporaryDirectory directory = TemporaryDirectory::make("kvkeep-permissions-").value();
  EXPECT_TRUE(is_trusted(directory.path()).value());
  constexpr std::uint32_t kNobody = 65534;
  if (::geteuid() != 0) return;  // no other user may give files away
  ASSERT_EQ(::chown(directory.path().c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(owner(directory.path()).value(), kNobody);
  EXPECT_FALSE(is_own(directory.path()).value());
  EXPECT_FALSE(is_trusted(directory.path()).value());
}

TEST(Permissions, AreThoseOfTheDirectory) {
  const TemporaryDirectory directory = TemporaryDirectory::make("kvkeep-permissions-").value();
  EXPECT_EQ(permissions(directory.path()).value(), 0700U);
  ASSERT_EQ(::chmod(directory.path().c_str(), 01722), 0);
  const std::uint32_t mode = permissions(directory.path()).value();
  EXPECT_EQ(mode & kOthersMayWrite, 0022U);
  EXPECT_EQ(mode & kSticky, kSticky);
  EXPECT_EQ(permissions(directory.path() + "/none").error().kind, ErrorKind::kNotFound);
}

namespace fs = std::filesystem;

TEST(PrivateFiles, AreReadOnlyIfTheyArePrivate) {
  const TemporaryDirectory directory = TemporaryDirectory::make("kvkeep-secret-").value();
  const std::string path = directory.path() + "/secret";
  std::ofstream(path) << "open sesame\n";
  for (const unsigned mode : {0600U, 0400U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(read_private_file(path, 12).value(), "open sesame\n");
  }
  EXPECT_EQ(read_private_file(path, 11).error().kind, ErrorKind::kInvalid);
  for (const unsigned mode : {0640U, 0604U, 0620U, 0602U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto read = read_private_file(path, 100);
    ASSERT_FALSE(read.ok()) << mode;
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(read.error().message.find("chmod 600"), std::string::npos) << read.error().message;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  fs::create_symlink(path, directory.path() + "/link");
  EXPECT_TRUE(read_private_file(directory.path() + "/link", 100).ok());
  EXPECT_EQ(read_private_file(directory.path() + "/none", 100).error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(read_private_file(directory.path(), 100).ok());
  if (::geteuid() != 0) return;  // no other user may give files away
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  const auto read = read_private_file(path, 100);
  ASSERT_FALSE(read.ok()) << "root could";
  EXPECT_NE(read.error().message.find("65534"), std::string::npos) << read.error().message;
}

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
