// Hostile clients that try to hold a server's threads, connections, memory or attention.

#include <atomic>
#include <nlohmann/json.hpp>
#include <vector>

#include "server/http/gunzip.h"
#include "server/http/http_test_fixture.h"

namespace kvkeep::server {
namespace {

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

constexpr std::string_view kUnfinished[] = {
    "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\nX-Api-Key: k\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nX-Api-Key: k\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nX-Api-Key: k\r\n\r\n1234",
    "POST /light HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nX-Api-Key: k\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nX-Api-Key: k\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
    "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: localh",
    "GET /health HTTP/1.1\nHost: localhost\n\n",
    "\x16\x03\x01",
    "",
};

TEST(HttpDoors, RefusedAndUnfinishedRequestsHoldNothing) {
  HttpOptions options;
  options.threads = 1;
  options.api_keys = {"k"};
  TestServer server(options, [](HttpServer& http) {
    add_common_routes(http);
    http.route("POST", "/light", [](const HttpRequest&, ResponseWriter& writer) { writer.send(200, "", ""); },
               {.is_light = true});
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(server.client());
    clients.back().send(kUnfinished[static_cast<std::size_t>(i) % std::size(kUnfinished)]);
  }
  RawClient health = server.client();
  const std::int64_t start = os::real_clock().monotonic_ns();
  EXPECT_EQ(health.ask(get("/health")).status, 200);
  EXPECT_EQ(server.client().ask(post("/echo", "12", "X-Api-Key: k\r\n")).status, 200);
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 500);
}

// The reply comes at once and says that it is the last one, and the connection ends soon.
TEST(HttpDoors, ARefusalEndsTheReading) {
  HttpOptions options;
  options.api_keys = {"k"};
  TestServer server(options, add_common_routes);
  for (const auto& [request, status] : std::vector<std::pair<std::string_view, int>>{{kUnfinished[0], 401},
                                                                                     {kUnfinished[2], 403},
                                                                                     {kUnfinished[3], 413},
                                                                                     {kUnfinished[9], 200},
                                                                                     {kUnfinished[10], 401},
                                                                                     {kUnfinished[12], 400}}) {
    RawClient client = server.client();
    const std::int64_t start = os::real_clock().monotonic_ns();
    client.send(request);
    const RawReply reply = client.read_reply();
    EXPECT_EQ(reply.status, status) << request;
    EXPECT_TRUE(reply.whole);
    EXPECT_EQ(count_of(reply.head, "Connection:"), 1U) << reply.head;
    EXPECT_TRUE(reply.has("\r\nConnection: close\r\n"));
    EXPECT_TRUE(client.closed_within(3'000)) << request;
    EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 3'000);
  }
}

TEST(HttpDoors, ARefusedRequestWithoutABodyKeepsItsConnection) {
  HttpOptions options;
  options.api_keys = {"k"};
  TestServer server(options, add_common_routes);
  RawClient client = server.client();
  EXPECT_EQ(client.ask(get("/secret")).status, 401);
  EXPECT_EQ(client.ask(get("/secret", "X-Api-Key: k\r\n")).status, 200);
}

TEST(HttpDoors, BusyWorkersHoldUpNoLightRequest) {
  std::atomic<bool> release{false};
  HttpOptions options;
  options.threads = 1;
  TestServer server(options, [&](HttpServer& http) {
    add_common_routes(http);
    http.route("GET", "/compute", [&](const HttpRequest&, ResponseWriter& writer) {
      while (!release) ::usleep(1'000);
      writer.send(200, "", "");
    });
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(server.client());
    clients.back().send(get("/compute"));
  }
  const std::int64_t start = os::real_clock().monotonic_ns();
  EXPECT_EQ(server.client().ask(get("/health")).status, 200);
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 500);
  release = true;
  for (RawClient& client : clients) EXPECT_EQ(client.read_reply().status, 200);
}

TEST(HttpDoors, KeysAreTakenLiterally) {
  HttpOptions options;
  options.api_keys = {"sekret%41"};
  TestServer server(options, add_common_routes);
  EXPECT_EQ(server.client().ask(get("/secret", "Authorization: Bearer sekret%41\r\n")).status, 200);
  EXPECT_EQ(server.client().ask(get("/secret", "Authorization: Bearer sekretA\r\n")).status, 401);
  const std::string twice = "Authorization: Bearer x\r\nAuthorization: Bearer sekret%41\r\n";
  EXPECT_EQ(server.client().ask(get("/secret", twice)).status, 400);
}

TEST(HttpDoors, OneEmptyLineMayStandBeforeARequest) {
  TestServer server({}, add_common_routes);
  RawClient client = server.client();
  for (int i = 0; i < 2; ++i) {
    client.send("\r");
    ::usleep(20'000);
    client.send("\n");
    ::usleep(20'000);
    EXPECT_EQ(client.ask(get("/health")).status, 200);
  }
  client.send("\r\n");
  ::usleep(20'000);
  EXPECT_EQ(client.ask("\r\n" + get("/health")).status, 400);
}

// Each body is one piece of 16 KiB that unpacks to the limit of a body. ThreadSanitizer unpacks some MiB in a second.
TEST(HttpDoors, HealthAnswersBeforeCompressedBodiesAreUnpacked) {
  HttpOptions options;
  options.body_bytes_max = std::size_t{16} << 20;
  TestServer server(options, add_common_routes);
  const std::string packed = gzip(std::string(options.body_bytes_max - 1, ' '));
  std::vector<RawClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(server.client());
    clients.back().send(post("/echo", packed, "Content-Encoding: gzip\r\n"));
  }
  EXPECT_EQ(server.client().ask(get("/health")).status, 200);
  for (RawClient& client : clients) EXPECT_FALSE(client.read_until("\r\n\r\n", 0)) << "it was answered before";
  for (RawClient& client : clients) EXPECT_EQ(client.read_reply(60'000).status, 200);
}

TEST(HttpDoors, MoreConnectionsThanMayBeOpenWait) {
  HttpOptions options;
  options.connections_max = 4;
  options.limits.header_ms = 60'000;
  options.limits.hurried_header_ms = 60'000;
  TestServer server(options, add_common_routes);
  std::vector<RawClient> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(server.client());
  RawClient waiting = server.client();
  waiting.send(get("/health"));
  EXPECT_FALSE(waiting.read_until("200 OK", 200));
  silent.pop_back();
  EXPECT_TRUE(waiting.read_until("200 OK"));
}

// Slow uploads end soon when many connections are open.
TEST(HttpDoors, UnfinishedRequestsMakeRoomWhenThereAreMany) {
  HttpOptions options;
  options.connections_max = 40;
  options.limits.hurried_header_ms = 100;
  TestServer server(options, add_common_routes);
  std::vector<RawClient> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(server.client());
    clients.back().send(kUnfinished[i % 2 == 0 ? 1 : 11]);
  }
  EXPECT_EQ(server.client().ask(get("/health")).status, 200);
}

TEST(HttpDoors, RefusalsAtShutdownSayWhenToComeAgain) {
  std::atomic<bool> release{false};
  TestServer server({}, [&](HttpServer& http) {
    add_common_routes(http);
    http.route("GET", "/hold", [&](const HttpRequest&, ResponseWriter& writer) {
      while (!release) ::usleep(1'000);
      writer.send(200, "", "");
    });
  });
  RawClient holder = server.client();
  holder.send(get("/hold"));
  RawClient sending = server.client();
  sending.send(kUnfinished[5]);
  ::usleep(50'000);
  const auto stopper = os::make_thread_executor("stopper");
  stopper->post([&] { server->stop(5'000); });
  const RawReply refused = sending.read_reply();
  expect_error(refused, 503, "unavailable_error");
  EXPECT_TRUE(refused.has("\r\nRetry-After: 1\r\n"));
  release = true;
  EXPECT_TRUE(holder.read_reply().has("\r\nConnection: close\r\n"));
  stopper->drain();
}

TEST(HttpDoors, BodiesThatWaitForRoomAreServedInTurn) {
  HttpOptions options;
  options.threads = 2;
  options.body_bytes_max = 1'000;
  options.bodies_bytes_max = 2'000;
  TestServer server(options, [](HttpServer& http) {
    add_common_routes(http);
    http.route("POST", "/slow", [](const HttpRequest& request, ResponseWriter& writer) {
      ::usleep(2'000);
      writer.send(200, "text/plain", std::to_string(request.body.size()));
    });
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(server.client());
    clients.back().send(post("/slow", std::string(900, 'x')));
  }
  for (RawClient& client : clients) EXPECT_EQ(client.read_reply().body, "900");
}

// Few bytes are budgeted, and hurried bodies have a fifth of a second for each piece.
HttpOptions narrow_options() {
  HttpOptions options;
  options.body_bytes_max = 1'000;
  options.bodies_bytes_max = 2'000;
  options.limits.hurried_header_ms = 200;
  options.limits.body_ms = 4'000;
  return options;
}

std::string announce(std::size_t bytes) {
  return "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n";
}

// Without a handler at work whose return would make room.
TEST(HttpDoors, BodiesThatLackTheirEndMakeRoomWhenOthersWait) {
  TestServer server(narrow_options(), add_common_routes);
  std::vector<RawClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(server.client());
    clients.back().send(announce(1'000) + std::string(999, 'x'));
  }
  ::usleep(50'000);
  const std::int64_t start = os::real_clock().monotonic_ns();
  EXPECT_EQ(server.client().ask(post("/echo", std::string(900, 'x'))).status, 200);
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 2'000);
  expect_error(clients[0].read_reply(), 408, "invalid_request_error");
}

TEST(HttpDoors, DrippedBodiesMakeRoomAndSteadyOnesGoOn) {
  TestServer server(narrow_options(), add_common_routes);
  RawClient steady = server.client();
  steady.send(announce(1'000) + std::string(500, 'x'));
  RawClient dripping = server.client();
  dripping.send(announce(1'000) + std::string(900, 'x'));
  ::usleep(50'000);
  RawClient waiting = server.client();
  waiting.send(post("/echo", std::string(900, 'x')));
  for (int i = 0; i < 49; ++i) {
    dripping.send("x");
    steady.send("0123456789");
    ::usleep(20'000);
  }
  expect_error(dripping.read_reply(), 408, "invalid_request_error");
  EXPECT_EQ(waiting.read_reply().status, 200);
  steady.send("0123456789");
  EXPECT_EQ(steady.read_reply().status, 200);
}

// Eight bodies want four times the room that there is, and each of them waits for the others.
TEST(HttpDoors, BodiesThatWaitForEachOtherGiveWay) {
  HttpOptions options = narrow_options();
  options.limits.hurried_header_ms = 60'000;
  TestServer server(options, add_common_routes);
  std::vector<RawClient> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(server.client());
    clients.back().send(announce(1'000));
  }
  ::usleep(50'000);
  const std::int64_t start = os::real_clock().monotonic_ns();
  for (int i = 0; i < 10; ++i) {
    for (RawClient& client : clients) client.send(std::string(100, 'x'));
    ::usleep(5'000);
  }
  int served = 0;
  for (RawClient& client : clients) served += client.read_reply().status == 200 ? 1 : 0;
  EXPECT_GE(served, 2);
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 2'000);
}

TEST(HttpDoors, UnfinishedRequestsTakeNoPlaces) {
  HttpOptions options;
  options.requests_max = 10;
  TestServer server(options, add_common_routes);
  std::vector<RawClient> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(server.client());
    clients.back().send(announce(9));
  }
  EXPECT_EQ(server.client().ask(post("/echo", "12")).status, 200);
}

TEST(HttpDoors, OtherEncodingsThanGzipAreRefused) {
  TestServer server({}, add_common_routes);
  expect_error(server.client().ask(post("/echo", "123", "Content-Encoding: br\r\n")), 415, "invalid_request_error");
  expect_error(server.client().ask(post("/echo", "123", "Content-Encoding: gzip\r\n")), 400, "invalid_request_error");
}

}  // namespace
}  // namespace kvkeep::server
