// The sizes and the slowness that a client is allowed.

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <vector>

#include "os/threads.h"
#include "server/http/http_test_fixture.h"

namespace kvkeep::server {
namespace {

using nlohmann::json;

TEST(HttpLimits, BodyTooLargeByItsOwnWord) {
  HttpOptions options;
  options.body_bytes_max = 1'000;
  TestServer server(options, add_common_routes);
  RawClient client = server.client();
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n");
  client.send(std::string(100'000, 'x'));
  expect_error(client.read_reply(), 413, "invalid_request_error");
  EXPECT_TRUE(client.closed_within(2'000));
  EXPECT_EQ(json::parse(server.client().ask(post("/echo", std::string(1'000, 'x'))).body)["size"], 1'000);
}

TEST(HttpLimits, BodyTooLargeInChunks) {
  HttpOptions options;
  options.body_bytes_max = 1'000;
  TestServer server(options, add_common_routes);
  RawClient client = server.client();
  const std::string chunk = "190\r\n" + std::string(400, 'x') + "\r\n";
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(json::parse(client.ask(head + chunk + chunk + "0\r\n\r\n").body)["size"], 800);
  client.send(head + chunk + chunk + chunk);
  expect_error(client.read_reply(), 413, "invalid_request_error");
  // Refused because of its announced size.
  expect_error(server.client().ask(head + "ffffffffffffffff\r\n"), 413, "invalid_request_error");
}

// Holds requests to /hold until the test lets go.
class HeldBodies {
 public:
  void add_route(HttpServer& http) {
    add_common_routes(http);
    http.route("POST", "/hold", [this](const HttpRequest& request, ResponseWriter& writer) {
      ++held_;
      while (!released_ && !request.client_gone() && !request.stopping()) ::usleep(1'000);
      writer.send(200, "application/json", "{}");
    });
  }
  bool reached(int count) const {
    const std::int64_t start = os::real_clock().monotonic_ns();
    while (held_ < count && os::elapsed_ms(start, os::real_clock().monotonic_ns()) < 5'000) ::usleep(1'000);
    return held_ >= count;
  }
  bool exceeded(int count) const { return held_ > count; }
  void release() { released_ = true; }

 private:
  std::atomic<int> held_{0};
  std::atomic<bool> released_{false};
};

TEST(HttpLimits, BodiesOfAllConnectionsTogether) {
  HttpOptions options;
  options.body_bytes_max = 1'000;
  options.bodies_bytes_max = 1'500;
  options.limits.room_ms = 50;
  HeldBodies held;
  TestServer server(options, [&](HttpServer& http) { held.add_route(http); });
  RawClient holder = server.client();
  holder.send(post("/hold", std::string(1'000, 'x')));
  ASSERT_TRUE(held.reached(1));
  EXPECT_EQ(server.client().ask(post("/echo", std::string(500, 'x'))).status, 200);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& request :
       {head + "Content-Length: 501\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\n\r\n1f5\r\n" + std::string(501, 'x') + "\r\n0\r\n\r\n"}) {
    const RawReply refused = server.client().ask(request);
    expect_error(refused, 503, "unavailable_error");
    EXPECT_TRUE(refused.has("Retry-After: 1\r\n")) << refused.head;
  }
  const RawReply before_sending = server.client().ask(head + "Content-Length: 501\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(before_sending.status, 503);
  held.release();
  EXPECT_EQ(holder.read_reply().status, 200);
  EXPECT_EQ(server.client().ask(post("/echo", std::string(1'000, 'x'))).status, 200) << "held by an idle connection";
}

// Large bodies that are all being worked on, or wait for that, keep no short request out.
TEST(HttpLimits, LargeBodiesLeaveRoomAndThreadsToSmallOnes) {
  HttpOptions options;
  options.threads = 1;
  options.body_bytes_max = 2 << 20;
  options.bodies_bytes_max = 32 << 20;
  options.limits.room_ms = 50;
  HeldBodies held;
  TestServer server(options, [&](HttpServer& http) { held.add_route(http); });
  const std::string large = post("/hold", std::string(2 << 20, 'x'));
  std::vector<RawClient> holders;
  for (int i = 0; i < 15; ++i) {
    holders.push_back(server.client());
    ASSERT_TRUE(holders.back().send(large));
  }
  ASSERT_TRUE(held.reached(1));
  EXPECT_TRUE(os::wait_until(5'000, [&] { return server.client().ask(large).status == 503; }));
  EXPECT_EQ(server.client().ask(post("/echo", std::string(1 << 20, 'x'))).status, 200);
  held.release();
  for (RawClient& holder : holders) EXPECT_EQ(holder.read_reply().status, 200);
}

// Requests that wait for something keep no other one out, whatever their bodies' sizes.
TEST(HttpLimits, SlowRequestsHaveThreadsOfTheirOwn) {
  HttpOptions options;
  options.threads = 1;
  options.body_bytes_max = 2 << 20;
  HeldBodies held;
  TestServer server(options, [&](HttpServer& http) {
    held.add_route(http);
    http.set_apart([](const HttpRequest& request) {
      return Lane{request.body.starts_with("slow") ? Lane::Kind::kLong : Lane::Kind::kShort};
    });
  });
  std::vector<RawClient> holders;
  for (std::size_t i = 0; i < 8; ++i) {
    holders.push_back(server.client());
    ASSERT_TRUE(holders.back().send(post("/hold", "slow" + std::string(i % 2 == 0 ? 0 : 3 << 19, 'x'))));
  }
  ASSERT_TRUE(held.reached(2)) << "two are served at a time";
  for (const std::size_t size : {std::size_t{9}, std::size_t{3} << 19}) {
    EXPECT_EQ(server.client().ask(post("/echo", std::string(size, 'x'))).status, 200) << size;
  }
  EXPECT_FALSE(held.exceeded(2));
  held.release();
  for (RawClient& holder : holders) EXPECT_EQ(holder.read_reply().status, 200);
}

// Clients that have their requests wait for something keep out neither others that do, nor long requests.
TEST(HttpLimits, RequestsThatWaitAreServedOneAtATimeForEachClient) {
  HttpOptions options;
  options.threads = 1;
  HeldBodies held;
  TestServer server(options, [&](HttpServer& http) {
    held.add_route(http);
    http.set_apart([](const HttpRequest& request) {
      if (request.body.starts_with("long")) return Lane{.kind = Lane::Kind::kLong};
      if (!request.body.starts_with("waits")) return Lane();
      return Lane{.kind = Lane::Kind::kWaits, .client = static_cast<std::uint64_t>(request.body.back())};
    });
  });
  std::vector<RawClient> holders;
  for (int i = 0; i < 6; ++i) {
    holders.push_back(server.client());
    ASSERT_TRUE(holders.back().send(post("/hold", "waits 1")));
  }
  ASSERT_TRUE(held.reached(1));
  EXPECT_FALSE(held.exceeded(1)) << "the client's others wait for its first";
  EXPECT_EQ(server.client().ask(post("/echo", "waits 2")).status, 200);
  EXPECT_EQ(server.client().ask(post("/echo", "long")).status, 200);
  EXPECT_EQ(server.client().ask(post("/echo", "short")).status, 200);
  held.release();
  for (RawClient& holder : holders) EXPECT_EQ(holder.read_reply().status, 200);
}

// A head takes no room for a body.
TEST(HttpLimits, BodiesThatAreOnlyAnnouncedKeepNobodyOut) {
  HttpOptions options;
  options.body_bytes_max = options.bodies_bytes_max = 1'000;
  TestServer server(options, add_common_routes);
  std::vector<RawClient> promising;
  for (int i = 0; i < 4; ++i) {
    promising.push_back(server.client());
    promising.back().send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  }
  EXPECT_EQ(server.client().ask(post("/echo", std::string(1'000, 'x'))).status, 200);
  promising[0].send(std::string(1'000, 'x'));
  EXPECT_EQ(promising[0].read_reply().status, 200);
}

TEST(HttpLimits, HeaderAndTargetSizes) {
  TestServer server({}, add_common_routes);
  expect_error(server.client().ask(get("/health", fmt::format("A: {:x<10000}\r\n", ""))), 431, "invalid_request_error");
  std::string many;
  for (int i = 0; i < 200; ++i) many += fmt::format("A{}: x\r\n", i);
  expect_error(server.client().ask(get("/health", many)), 431, "invalid_request_error");
  expect_error(server.client().ask(get(fmt::format("/{:x<9000}", ""))), 414, "invalid_request_error");
  expect_error(server.client().ask("NONSENSE\r\n\r\n"), 400, "invalid_request_error");
}

TEST(HttpLimits, AmbiguousLengthsAreRefused) {
  TestServer server({}, add_common_routes);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n";
  for (const char* field : {"Content-Length: 6\r\n", "Transfer-Encoding: chunked\r\n"}) {
    RawClient client = server.client();
    expect_error(client.ask(head + field + "\r\n12345"), 400, "invalid_request_error");
    EXPECT_TRUE(client.closed_within(2'000)) << "what follows cannot be trusted to be a request";
  }
  expect_error(server.client().ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5x\r\n\r\n12345"), 400,
               "invalid_request_error");
  const std::string encoded = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n";
  expect_error(server.client().ask(encoded), 501, "invalid_request_error");
}

TEST(HttpLimits, BodyOfARequestThatIsNotReadIsNoNextRequest) {
  TestServer server({}, add_common_routes);
  RawClient client = server.client();
  const std::string inner = get("/health");
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(inner.size()) +
              "\r\n\r\n" + inner);
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_EQ(client.read_reply(300).status, 0);
}

TEST(HttpLimits, DrippedHeadersAreCutOff) {
  TestServer server(quick_limits(), add_common_routes);
  RawClient client = server.client();
  const std::int64_t start = os::real_clock().monotonic_ns();
  client.send("GET /health HTTP/1.1\r\n");
  bool open = true;
  while (open && os::elapsed_ms(start, os::real_clock().monotonic_ns()) < 3'000) {
    open = client.send("A: b\r\n") && !client.closed_within(20);
  }
  EXPECT_FALSE(open) << "a byte now and then kept the connection alive";
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 2'000);
}

TEST(HttpLimits, DrippedBodyIs408) {
  TestServer server(quick_limits(), add_common_routes);
  RawClient client = server.client();
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 60 && !client.read_until("\r\n\r\n", 20); ++i) client.send("x");
  expect_error(client.read_reply(), 408, "invalid_request_error");
}

TEST(HttpLimits, IdleConnectionsAreClosed) {
  TestServer server(quick_limits(), add_common_routes);
  RawClient never = server.client();
  RawClient once = server.client();
  EXPECT_EQ(once.ask(get("/health")).status, 200);
  EXPECT_TRUE(never.closed_within(2'000));
  EXPECT_TRUE(once.closed_within(2'000));
}

TEST(HttpLimits, IdleConnectionsMakeRoomForNewOnes) {
  HttpOptions options;
  options.connections_max = 8;
  TestServer server(options, add_common_routes);
  std::vector<RawClient> idle;
  for (int i = 0; i < 30; ++i) {
    idle.push_back(server.client());
    ASSERT_EQ(idle.back().ask(get("/health")).status, 200) << i;
  }
}

TEST(HttpLimits, ExpectIsRefusedBeforeTheBodyIsSent) {
  HttpOptions options;
  options.api_keys = {"k"};
  TestServer server(options, add_common_routes);
  const auto head = [](const char* key) {
    return "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: 100-continue\r\nX-Api-Key: " +
           std::string(key) + "\r\n\r\n";
  };
  EXPECT_EQ(server.client().ask(head("wrong")).status, 401);
  RawClient client = server.client();
  client.send(head("k"));
  ASSERT_TRUE(client.read_until("100 Continue\r\n\r\n"));
  client.send("abc");
  EXPECT_TRUE(client.read_until("\"size\":3"));
}

}  // namespace
}  // namespace kvkeep::server
