#include "os/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace kvkeep::os {
namespace {

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

}  // namespace
}  // namespace kvkeep::os
