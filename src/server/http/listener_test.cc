#include "server/http/listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "os/paths.h"
#include "server/http/http_test_fixture.h"

namespace kvkeep::server {
namespace {

class ListenersTest : public testing::Test {
 protected:
  // The host and whether there is a port, of each place; "" is the directory of this test.
  static HttpOptions at(std::vector<std::string> hosts) {
    HttpOptions options;
    options.hosts = std::move(hosts);
    options.port = 0;
    return options;
  }
  std::vector<std::string> opened_hosts(const HttpOptions& options) {
    const auto opened = Listeners::open(io_, options);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    std::vector<std::string> hosts;
    for (const ListeningPlace& place : opened->places()) hosts.push_back(place.host + place.path);
    return hosts;
  }
  std::string path(const std::string& name = "kvkeep.sock") const { return directory_.path() + "/" + name; }

  boost::asio::io_context io_;
  os::TemporaryDirectory directory_ = os::TemporaryDirectory::make("listeners").value();
};

using Hosts = std::vector<std::string>;

TEST_F(ListenersTest, TheDefaultIsTheLoopbackAddress) { EXPECT_EQ(opened_hosts(at({})), Hosts{"127.0.0.1"}); }

TEST_F(ListenersTest, CoveredAddressesAreOpenedOnce) {
  EXPECT_EQ(opened_hosts(at({"127.0.0.1", "127.0.0.1"})), Hosts{"127.0.0.1"});
  EXPECT_EQ(opened_hosts(at({"127.0.0.1", "0.0.0.0", path()})), (Hosts{"0.0.0.0", path()}));
  EXPECT_EQ(opened_hosts(at({"127.0.0.1", "127.0.0.2"})), (Hosts{"127.0.0.1", "127.0.0.2"}));
}

TEST_F(ListenersTest, AFreePortIsTheSameAtAllAddresses) {
  const auto opened = Listeners::open(io_, at({"127.0.0.1", path(), "127.0.0.2", "127.0.0.3"}));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  std::map<int, int> ports;
  for (const ListeningPlace& place : opened->places()) ++ports[place.port];
  EXPECT_EQ(ports.size(), 2U);  // 0 for the Unix socket
  EXPECT_EQ(ports.rbegin()->second, 3);
}

TEST_F(ListenersTest, OneAddressThatCannotBeOpenedClosesAll) {
  ASSERT_FALSE(Listeners::open(io_, at({path(), "192.0.2.1"})).ok());
  struct stat info{};
  EXPECT_NE(::stat(path().c_str(), &info), 0) << "the socket's file is still there";
}

TEST_F(ListenersTest, UnixSocketsServeWhateverHostTheirClientsName) {
  HttpOptions options = at({path()});
  options.api_keys = {"key"};
  const TestServer server(options, add_common_routes);
  const std::string secret = "GET /secret HTTP/1.1\r\n";
  const std::string with_key = secret + "Authorization: Bearer key\r\n";
  EXPECT_EQ(RawClient(path()).ask(with_key + "Host: model-runner.docker.internal\r\n\r\n").status, 200);
  EXPECT_EQ(RawClient(path()).ask(with_key + "\r\n").status, 200);
  EXPECT_EQ(RawClient(path()).ask(secret + "Host: localhost\r\n\r\n").status, 401) << "keys count here, too";
  // A page that a proxy lets through.
  const std::string origin = "Host: evil.example\r\nOrigin: http://evil.example\r\n\r\n";
  EXPECT_EQ(RawClient(path()).ask(with_key + origin).status, 403);
}

TEST_F(ListenersTest, ServesAllPlacesAndRemovesItsFile) {
  {
    TestServer server(at({"127.0.0.1", path(), path("other.sock")}), add_common_routes);
    EXPECT_EQ(server.client().ask(get("/health")).status, 200);
    for (const std::string& place : {path(), path("other.sock")}) {
      RawClient client(place);
      EXPECT_EQ(client.ask(get("/health")).status, 200);
      EXPECT_EQ(client.ask(post("/echo", std::string(300'000, 'x'))).body, R"({"query":"","size":300000})");
      EXPECT_EQ(client.ask(get("/stream")).body, "data: 1\n\ndata: 2\n\n");
    }
    EXPECT_TRUE(server->stop(1'000));
    EXPECT_FALSE(RawClient(path()).connected());
  }
  struct stat info{};
  EXPECT_NE(::stat(path().c_str(), &info), 0);
}

TEST_F(ListenersTest, ASocketInUseIsBusy) {
  const auto first = Listeners::open(io_, at({path()}));
  ASSERT_TRUE(first.ok());
  const auto second = Listeners::open(io_, at({path()}));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kBusy);
}

TEST_F(ListenersTest, PassedSocketsAreServedInsteadOfTheDefaultAddress) {
  const int passed = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(passed, plain, size), 0);
  ASSERT_EQ(::listen(passed, 8), 0);
  ASSERT_EQ(::getsockname(passed, plain, &size), 0);
  HttpOptions options;
  options.passed = {{.descriptor = passed, .host = "127.0.0.1", .port = ntohs(address.sin_port)}};
  TestServer server(options, add_common_routes);
  ASSERT_EQ(server->places().size(), 1U);
  EXPECT_EQ(server->port(), ntohs(address.sin_port));
  EXPECT_EQ(RawClient(server->port()).ask(get("/health")).status, 200);
}

}  // namespace
}  // namespace kvkeep::server
