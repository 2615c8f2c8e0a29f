#include "os/network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>

namespace kvkeep::os {
namespace {

TEST(OwnAddresses, AreNumbersThatOthersCanUse) {
  bool wide_ones = false;
  for (const std::string& address : own_addresses()) {
    in_addr narrow{};
    in6_addr wide{};
    const bool is_narrow = ::inet_pton(AF_INET, address.c_str(), &narrow) == 1;
    EXPECT_TRUE(is_narrow || ::inet_pton(AF_INET6, address.c_str(), &wide) == 1) << address;
    EXPECT_FALSE(is_narrow && wide_ones) << "those of four bytes come first";
    wide_ones |= !is_narrow;
    EXPECT_FALSE(address.starts_with("127.") || address == "::1" || address.starts_with("fe80:")) << address;
  }
}

TEST(TryToConnect, SaysWhetherSomethingListens) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  const Status before = try_to_connect("127.0.0.1", port, 1'000);
  ASSERT_FALSE(before);
  EXPECT_NE(before.error().message.find("127.0.0.1:" + std::to_string(port) + ": "), std::string::npos);
  ASSERT_EQ(::listen(socket, 1), 0);
  EXPECT_TRUE(try_to_connect("localhost", port, 1'000));
  ::close(socket);
  EXPECT_FALSE(try_to_connect("no such host", port, 1'000));
}

TEST(Network, HostsHaveAddresses) {
  for (const char* address : {"127.0.0.1", "::1", "fe80::abcd"}) EXPECT_TRUE(is_address(address)) << address;
  for (const char* name : {"localhost", "db", "cafe", "ada.de", "127.0.0", "1:2", ""})
    EXPECT_FALSE(is_address(name)) << name;
  EXPECT_EQ(*resolve_host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*resolve_host("::1"), "::1");
  ASSERT_TRUE(resolve_host("localhost").ok());
  EXPECT_EQ(resolve_host("no-such-host.invalid").error().kind, ErrorKind::kIo);
}

// A search that hangs is not begun again and again: each would be a thread.
TEST(HostResolver, ANameServerThatHangsIsWaitedForSoLongOnly) {
  struct Server {
    std::atomic<int> asked = 0;
    std::promise<void> answers;
    std::shared_future<void> answered = answers.get_future().share();
  };
  const auto server = std::make_shared<Server>();
  HostResolver resolver([server](const std::string& host) -> Result<std::string> {
    ++server->asked;
    server->answered.wait();
    return "10.0.0." + std::to_string(host.size());
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(resolver.resolve("abc", 5).error().kind, ErrorKind::kBusy);
  EXPECT_EQ(resolver.resolve("127.0.0.1", 0).value(), "127.0.0.1") << "nobody has to be asked";
  server->answers.set_value();
  EXPECT_EQ(resolver.resolve("abc", 20'000).value(), "10.0.0.3");
  EXPECT_EQ(server->asked, 1);
  EXPECT_EQ(resolver.resolve("abc", 20'000).value(), "10.0.0.3");
  EXPECT_EQ(server->asked, 2) << "an address may change";
}

}  // namespace
}  // namespace kvkeep::os
