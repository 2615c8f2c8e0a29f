#include "os/permissions.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "os/temporary_directory.h"

namespace kvkeep::os {
namespace {

TEST(Permissions, OwnDirectoriesAreOwn) {
  const auto own = is_own("/proc/self");
  ASSERT_TRUE(own);
  EXPECT_TRUE(*own);
  EXPECT_EQ(is_own("/nowhere/at/all").error().kind, ErrorKind::kNotFound);
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
