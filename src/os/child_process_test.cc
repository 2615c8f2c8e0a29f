#include "os/child_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "os/network.h"
#include "os/paths.h"

namespace kvkeep::os {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The process that adopts a child may be slow to collect it: a zombie counts as dead.
bool is_gone(int id) {
  const std::string state = text_of("/proc/" + std::to_string(id) + "/stat");
  return state.empty() || state.find(") Z") != std::string::npos || state.find(") X") != std::string::npos;
}

bool eventually(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 2'000 && !condition(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

bool becomes_gone(int id) {
  return eventually([&] { return is_gone(id); });
}

class ChildProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::make("kvkeep-child-");
    ASSERT_TRUE(made.ok()) << made.error().message;
    directory_.emplace(std::move(*made));
  }
  std::string output_path() const { return directory_->path() + "/output"; }
  ChildProcessOptions shell(const std::string& script) const {
    return {.program = "sh", .arguments = {"-c", script}, .environment = {}, .output_path = output_path()};
  }
  // The child ends with the test; a failed start fails the test.
  std::unique_ptr<ChildProcess> start(const ChildProcessOptions& options) {
    auto child = start_child(options);
    EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().message);
    return child.ok() ? std::move(*child) : nullptr;
  }
  // Waits until the output is `text`.
  bool printed(const std::string& text) const {
    return eventually([&] { return text_of(output_path()) == text; });
  }

  std::optional<TemporaryDirectory> directory_;
};

TEST_F(ChildProcessTest, MissingProgramsAreNotFound) {
  for (const char* program : {"kvkeep-has-no-such-program", "/nowhere/at/all", "/tmp"}) {
    const auto child = start_child({.program = program, .arguments = {}, .environment = {}, .output_path = ""});
    ASSERT_FALSE(child.ok());
    EXPECT_EQ(child.error().kind, ErrorKind::kNotFound);
    EXPECT_NE(child.error().message.find(program), std::string::npos) << child.error().message;
  }
}

TEST_F(ChildProcessTest, FileThatIsNoProgramCannotBeStarted) {
  const std::string path = directory_->path() + "/garbage";
  std::ofstream(path) << "\x7f"
                         "ELF and then nothing";
  fs::permissions(path, fs::perms::owner_all);
  const auto child = start_child({.program = path, .arguments = {}, .environment = {}, .output_path = ""});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().kind, ErrorKind::kIo);
}

TEST_F(ChildProcessTest, OutputThatCannotBeWrittenIsAnError) {
  ChildProcessOptions options = shell("true");
  options.output_path = "/nowhere/at/all";
  EXPECT_FALSE(start_child(options).ok());
}

TEST_F(ChildProcessTest, ExitCodeAndSignalAreReported) {
  const auto exited = start(shell("exit 7"))->wait(10'000);
  ASSERT_TRUE(exited.ok());
  EXPECT_EQ(exited->exit_code, 7);
  EXPECT_EQ(exited->signal, 0);
  const auto killed = start(shell("kill -USR1 $$; sleep 60"))->wait(10'000);
  ASSERT_TRUE(killed.ok());
  EXPECT_EQ(killed->signal, SIGUSR1);
}

TEST_F(ChildProcessTest, OutputAndErrorsAreAppended) {
  std::ofstream(output_path()) << "before\n";
  ASSERT_TRUE(start(shell("echo out; echo err >&2"))->wait(10'000).ok());
  EXPECT_EQ(text_of(output_path()), "before\nout\nerr\n");
}

TEST_F(ChildProcessTest, EnvironmentIsOursWithChanges) {
  ChildProcessOptions options = shell("echo $KVKEEP_TEST_NEW; test -n \"$PATH\" && echo $HOME");
  options.environment = {{"KVKEEP_TEST_NEW", "a b"}, {"HOME", "/elsewhere"}};
  ASSERT_TRUE(start(options)->wait(10'000).ok());
  EXPECT_EQ(text_of(output_path()), "a b\n/elsewhere\n");
}

TEST_F(ChildProcessTest, ChildHasNoInputAndNoneOfOurFiles) {
  std::ofstream ours(directory_->path() + "/ours");
  ASSERT_TRUE(start(shell("read line || echo ended; ls -l /proc/self/fd"))->wait(10'000).ok());
  const std::string output = text_of(output_path());
  EXPECT_EQ(output.find("ended"), 0U) << output;
  EXPECT_EQ(output.find("/ours"), std::string::npos) << output;
}

TEST_F(ChildProcessTest, BlockedAndIgnoredSignalsAreNotInherited) {
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  const auto child = start(shell("echo up; exec sleep 60"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(printed("up\n"));
  child->terminate();
  const auto end = child->wait(10'000);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->signal, SIGTERM);
}

TEST_F(ChildProcessTest, WaitHasALimitAndKillEndsIt) {
  const auto child = start(shell("exec sleep 60"));
  const auto early = child->wait(20);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().kind, ErrorKind::kAborted);
  EXPECT_FALSE(child->ended().has_value());
  child->kill();
  const auto end = child->wait(10'000);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->signal, SIGKILL);
  child->kill();  // nothing happens
  child->terminate();
  EXPECT_EQ(child->ended()->signal, SIGKILL);
}

TEST_F(ChildProcessTest, DestructionKills) {
  auto child = start(shell("exec sleep 60"));
  const int id = child->id();
  EXPECT_EQ(::kill(id, 0), 0);
  child.reset();
  EXPECT_NE(::kill(id, 0), 0);
}

TEST_F(ChildProcessTest, ProcessesThatItStartedAreKilledWithIt) {
  const std::string script = "sleep 60 & echo $!; ";
  for (const bool leader_ends : {false, true}) {
    auto child = start(shell(script + (leader_ends ? "exit 0" : "wait")));
    std::string text;
    while ((text = text_of(output_path())).find('\n') == std::string::npos) {}
    ::unlink(output_path().c_str());
    const int grandchild = std::stoi(text);
    if (leader_ends) {
      EXPECT_EQ(child->wait(10'000).value().exit_code, 0);
    }
    EXPECT_FALSE(is_gone(grandchild));
    child->kill();
    EXPECT_TRUE(becomes_gone(grandchild));
    EXPECT_EQ(child->wait(10'000).value().signal, leader_ends ? 0 : SIGKILL);
  }
}

TEST_F(ChildProcessTest, ProcessesThatItStartedAreAskedToEndWithIt) {
  const auto child = start(shell("sh -c \"trap 'echo inner; exit' TERM; echo up; while true; do sleep 0.05; done\""));
  ASSERT_TRUE(printed("up\n"));
  child->terminate();
  EXPECT_TRUE(eventually([&] { return text_of(output_path()).find("inner\n") != std::string::npos; }));
}

TEST_F(ChildProcessTest, VariablesCanBeLeftOut) {
  ChildProcessOptions options = shell("echo \"<$HOME> <$KVKEEP_TEST_NEW>\"");
  options.environment = {{"KVKEEP_TEST_NEW", "new"}};
  options.without = {"HOME", "KVKEEP_HAS_NO_SUCH_VARIABLE"};
  ASSERT_TRUE(start(options)->wait(10'000).ok());
  EXPECT_EQ(text_of(output_path()), "<> <new>\n");
}

TEST_F(ChildProcessTest, PortIsFreeWhenNobodyListens) {
  const std::string port = std::to_string(free_port().value());
  EXPECT_TRUE(wait_until_port_is_free(std::stoi(port), 0));
  auto child = start({.program = "python3",
                      .arguments = {"-c",
                                    "import socket, sys, time\n"
                                    "s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
                                    "print('up', flush=True)\n"
                                    "time.sleep(60)",
                                    port},
                      .environment = {},
                      .output_path = output_path()});
  ASSERT_TRUE(printed("up\n"));
  EXPECT_FALSE(wait_until_port_is_free(std::stoi(port), 50));
  child->kill();
  EXPECT_TRUE(wait_until_port_is_free(std::stoi(port), 10'000));
}

TEST_F(ChildProcessTest, ChildOutlivesTheThreadThatAskedForIt) {
  std::unique_ptr<ChildProcess> child;
  std::thread([&] { child = start(shell("exec sleep 60")); }).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(child->ended().has_value());
}

TEST_F(ChildProcessTest, CpuTimeGrowsUntilTheEnd) {
  const auto child = start(shell("while true; do :; done"));
  const Result<double> first = child->cpu_seconds();
  ASSERT_TRUE(first.ok()) << first.error().message;
  double last = *first;
  for (int tries = 0; tries < 2'000 && last < *first + 0.05; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    last = child->cpu_seconds().value();
  }
  EXPECT_GE(last, *first + 0.05);
  child->kill();
  ASSERT_TRUE(child->wait(10'000).ok());
  const auto after = child->cpu_seconds();
  ASSERT_FALSE(after.ok());
  EXPECT_EQ(after.error().kind, ErrorKind::kIo);
}

TEST_F(ChildProcessTest, FreePortsCanBeBound) {
  const Result<int> port = free_port();
  ASSERT_TRUE(port.ok());
  EXPECT_GT(*port, 1023);
  EXPECT_LT(*port, 65'536);
}

// This test program itself, which its environment tells to start a child and be killed.
TEST_F(ChildProcessTest, KilledParentTakesItsChildrenAlong) {
  if (std::getenv("KVKEEP_TEST_PARENT") != nullptr) {
    const auto child = start_child({.program = "sleep", .arguments = {"60"}, .environment = {}, .output_path = ""});
    std::printf("child=%d;\n", child.value()->id());
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return;
  }
  const auto parent = start({.program = "",
                             .arguments = {"--gtest_filter=ChildProcessTest.KilledParentTakesItsChildrenAlong"},
                             .environment = {{"KVKEEP_TEST_PARENT", "1"},
                                             {"TMPDIR", directory_->path()},
                                             {"GTEST_TOTAL_SHARDS", "1"},  // whichever part of all tests runs here
                                             {"GTEST_SHARD_INDEX", "0"}},
                             .output_path = output_path()});
  std::size_t at = std::string::npos;
  for (int tries = 0; tries < 2'000; ++tries) {
    const std::string text = text_of(output_path());
    if ((at = text.find("child=")) != std::string::npos && text.find(';', at) != std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_NE(at, std::string::npos) << text_of(output_path());
  const int grandchild = std::stoi(text_of(output_path()).substr(at + 6));
  ASSERT_EQ(::kill(grandchild, 0), 0);
  parent->kill();
  ASSERT_TRUE(parent->wait(10'000).ok());
  EXPECT_TRUE(becomes_gone(grandchild));
}

}  // namespace
}  // namespace kvkeep::os
