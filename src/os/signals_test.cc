#include "os/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "os/child_process.h"
#include "os/temporary_directory.h"

namespace kvkeep::os {
namespace {

// This very program as a child: signals go to a process of their own.
std::unique_ptr<ChildProcess> start_self(const std::string& test, const std::string& directory) {
  ChildProcessOptions options;
  options.arguments = {"--gtest_filter=" + test};
  options.environment = {{"KVKEEP_TEST_SIGNALS", "1"}, {"TMPDIR", directory}};
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

// Waits until the second call of on_signal, holding a temporary directory.
int run_until_signal() {
  std::atomic<int> calls{0};
  const SignalWatch watch([&] { ++calls; });
  const auto directory = TemporaryDirectory::make("held-");
  say_ready();
  for (int tries = 0; tries < 4'000 && calls < 2; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return calls < 2 ? 1 : watch.exit_status();
}

TEST(SignalWatchTest, UnwindsAndTellsTheStatus) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) std::exit(run_until_signal());
  const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
  for (const int number : {SIGINT, SIGTERM}) {
    const auto child = start_self("SignalWatchTest.UnwindsAndTellsTheStatus", directory.path());
    ::kill(child->id(), number);
    const auto end = child->wait(30'000);
    ASSERT_TRUE(end.ok()) << end.error().message;
    EXPECT_EQ(end->exit_code, 128 + number);
    EXPECT_EQ(end->signal, 0);
  }
  EXPECT_EQ(::rmdir(directory.path().c_str()), -1);  // the output is there
  ASSERT_EQ(::unlink((directory.path() + "/output").c_str()), 0);
  EXPECT_EQ(::rmdir(directory.path().c_str()), 0) << "something was left behind";
}

TEST(SignalWatchTest, SecondSignalEndsAtOnce) {
  if (std::getenv("KVKEEP_TEST_SIGNALS") != nullptr) {
    const SignalWatch watch([] {});
    say_ready();
    while (watch.exit_status() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::seconds(60));
  }
  const auto directory = TemporaryDirectory::make("kvkeep-signals-").value();
  const auto child = start_self("SignalWatchTest.SecondSignalEndsAtOnce", directory.path());
  ::kill(child->id(), SIGTERM);
  // Sent until it ends: the first two may come so close together that they are one.
  for (int tries = 0; tries < 200 && !child->ended(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(child->id(), SIGINT);
  }
  const auto end = child->wait(1'000);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->exit_code, 130);
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
