#include "os/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace kvkeep::os {
namespace {

TEST(Environment, HoldsWhatIsSetAndNothingElse) {
  ASSERT_EQ(::setenv("KVKEEP_TEST_VALUE", "a=b", 1), 0);
  ASSERT_EQ(::setenv("KVKEEP_TEST_EMPTY", "", 1), 0);
  ::unsetenv("KVKEEP_TEST_ABSENT");
  const Environment environment = read_environment();
  EXPECT_EQ(environment.at("KVKEEP_TEST_VALUE"), "a=b");
  EXPECT_EQ(environment.at("KVKEEP_TEST_EMPTY"), "");
  EXPECT_FALSE(environment.contains("KVKEEP_TEST_ABSENT"));
}

}  // namespace
}  // namespace kvkeep::os
