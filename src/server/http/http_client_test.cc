#include "server/http/http_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "os/clock.h"
#include "os/executor.h"
#include "os/threads.h"
#include "server/http/http_test_fixture.h"

namespace kvkeep::server {
namespace {

// Routes that answer as the tests need.
void add_routes(HttpServer& server) {
  server.route("POST", "/echo", [](const HttpRequest& request, ResponseWriter& writer) {
    writer.send(200, "text/plain", request.body, {{"X-Type", std::string(request.header("Content-Type"))}});
  });
  server.route("GET", "/query", [](const HttpRequest& request, ResponseWriter& writer) {
    writer.send(200, "text/plain", request.query + "|" + std::string(request.header("X-Session")));
  });
  server.route("GET", "/prefix/query", [](const HttpRequest& /*request*/, ResponseWriter& writer) {
    writer.send(200, "text/plain", "prefixed");
  });
  server.route("POST", "/refuse", [](const HttpRequest& /*request*/, ResponseWriter& writer) {
    writer.send(429, "application/json", "{\"error\":\"busy\"}");
  });
  server.route("GET", "/large", [](const HttpRequest& /*request*/, ResponseWriter& writer) {
    writer.begin_stream(200, "text/plain");
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 65 && writer.write(piece); ++i) {}
    writer.end();
  });
  server.route("GET", "/silent", [](const HttpRequest& request, ResponseWriter& writer) {
    writer.begin_stream(200, "text/plain");
    writer.write("one");
    while (!request.client_gone() && !request.stopping()) {}
    writer.end();
  });
  server.route("GET", "/cut", [](const HttpRequest& /*request*/, ResponseWriter& writer) {
    writer.begin_stream(200, "text/plain");
    writer.write("half");
    throw std::runtime_error("cut");
  });
}

// Returns a socket that listens on a free port.
int listen_on_loopback(int& port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::listen(socket, 8);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return socket;
}

class HttpClientTest : public testing::Test {
 protected:
  std::string url(const std::string& path = "") const {
    return "http://127.0.0.1:" + std::to_string(server_->port()) + path;
  }
  HttpClient client(const std::string& path = "") const { return HttpClient::make(url(path)).value(); }
  static ClientRequest get_request(const std::string& path) {
    return {.method = "GET", .path = path, .headers = {}, .body = {}};
  }
  static ClientRequest post_request(const std::string& path, const std::string& body) {
    return {.method = "POST", .path = path, .headers = {}, .body = body};
  }

  mutable TestServer server_{HttpOptions{}, add_routes};
};

TEST_F(HttpClientTest, AddressesThatCannotBeUsedAreRefused) {
  for (const char* bad :
       {"", "127.0.0.1:8080", "https://host", "ftp://host", "http://", "http://host:0", "http://host:x",
        "http://host:99999", "http://a b", "http://user@host", "http://[::1", "http://h\r\nX: y"}) {
    const auto made = HttpClient::make(bad);
    ASSERT_FALSE(made.ok()) << bad;
    EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
  }
  for (const char* good : {"http://localhost", "http://127.0.0.1:8080/", "http://[::1]:8080/v1"}) {
    EXPECT_TRUE(HttpClient::make(good).ok()) << good;
  }
}

// The reply has the length of a body that does not come.
TEST_F(HttpClientTest, TheReplyToAHeadEndsWithItsHead) {
  HttpClient http = client();
  for (const char* path : {"/query", "/nowhere", "/query"}) {
    ClientRequest request{.method = "HEAD", .path = path, .headers = {}, .body = {}};
    request.silence_ms = 2'000;
    const auto reply = http.send(request);
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->first.status, path == std::string("/query") ? 200 : 404);
    EXPECT_EQ(reply->second, "");
  }
  const auto next = http.send(get_request("/query?a"));
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_EQ(next->second, "a|");
}

TEST_F(HttpClientTest, BodiesOfEverySizeArriveWhole) {
  HttpClient http = client();
  for (const std::size_t size : {0UL, 1UL, 1'023UL, 1'024UL, 100'000UL, 20UL << 20}) {
    const std::string body(size, 'b');
    const auto reply = http.send(post_request("/echo", body));
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->first.status, 200);
    EXPECT_TRUE(reply->second == body) << size;
  }
}

TEST_F(HttpClientTest, FieldsAndQueryAreSentAsGiven) {
  ClientRequest request = get_request("/query?z=%22b&c&a=1");
  request.headers = {{"X-Session", "s 1"}};
  const auto reply = client().send(request);
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->second, "z=%22b&c&a=1|s 1");
}

TEST_F(HttpClientTest, ContentTypeIsJsonUnlessNamed) {
  ClientRequest request = post_request("/echo", "{}");
  const auto type = [](const ClientReply& reply) {
    HttpRequest fields;
    fields.headers = reply.headers;
    return std::string(fields.header("x-type"));
  };
  EXPECT_EQ(type(client().send(request).value().first), "application/json");
  request.headers = {{"content-type", "text/plain"}};
  EXPECT_EQ(type(client().send(request).value().first), "text/plain");
}

TEST_F(HttpClientTest, PathOfTheAddressComesFirst) {
  EXPECT_EQ(client("/prefix/").send(get_request("/query")).value().second, "prefixed");
}

TEST_F(HttpClientTest, PathsThatWouldBreakTheHeadAreRefused) {
  for (const char* path : {"query", "/a b", "/a\r\nX: y"}) {
    const auto reply = client().send(get_request(path));
    ASSERT_FALSE(reply.ok()) << path;
    EXPECT_EQ(reply.error().kind, ErrorKind::kInvalid);
  }
  ClientRequest request = get_request("/query");
  request.headers = {{"X-Session", "a\r\nX-Other: b"}};
  const auto reply = client().send(request);
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::kInvalid);
}

TEST_F(HttpClientTest, RefusalsAreReplies) {
  const auto reply = client().send(post_request("/refuse", "{}"));
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->first.status, 429);
  EXPECT_EQ(reply->second, "{\"error\":\"busy\"}");
}

TEST_F(HttpClientTest, PiecesArriveWhenTheyAreSent) {
  std::atomic<int> seen{0};
  TestServer stepwise(HttpOptions{}, [&](HttpServer& server) {
    server.route("POST", "/stream", [&](const HttpRequest& request, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
      for (int piece = 1; piece <= 3; ++piece) {
        writer.write("piece " + std::to_string(piece) + "\n");
        while (seen < piece && !request.stopping()) {}  // the next piece only after the client has this one
      }
      writer.end();
    });
  });
  HttpClient http = HttpClient::make(stepwise->address()).value();
  int status = 0;
  std::string body;
  const auto reply = http.send(
      post_request("/stream", std::string(5'000, 'q')), [&](int told) { status = told; },
      [&](std::string_view bytes) {
        EXPECT_EQ(status, 200);
        body += bytes;
        seen = static_cast<int>(std::ranges::count(body, '\n'));
        return true;
      });
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(body, "piece 1\npiece 2\npiece 3\n");
}

TEST_F(HttpClientTest, GivingUpIsAborted) {
  HttpClient http = client();
  const auto reply = http.send(get_request("/silent"), [](int) {}, [](std::string_view) { return false; });
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::kAborted);
  EXPECT_EQ(http.send(post_request("/echo", "again")).value().second, "again");
}

TEST_F(HttpClientTest, SilenceHasALimit) {
  ClientRequest request = get_request("/silent");
  request.silence_ms = 100;
  const auto reply = client().send(request);
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::kIo);
  EXPECT_NE(reply.error().message.find("sent nothing for 0.1 s"), std::string::npos) << reply.error().message;
}

// A server that answers each connection with the same bytes again and again, until its client leaves.
class EndlessServer {
 public:
  EndlessServer(std::string first, std::string again) : first_(std::move(first)), again_(std::move(again)) {
    thread_->post([this] { serve(); });
  }
  ~EndlessServer() {
    thread_->drain();
    ::close(socket_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void serve() const {
    constexpr std::chrono::milliseconds kPause{1};
    const int client = ::accept(socket_, nullptr, nullptr);
    char buffer[4'096];
    static_cast<void>(::recv(client, buffer, sizeof buffer, 0));
    const auto send = [&](const std::string& bytes) {
      return ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
    };
    for (bool goes_on = send(first_); goes_on; goes_on = send(again_)) os::pause(kPause);
    ::close(client);
  }

  const std::string first_;
  const std::string again_;
  int port_ = 0;
  const int socket_ = listen_on_loopback(port_);
  std::unique_ptr<os::Executor> thread_ = os::make_thread_executor("endless");
};

// The request ends, whatever comes and for however long.
TEST_F(HttpClientTest, RepliesWithoutAnEndAreErrors) {
  struct Case {
    std::string first;
    std::string again;
    const char* part;  // of the message
  };
  const auto many = [](const std::string& reply) {
    std::string replies;
    for (int i = 0; i < 200; ++i) replies += reply;
    return replies;
  };
  const std::vector<Case> cases = {
      {many("HTTP/1.1 100 Continue\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n", "interim replies"},
      {many("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"), "HTTP/1.1 103 Early Hints\r\n\r\n", "interim replies"},
      {"HTTP/1.1 200 OK\r\nX-Long: ", "a", ""},
      {"HTTP/1.1 200 OK\r\n", "X-A: a\r\n", ""},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", ""},
      {"HTTP/1.1 200 OK\r\n\r\n", "a", ""},
  };
  for (const Case& one : cases) {
    EndlessServer server(one.first, one.again);
    ClientRequest request = get_request("/");
    request.silence_ms = 1'000;
    HttpClient http = HttpClient::make(server.url()).value();
    const auto reply = http.send(request);
    ASSERT_FALSE(reply.ok()) << one.first << one.again;
    EXPECT_EQ(reply.error().kind, ErrorKind::kIo);
    EXPECT_NE(reply.error().message.find(one.part), std::string::npos) << reply.error().message;
  }
}

TEST_F(HttpClientTest, BrokenRepliesAreErrors) {
  const auto reply = client().send(get_request("/cut"));
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::kIo);
  EXPECT_NE(reply.error().message.find("broke"), std::string::npos) << reply.error().message;
}

// A server of one reply per connection that does not announce it: the next request meets a closing connection.
class ForgetfulServer {
 public:
  explicit ForgetfulServer(int connections) {
    thread_->post([this, connections] {
      for (int i = 0; i < connections; ++i) serve_one();
    });
  }
  ~ForgetfulServer() {
    thread_->drain();
    ::close(socket_);
  }
  int port() const { return port_; }

 private:
  void serve_one() const {
    const int client = ::accept(socket_, nullptr, nullptr);
    char buffer[4'096];
    if (::recv(client, buffer, sizeof buffer, 0) > 0) {
      constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
      ::send(client, kReply.data(), kReply.size(), MSG_NOSIGNAL);
      // Takes the next request and closes the connection on it.
      static_cast<void>(::recv(client, buffer, sizeof buffer, 0));
    }
    ::close(client);
  }

  int port_ = 0;
  const int socket_ = listen_on_loopback(port_);
  std::unique_ptr<os::Executor> thread_ = os::make_thread_executor("forgetful");
};

TEST_F(HttpClientTest, ConnectionThatClosedMeanwhileIsMadeAgain) {
  ForgetfulServer server(3);
  HttpClient http = HttpClient::make("http://127.0.0.1:" + std::to_string(server.port())).value();
  for (int request = 0; request < 3; ++request) {
    const auto reply = http.send(post_request("/", "{}"));
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->second, "ok");
  }
}

TEST_F(HttpClientTest, AMissingServerIsAnError) {
  int port = 0;
  {
    TestServer gone(HttpOptions{}, [](HttpServer&) {});
    port = gone->port();
  }
  const auto reply = HttpClient::make("http://127.0.0.1:" + std::to_string(port)).value().send(get_request("/query"));
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::kIo);
  EXPECT_NE(reply.error().message.find("no connection to 127.0.0.1"), std::string::npos) << reply.error().message;
}

TEST_F(HttpClientTest, HugeRepliesAreRefused) {
  const auto reply = client().send(get_request("/large"));
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::kNoSpace);
}

TEST_F(HttpClientTest, StopEndsTheRequestUnderWayAndLaterOnes) {
  HttpClient http = client();
  const auto stopper = os::make_thread_executor("stopper");
  const auto reply = http.send(
      get_request("/silent"), [](int) {},
      [&](std::string_view) {
        stopper->post([&] { http.stop(); });
        return true;
      });
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::kAborted);
  const auto later = http.send(get_request("/query"));
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().kind, ErrorKind::kAborted);
}

// A client that asks before it sends a long body loses a second with servers that do not answer the question.
TEST_F(HttpClientTest, LongBodiesAreSentWithoutAsking) {
  std::atomic<bool> asked{false};
  TestServer server(HttpOptions{}, [&](HttpServer& routes) {
    routes.route("POST", "/", [&](const HttpRequest& request, ResponseWriter& writer) {
      asked = !request.header("Expect").empty();
      writer.send(200, "text/plain", "ok");
    });
  });
  ASSERT_TRUE(HttpClient::make(server->address()).value().send(post_request("/", std::string(1 << 16, 'x'))).ok());
  EXPECT_FALSE(asked);
}

}  // namespace
}  // namespace kvkeep::server
