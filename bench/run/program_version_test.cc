#include "bench/run/program_version.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "os/paths.h"

namespace kvkeep::bench {
namespace {

TEST(ProgramVersion, IsBehindItsMarkOrTheProgramsName) {
  EXPECT_EQ(version_in("ggml: found 1 device\nversion: 0.7.0 (build 11669)\nbuilt with GNU\n", "llama-server"),
            "0.7.0 (build 11669)");
  EXPECT_EQ(version_in("kvkeep 0.1.0\n", "kvkeep"), "0.1.0");
}

TEST(ProgramVersion, IsNotThatOfAnInterpreterOrOfAnError) {
  EXPECT_EQ(version_in("Python 3.11.2\n", "python3"), "");
  EXPECT_EQ(version_in("usage: serve.py [-h]\nerror: unrecognized arguments: --version\n", "serve.py"), "");
  EXPECT_EQ(version_in("kvkeeper 2\n", "kvkeep"), "");
  EXPECT_EQ(version_in("", "kvkeep"), "");
}

TEST(ProgramVersion, IsAskedOfTheProgram) {
  Interrupt interrupt;
  const auto directory = os::TemporaryDirectory::make("kvkeep-version-test-").value();
  const std::string program = directory.path() + "/server";
  std::ofstream(program) << "#!/bin/sh\necho \"server $1 7\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  EXPECT_EQ(version_of_program(program, interrupt), "--version 7");
  EXPECT_EQ(version_of_program("kvkeep-has-no-such-program", interrupt), "");
}

}  // namespace
}  // namespace kvkeep::bench
