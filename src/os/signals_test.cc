#include "os/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

#include "os/child_process.h"
#include "os/paths.h"

namespace kvkeep::os {
namespace {

// This program itself as a child: the signals go to another process.
std::unique_ptr<ChildProcess> start_self(const std::string& test, const std::string& directory) {
  ChildProcessOptions options;
  options.arguments = {"--gtest_filter=" + test};
  // The test runs there, whichever part of all tests runs here.
  options.environment = {
      {"KVKEEP_TEST_SIGNALS", "1"}, {"TMPDIR", directory}, {"GTEST_TOTAL_SHARDS", "1"}, {"GTEST_SHARD_INDEX", "0"}};
  options.output_path = directory + "/output";
  ::unlink(options.output_path.c_str());
  auto child = start_child(options);
  EXPECT_TRUE(child.ok());
  for (int tries = 0; tries < 2'000; ++tries) {
    std::ifstream file(options.output_path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find("ready") != std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return std::move(*child);
}

void say_ready() {
  std::printf("ready\n");
  std::fflush(stdout);
}

// Waits until the second call of on_signal, with a temporary directory.
int run_until_signal() {
  std::atomic<int> calls{0};
  const SignalWatch watch([&] { ++calls; });
  const auto directory = TemporaryDirectory::make("held-");
  say_ready();
  for (int tries = 0; tries < 4'000 && calls < 2; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return calls < 2 ? 1 : watch.exit_status();
}

// Checks that the directory has only the child's output left, and removes both.
void expect_only_output(const std::string& directory) {
  ASSERT_EQ(::unlink((directory + "/output").c_str()), 0);
  EXPECT_EQ(::rmdir(directory.c_str()), 0) << "something was left behind";
}

// timeout(1) sends its signal to a process and to its group.
TEST(ServerSignalsTest, OnlyALaterSecondSignalEndsTheProcess) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) {
    ServerSignals signals;
    say_ready();
    signals.wait();
    ::raise(SIGTERM);
    std::printf("still here\n");
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    ::raise(SIGINT);
    std::exit(1);
  }
  const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
  const auto child = start_self("ServerSignalsTest.OnlyALaterSecondSignalEndsTheProcess", directory.path());
  ::kill(child->id(), SIGTERM);
  const auto end = child->wait(30'000);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->exit_code, 130);
  std::ifstream file(directory.path() + "/output");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("still here"), std::string::npos);
}

// No terminal of its own: SIGHUP comes from somebody who wants new log files.
TEST(ServerSignalsTest, HangUpMeansToReopenLogsAndIsNoSecondSignal) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) {
    ::setsid();
    ServerSignals signals;
    say_ready();
    const bool reopens = signals.wait() == Wish::kReopenLogs && !signals.pending();
    ::raise(SIGTERM);
    const bool stops = signals.wait() == Wish::kStop;
    ::raise(SIGHUP);  // a shutdown goes on
    std::exit(reopens && stops ? 42 : 1);
  }
  const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
  const auto child = start_self("ServerSignalsTest.HangUpMeansToReopenLogsAndIsNoSecondSignal", directory.path());
  ::kill(child->id(), SIGHUP);
  const auto end = child->wait(30'000);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->exit_code, 42);
}

TEST(SignalWatchTest, UnwindsAndTellsTheStatus) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) std::exit(run_until_signal());
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
    const auto child = start_self("SignalWatchTest.UnwindsAndTellsTheStatus", directory.path());
    ::kill(child->id(), number);
    const auto end = child->wait(30'000);
    ASSERT_TRUE(end.ok()) << end.error().message;
    EXPECT_EQ(end->exit_code, 128 + number);
    EXPECT_EQ(end->signal, 0);
    expect_only_output(directory.path());
  }
}

TEST(SignalWatchTest, IgnoredSignalsStayIgnored) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) {
    std::signal(SIGHUP, SIG_IGN);  // as nohup does
    std::exit(run_until_signal());
  }
  const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
  const auto child = start_self("SignalWatchTest.IgnoredSignalsStayIgnored", directory.path());
  ::kill(child->id(), SIGHUP);
  EXPECT_FALSE(child->wait(500).ok()) << "it obeyed";
  ::kill(child->id(), SIGTERM);
  const auto end = child->wait(30'000);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->exit_code, 128 + SIGTERM);
}

// A program that does not unwind, with a directory and a child that has a child of its own.
[[noreturn]] void hang(std::chrono::milliseconds patience) {
  const SignalWatch watch([] {}, patience);
  const auto directory = TemporaryDirectory::make("held-").value();
  std::ofstream(directory.path() + "/file") << "text";
  const auto child = start_child({.program = "sh",
                                  .arguments = {"-c", "sleep 60 & echo $!; wait"},
                                  .environment = {},
                                  .output_path = directory.path() + "/ids"});
  int id = 0;
  while (id == 0) std::ifstream(directory.path() + "/ids") >> id;
  std::printf("%d %d\n", (*child)->id(), id);
  say_ready();
  while (true) std::this_thread::sleep_for(std::chrono::seconds(60));
}

// The process that adopts a child may be slow to collect it: a zombie counts as dead.
bool has_ended(int id) {
  const auto state = [id] {
    std::ifstream file("/proc/" + std::to_string(id) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.empty() ? 'X' : text[text.rfind(')') + 2];
  };
  for (int tries = 0; tries < 2'000 && state() != 'Z' && state() != 'X'; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return state() == 'Z' || state() == 'X';
}

void expect_nothing_left(const std::string& directory) {
  std::ifstream output(directory + "/output");
  std::string line;
  while (std::getline(output, line) && line.find_first_not_of("0123456789 ") != std::string::npos) {}
  int child = 0;
  int grandchild = 0;
  std::istringstream(line) >> child >> grandchild;
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(has_ended(child));
  EXPECT_TRUE(has_ended(grandchild));
  expect_only_output(directory);
}

TEST(SignalWatchTest, SecondSignalLeavesAtOnceAndNothingBehind) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) hang(std::chrono::hours(1));
  const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
  const auto child = start_self("SignalWatchTest.SecondSignalLeavesAtOnceAndNothingBehind", directory.path());
  ::kill(child->id(), SIGTERM);
  // Sent until it ends: two that come close together count as one.
  for (int tries = 0; tries < 200 && !child->ended(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(child->id(), SIGINT);
  }
  const auto end = child->wait(1'000);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->exit_code, 128 + SIGTERM);
  expect_nothing_left(directory.path());
}

TEST(SignalWatchTest, PatienceEnds) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) hang(std::chrono::milliseconds(300));
  const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
  const auto child = start_self("SignalWatchTest.PatienceEnds", directory.path());
  ::kill(child->id(), SIGHUP);
  const auto end = child->wait(30'000);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->exit_code, 128 + SIGHUP);
  expect_nothing_left(directory.path());
}

TEST(SignalWatchTest, SignalsDoAfterwardsWhatTheyDidBefore) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) {
    if (run_until_signal() != 128 + SIGINT) std::exit(1);
    ::raise(SIGTERM);
  }
  const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
  const auto child = start_self("SignalWatchTest.SignalsDoAfterwardsWhatTheyDidBefore", directory.path());
  ::kill(child->id(), SIGINT);
  const auto end = child->wait(30'000);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->signal, SIGTERM) << end->exit_code;
}

TEST(SignalWatchTest, WithoutASignalNothingHappens) {
  std::atomic<int> calls{0};
  {
    const SignalWatch watch([&] { ++calls; });
    EXPECT_EQ(watch.exit_status(), 0);
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace kvkeep::os
