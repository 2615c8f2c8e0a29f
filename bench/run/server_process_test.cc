#include "bench/run/server_process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "bench/run/count_shim.h"
#include "os/executor.h"
#include "os/paths.h"
#include "server/http/http_client.h"

namespace kvkeep::bench {
namespace {

namespace fs = std::filesystem;

// A server in a few lines of shell and Python: --host A --port N are its last arguments.
constexpr char kHealthy[] =
    "import http.server, sys, os\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers(); "
    "self.wfile.write(b'ok')\n"
    "print('shim', os.environ['LD_PRELOAD'], flush=True)\n"
    "http.server.HTTPServer((sys.argv[-3], int(sys.argv[-1])), Handler).serve_forever()\n";

class ServerProcessTest : public testing::Test {
 protected:
  void SetUp() override { directory_.emplace(os::TemporaryDirectory::make("kvkeep-server-").value()); }
  const std::string& directory() const { return directory_->path(); }
  static ServerCommand python(const std::string& script) {
    return {.name = "mock", .program = "python3", .arguments = {"-c", script}};
  }
  static bool answers(const ServerProcess& server) {
    auto http = server::HttpClient::make(server.base_url()).value();
    return http.send({.method = "GET", .path = "/", .headers = {}, .body = {}}).ok();
  }

  std::optional<os::TemporaryDirectory> directory_;
  Interrupt interrupt_;
};

TEST_F(ServerProcessTest, ShimIsASharedLibrary) {
  ASSERT_GT(count_shim().size(), 1'000U);
  const std::string magic(reinterpret_cast<const char*>(count_shim().data()), 4);
  EXPECT_EQ(magic,
            "\x7f"
            "ELF");
}

TEST_F(ServerProcessTest, StartsKillsAndStartsAgain) {
  ServerProcess server(python(kHealthy), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  EXPECT_TRUE(answers(server));
  EXPECT_EQ(server.death(), "");
  EXPECT_TRUE(fs::exists(directory() + "/mock.shim.so"));
  EXPECT_EQ(server.log().find("shim " + directory() + "/mock.shim.so\n"), 0U) << server.log();
  const int first = server.id();
  const std::string url = server.base_url();
  ASSERT_TRUE(server.restart_after_kill().ok());
  EXPECT_NE(server.id(), first);
  EXPECT_EQ(server.base_url(), url);
  EXPECT_TRUE(answers(server));
  EXPECT_GT(server.cpu_seconds().value(), 0);
}

TEST_F(ServerProcessTest, CountIsKeptOverRestartsWithoutWarmUp) {
  // Counts 100 ids before it is ready and 7 more per request.
  const std::string counting = std::string(
      "import os, struct\ncount = 100\n"
      "def save():\n"
      "    open(os.environ['KVKEEP_COUNT_FILE'], 'wb').write(struct.pack('<QQ', count, 1))\n"
      "save()\n"
      "import http.server, sys\n"
      "class Handler(http.server.BaseHTTPRequestHandler):\n"
      "    def do_GET(self):\n"
      "        global count\n"
      "        if self.path == '/': count += 7; save()\n"
      "        self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()\n"
      "http.server.HTTPServer((sys.argv[-3], int(sys.argv[-1])), Handler).serve_forever()\n");
  ServerProcess server(python(counting), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  EXPECT_EQ(server.decoded_ids(), 0U);
  EXPECT_TRUE(answers(server));
  EXPECT_EQ(server.decoded_ids(), 7U);
  ASSERT_TRUE(server.restart_after_kill().ok());
  EXPECT_EQ(server.decoded_ids(), 7U);
  EXPECT_TRUE(answers(server));
  EXPECT_EQ(server.decoded_ids(), 14U);
}

TEST_F(ServerProcessTest, CpuTimeIsKeptOverRestartsWithoutThatOfStarting) {
  const std::string burning = std::string(
      "import http.server, sys, time\n"
      "def burn(seconds):\n"
      "    end = time.process_time() + seconds\n"
      "    while time.process_time() < end: pass\n"
      "burn(0.5)\n"
      "class Handler(http.server.BaseHTTPRequestHandler):\n"
      "    def do_GET(self):\n"
      "        if self.path == '/': burn(0.1)\n"
      "        self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()\n"
      "http.server.HTTPServer((sys.argv[-3], int(sys.argv[-1])), Handler).serve_forever()\n");
  ServerProcess server(python(burning), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  EXPECT_GT(server.cpu_seconds().value(), 0.5);
  EXPECT_LT(server.served_cpu_seconds().value(), 0.1);
  EXPECT_TRUE(answers(server));
  const double one_s = server.served_cpu_seconds().value();
  EXPECT_GT(one_s, 0.1);
  EXPECT_LT(one_s, 0.4);
  ASSERT_TRUE(server.restart_after_kill().ok());
  EXPECT_GE(server.served_cpu_seconds().value(), one_s);
  EXPECT_LT(server.served_cpu_seconds().value(), one_s + 0.4);
  EXPECT_TRUE(answers(server));
  EXPECT_GT(server.served_cpu_seconds().value(), 0.2);
}

// A server that notes its process id, started by a shell that is no server itself.
class WrappedServerTest : public ServerProcessTest {
 protected:
  ServerCommand wrapped(const std::string& more = {}) const {
    const std::string noting = "import os\nopen('" + ids_path() + "', 'a').write('%d\\n' % os.getpid())\n";
    const std::string quoted = "python3 -c \"$0\" \"$@\"; echo over";
    return {.name = "mock", .program = "sh", .arguments = {"-c", quoted, noting + more + kHealthy}};
  }
  std::string ids_path() const { return ids_directory_.path() + "/ids"; }
  std::vector<int> ids() const {
    std::ifstream file(ids_path());
    return {std::istream_iterator<int>(file), {}};
  }
  // A zombie counts as dead.
  static bool runs(int id) {
    std::ifstream file("/proc/" + std::to_string(id) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return !text.empty() && text[text.rfind(')') + 2] != 'Z' && text[text.rfind(')') + 2] != 'X';
  }
  static bool ends(int id) {
    for (int tries = 0; tries < 2'000 && runs(id); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return !runs(id);
  }

  os::TemporaryDirectory ids_directory_ = os::TemporaryDirectory::make("kvkeep-ids-").value();
};

TEST_F(WrappedServerTest, IsKilledStartedAgainAndStoppedWithItsWrapper) {
  ServerProcess server(wrapped(), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  ASSERT_EQ(ids().size(), 1U);
  EXPECT_NE(ids().front(), server.id());
  const Status again = server.restart_after_kill();
  ASSERT_TRUE(again.ok()) << again.error().message;
  ASSERT_EQ(ids().size(), 2U) << server.log();
  EXPECT_TRUE(ends(ids().front()));
  EXPECT_TRUE(answers(server));
  const Status stopped = server.stop();
  EXPECT_TRUE(stopped.ok()) << stopped.error().message;
  EXPECT_TRUE(ends(ids().back()));
}

TEST_F(WrappedServerTest, EndsWithItsObject) {
  {
    ServerProcess server(wrapped(), directory(), interrupt_);
    ASSERT_TRUE(server.start().ok());
    EXPECT_TRUE(runs(ids().front()));
  }
  EXPECT_TRUE(ends(ids().front()));
}

TEST_F(WrappedServerTest, ThatOutlivesAllItsLimitsIsReported) {
  // It leaves the group, as a daemon does.
  const std::string leaving = "os.setsid()\n";
  {
    ServerProcess server(wrapped(leaving), directory(), interrupt_);
    ASSERT_TRUE(server.start().ok());
    const Status stopped = server.stop(100);
    ASSERT_FALSE(stopped.ok());
    EXPECT_NE(stopped.error().message.find("another process still listens"), std::string::npos)
        << stopped.error().message;
  }
  ASSERT_EQ(ids().size(), 1U);
  ::kill(ids().front(), SIGKILL);
}

TEST_F(ServerProcessTest, WorkBeforeARestartedServerIsReadyCounts) {
  // Counts 100 ids at its first start and 130 at later ones.
  const std::string counting =
      std::string(
          "import os, struct\n"
          "marker = os.environ['KVKEEP_COUNT_FILE'] + '.started'\n"
          "count = 130 if os.path.exists(marker) else 100\n"
          "open(marker, 'w')\n"
          "open(os.environ['KVKEEP_COUNT_FILE'], 'wb').write(struct.pack('<QQ', count, 1))\n") +
      kHealthy;
  ServerProcess server(python(counting), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  EXPECT_EQ(server.decoded_ids(), 0U);
  EXPECT_TRUE(server.is_counted());
  ASSERT_TRUE(server.restart_after_kill().ok());
  EXPECT_EQ(server.decoded_ids(), 30U);
  ASSERT_TRUE(server.stop().ok());
  EXPECT_EQ(server.decoded_ids(), 30U);
}

TEST_F(ServerProcessTest, ServerThatCallsNoLibraryIsNotCounted) {
  ServerProcess server(python(kHealthy), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  EXPECT_FALSE(server.is_counted());
  EXPECT_EQ(server.decoded_ids(), 0U);
}

TEST_F(ServerProcessTest, VariablesThatWouldChangeTheServerAreCleared) {
  ::setenv("LLAMA_ARG_CTX_SIZE", "77", 1);
  ::setenv("LLAMA_API_KEY", "secret", 1);
  ::setenv("KVKEEP_TEST_HARMLESS", "stays", 1);
  const std::string telling = std::string(
                                  "import os\nprint(os.environ.get('LLAMA_ARG_CTX_SIZE'), "
                                  "os.environ.get('LLAMA_API_KEY'), os.environ['KVKEEP_TEST_HARMLESS'])\n") +
                              kHealthy;
  ServerProcess server(python(telling), directory(), interrupt_);
  const Status started = server.start();
  const std::vector<std::string> cleared = cleared_variables();
  const std::string note = note_on_environment();
  for (const char* name : {"LLAMA_ARG_CTX_SIZE", "LLAMA_API_KEY", "KVKEEP_TEST_HARMLESS"}) ::unsetenv(name);
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(server.log().find("None None stays\n"), 0U) << server.log();
  EXPECT_EQ(std::ranges::count(cleared, "LLAMA_API_KEY") + std::ranges::count(cleared, "LLAMA_ARG_CTX_SIZE"), 2);
  EXPECT_EQ(std::ranges::count(cleared, "KVKEEP_TEST_HARMLESS"), 0);
  EXPECT_EQ(note.find("; without LLAMA_API_KEY, "), 0U) << note;
  EXPECT_NE(note.find("LLAMA_ARG_CTX_SIZE"), std::string::npos) << note;
}

TEST_F(ServerProcessTest, MissingProgramIsNotFound) {
  ServerProcess server({.name = "mock", .program = "kvkeep-has-no-such-program", .arguments = {}}, directory(),
                       interrupt_);
  const Status status = server.start();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kNotFound);
}

TEST_F(ServerProcessTest, ServerThatEndsIsReportedWithItsLastWords) {
  ServerProcess server(python("print('a\\nb\\nc\\nno such model\\nbye', flush=True)\nraise SystemExit(3)"), directory(),
                       interrupt_);
  const Status status = server.start();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kIo);
  EXPECT_EQ(status.error().message, "mock ended with status 3 before it was ready; its log ends: c no such model bye");
}

TEST_F(ServerProcessTest, ServerThatIsNeverReadyHasALimit) {
  ServerCommand command = python("import time\ntime.sleep(60)");
  command.start_limit_ms = 100;
  ServerProcess server(command, directory(), interrupt_);
  const Status status = server.start();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("not ready within 0.1 s"), std::string::npos) << status.error().message;
}

TEST_F(ServerProcessTest, DeathIsReported) {
  ServerProcess server(python(kHealthy), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  ::kill(server.id(), SIGSEGV);
  while (!server.ended()) {}
  EXPECT_EQ(server.death(), "was killed by signal 11");
}

TEST_F(ServerProcessTest, StopIsPoliteFirst) {
  const std::string polite =
      std::string(
          "import signal, sys\n"
          "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))\n") +
      kHealthy;
  ServerProcess server(python(polite), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  const Status stopped = server.stop();
  EXPECT_TRUE(stopped.ok()) << stopped.error().message;
  EXPECT_NE(server.log().find("bye"), std::string::npos);
}

TEST_F(ServerProcessTest, ServerThatDoesNotStopIsKilled) {
  const std::string deaf = std::string("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n") + kHealthy;
  ServerProcess server(python(deaf), directory(), interrupt_);
  ASSERT_TRUE(server.start().ok());
  const Status stopped = server.stop(100);
  ASSERT_FALSE(stopped.ok());
  EXPECT_NE(stopped.error().message.find("did not stop within 0.1 s"), std::string::npos);
  while (!server.ended()) {}
}

TEST_F(ServerProcessTest, InterruptEndsAStart) {
  ServerProcess server(python("import time\ntime.sleep(60)"), directory(), interrupt_);
  const auto raiser = os::make_thread_executor("raiser");
  raiser->post([&] { interrupt_.raise(); });
  const Status status = server.start();
  ASSERT_FALSE(status.ok());
  raiser->drain();
  interrupt_.raise();
  EXPECT_EQ(status.error().kind, ErrorKind::kAborted);
}

}  // namespace
}  // namespace kvkeep::bench
