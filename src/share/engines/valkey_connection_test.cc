// Answers of a server that is hostile or broken: each ends within its bounds of time and memory.

#include "share/engines/valkey_connection.h"

#include <gtest/gtest.h>

#include "share/engines/engine_fixture.h"

namespace kvkeep::share {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

// The double of testing/share, a program of Python.
class ValkeyDouble {
 public:
  explicit ValkeyDouble(const std::string& answer, const std::string& endless = "") {
    const std::string file = folder_.path() + "/port";
    auto child = os::start_child(
        {.program = "python3",
         .arguments = {"-B", KVKEEP_TESTING "/share/valkey_double.py", "--port-file", file, answer, endless},
         .environment = {},
         .output_path = folder_.path() + "/log"});
    EXPECT_TRUE(child.ok());
    child_ = std::move(*child);
    EXPECT_TRUE(os::wait_until(20'000, [&] { return std::filesystem::exists(file); }));
    std::ifstream(file) >> port_;
  }
  // Returns the answer to one command.
  Result<ValkeyReply> ask(std::size_t most_bytes = kMostBytes, std::int64_t patience_ms = 60'000) const {
    TRY_ASSIGN(const auto connection, open());
    return connection->receive(most_bytes, in_ms(patience_ms));
  }
  Status ask_for_text(std::size_t size, const TransferLimits& limits) const {
    TRY_ASSIGN(const auto connection, open());
    const auto out = std::make_unique_for_overwrite<std::byte[]>(size);  // memory that is not written takes no room
    return connection->receive_into({out.get(), size}, [](std::size_t) {}, limits);
  }

  Status open_with_tls(std::int64_t patience_ms) const {
    const ValkeyAccess access{.tls = true};
    TRY(ValkeyConnection::open("127.0.0.1", {"127.0.0.1", port_}, access, os::real_clock(), in_ms(patience_ms)));
    return {};
  }

 private:
  Result<std::unique_ptr<ValkeyConnection>> open() const {
    TRY_ASSIGN(auto connection,
               ValkeyConnection::open("127.0.0.1", {"127.0.0.1", port_}, {}, os::real_clock(), soon()));
    connection->queue({"GET", "x"});
    TRY(connection->send(soon()));
    return connection;
  }

  os::TemporaryDirectory folder_ = *os::TemporaryDirectory::make("kvkeep-valkey-double-");
  std::unique_ptr<os::ChildProcess> child_;
  int port_ = 0;
};

TEST(ValkeyConnectionTest, ListsAsClustersTellThemAreRead) {
  // Each slot's range by itself, and each with three servers.
  const std::string server = "*4\\r\\n$9\\r\\n127.0.0.1\\r\\n:6379\\r\\n$3\\r\\nabc\\r\\n*0\\r\\n";
  const ValkeyDouble plain("*2\\r\\n*3\\r\\n:0\\r\\n:1\\r\\n" + server + "*3\\r\\n:2\\r\\n:3\\r\\n" + server);
  const auto reply = plain.ask();
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  ASSERT_EQ(reply->list.size(), 2U);
  EXPECT_EQ(reply->list[1].list[2].list[1].number, 6379);
  const ValkeyDouble large("*16384\\r\\n", "*5\\r\\n:0\\r\\n:1\\r\\n" + server + server + server);
  const auto slots = large.ask(8 << 20);
  ASSERT_TRUE(slots.ok()) << slots.error().message;
  EXPECT_EQ(slots->list.size(), 16'384U);
}

TEST(ValkeyConnectionTest, ASizeAloneReservesNothing) {
  for (const char* list : {"*4294967295\\r\\n", "*600000\\r\\n", "%300000\\r\\n", "~4294967295\\r\\n"}) {
    EXPECT_EQ(ValkeyDouble(list).ask().error().kind, ErrorKind::kDamaged) << list;
  }
}

TEST(ValkeyConnectionTest, ListsInListsAreBoundedTogether) {
  EXPECT_EQ(ValkeyDouble("*400000\\r\\n", "*400000\\r\\n").ask().error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(ValkeyDouble("*500000\\r\\n", "*2\\r\\n:1\\r\\n:1\\r\\n").ask(64 << 20).error().kind, ErrorKind::kDamaged);
}

TEST(ValkeyConnectionTest, ListsInListsEndAtADepth) {
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "*1\\r\\n";
  EXPECT_FALSE(ValkeyDouble(deep + ":1\\r\\n").ask().ok());
  EXPECT_EQ(ValkeyDouble("", "*1\\r\\n").ask().error().kind, ErrorKind::kDamaged);
}

TEST(ValkeyConnectionTest, BytesThatWereReadCount) {
  const auto reply = ValkeyDouble("*500000\\r\\n", ":1\\r\\n").ask(1000);
  EXPECT_EQ(reply.error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(reply.error().message, "an answer is too long");
}

// It never waits, as bytes are always there.
TEST(ValkeyConnectionTest, AnAnswerThatFlowsForEverEndsAtTheDeadline) {
  const std::size_t large = std::size_t{512} << 20;
  const ValkeyDouble text("$536870912\\r\\n", "x");
  const auto reply = text.ask(large, 50);
  EXPECT_EQ(reply.error().kind, ErrorKind::kIo) << reply.error().message;
  EXPECT_EQ(text.ask_for_text(large, in_ms(50)).error().kind, ErrorKind::kIo);
}

// The system's certificates take a few milliseconds to read.
TEST(ValkeyConnectionTest, AHandshakeThatHangsTakesNoProcessor) {
  const ValkeyDouble server("--silent");
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  const std::int64_t used_ns = os::thread_cpu_ns();
  const Error error = server.open_with_tls(2'000).error();
  EXPECT_EQ(error.kind, ErrorKind::kIo);
  EXPECT_NE(error.message.find("TLS"), std::string::npos) << error.message;
  EXPECT_GE(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 1'990);
  EXPECT_LT(os::elapsed_ms(used_ns, os::thread_cpu_ns()), 50) << "a busy machine gives a loop little more";
}

// Whether it stops before a payload or in its middle: a long deadline is not waited for.
TEST(ValkeyConnectionTest, AnAnswerOfWhichNoMoreComesIsGivenUp) {
  for (const char* begin : {"$1", "$1000\\r\\n", "$1000\\r\\nabc"}) {
    SCOPED_TRACE(begin);
    const ValkeyDouble server(begin);
    const std::int64_t from_ns = os::real_clock().monotonic_ns();
    EXPECT_EQ(server.ask_for_text(1000, {soon(), 100'000'000}).error().kind, ErrorKind::kIo);
    EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 20'000);
  }
}

}  // namespace
}  // namespace kvkeep::share
