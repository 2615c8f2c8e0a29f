#include "bench/run/surroundings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "os/paths.h"
#include "os/process.h"

namespace kvkeep::bench {
namespace {

os::ProcessTime process(int id, int parent, const char* name, double cpu_s, double children_cpu_s = 0) {
  return {
      .id = id, .parent = parent, .started_ticks = 7, .name = name, .cpu_s = cpu_s, .children_cpu_s = children_cpu_s};
}

TEST(OtherWork, OwnServersAreNotOthers) {
  const os::ProcessorTimes before{10, 90, 0, {process(5, 1, "kvkeep", 1), process(2, 1, "make", 4)}};
  // Two processors for 50 s: 20 s of the bench (one server runs, one has ended), 30 s of a compiler, 50 s idle.
  const os::ProcessorTimes after{
      60,
      140,
      0,
      {process(9, 6, "worker", 6), process(6, 5, "server", 3), process(5, 1, "kvkeep", 2, 10),
       process(2, 1, "make", 4.2), process(3, 2, "cc1plus", 29)}};
  EXPECT_EQ(other_work(before, after, 5), "Other programs took 30 % of the processors (cc1plus 29.0 s).");
}

TEST(OtherWork, AnIdIsUsedAgain) {
  os::ProcessTime old = process(3, 1, "old", 50);
  os::ProcessTime young = process(3, 1, "young", 2);
  young.started_ticks = 8;
  const os::ProcessorTimes before{0, 0, 0, {old}};
  const os::ProcessorTimes after{2, 2, 0, {young}};
  EXPECT_EQ(other_work(before, after, 5), "Other programs took 50 % of the processors (young 2.0 s).");
}

TEST(OtherWork, TheThreeThatTookMostAreNamedAndTheHostToo) {
  const os::ProcessorTimes before{};
  const os::ProcessorTimes after{
      60, 20, 20, {process(1, 0, "a", 5), process(2, 0, "b", 20), process(3, 0, "c", 10), process(4, 0, "b", 5)}};
  EXPECT_EQ(
      other_work(before, after, 9),
      "Other programs took 60 % of the processors (b 25.0 s, c 10.0 s, a 5.0 s), the virtual machine's host 20 %.");
  EXPECT_EQ(other_work(before, {100, 0, 0, {process(9, 0, "own", 100)}}, 9),
            "Other programs took 0 % of the processors.");
  EXPECT_EQ(other_work(before, before, 9), "");
}

TEST(OtherWork, IsToldOfThisMachine) {
  const OtherWork work;
  const double end_s = os::cpu_seconds() + 0.05;  // some ticks of the system's clock
  while (os::cpu_seconds() < end_s) {}
  EXPECT_TRUE(work.text().starts_with("Other programs took ")) << work.text();
}

TEST(ProgramVersion, FollowsItsMarkOrTheProgramsName) {
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
