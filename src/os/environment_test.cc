#include "os/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "os/temporary_directory.h"

namespace kvkeep::os {
namespace {

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

TEST(FindProgramTest, WhatCannotBeRunIsNoProgram) {
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

}  // namespace
}  // namespace kvkeep::os
