#include "os/paths.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/temporary_directory.h"

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

TEST(Permissions, WhatIsAnotherUsersIsNotRootsOwn) {
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

}  // namespace
}  // namespace kvkeep::os
