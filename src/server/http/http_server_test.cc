#include "server/http/http_server.h"

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "os/paths.h"
#include "server/http/http_test_fixture.h"

namespace kvkeep::server {
namespace {

using nlohmann::json;

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  TestServer server({}, add_common_routes);
  RawClient client = server.client();
  for (int i = 0; i < 3; ++i) {
    const RawReply reply = client.ask(get("/health"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, R"({"status":"ok"})");
    EXPECT_TRUE(reply.has("Server: kvkeep"));
  }
  EXPECT_EQ(json::parse(client.ask(post("/echo?a=b%20c", "12345")).body), (json{{"size", 5}, {"query", "a=b%20c"}}));
  EXPECT_EQ(client.ask(get("/health")).status, 200);
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server({}, add_common_routes);
  RawClient client = server.client();
  client.send(post("/echo", "123") + get("/stream") + post("/echo", "1"));
  EXPECT_EQ(json::parse(client.read_reply().body)["size"], 3);
  EXPECT_EQ(client.read_reply().body, "data: 1\n\ndata: 2\n\n");
  EXPECT_EQ(json::parse(client.read_reply().body)["size"], 1);
}

TEST(HttpServer, UnknownPathAndWrongMethod) {
  TestServer server({}, add_common_routes);
  RawClient client = server.client();
  const RawReply missing = client.ask(get("/nowhere%0A"));
  expect_error(missing, 404, "not_found_error");
  EXPECT_EQ(missing.body.find("/health"), std::string::npos);
  EXPECT_NE(server.client().ask(get("/v1/health")).body.find("did you mean '/health'?"), std::string::npos);
  EXPECT_NE(server.client().ask(get("/strem/")).body.find("did you mean '/stream'?"), std::string::npos);
  EXPECT_EQ(server.client().ask(get("/" + std::string(1000, 'a'))).body.find("did you mean"), std::string::npos);
  const RawReply wrong = server.client().ask(get("/echo"));
  expect_error(wrong, 405, "invalid_request_error");
  EXPECT_TRUE(wrong.has("Allow: POST"));
}

TEST(HttpServer, HeadProbesNeedNoKeyAndCarryNoBody) {
  HttpOptions options;
  options.api_keys = {"k"};
  TestServer server(options, add_common_routes);
  RawClient client = server.client();
  client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(client.read_until("HTTP/1.1 200 OK"));
  client.send(get("/secret"));
  ASSERT_TRUE(client.read_until("401"));
  EXPECT_EQ(client.input().find("status\":\"ok"), std::string::npos);
}

TEST(HttpServer, KeysAreAskedForExceptOnPublicRoutes) {
  HttpOptions options;
  options.api_keys = {"alpha", "beta"};
  TestServer server(options, add_common_routes);
  EXPECT_EQ(server.client().ask(get("/health")).status, 200);
  expect_error(server.client().ask(get("/secret")), 401, "authentication_error");
  expect_error(server.client().ask(get("/nowhere")), 401, "authentication_error");
  expect_error(server.client().ask(get("/secret", "Authorization: Bearer alph\r\n")), 401, "authentication_error");
  EXPECT_EQ(server.client().ask(get("/secret", "Authorization: Bearer alpha\r\n")).status, 200);
  EXPECT_EQ(server.client().ask(get("/secret", "X-API-Key: beta\r\n")).status, 200);
}

TEST(HttpServer, ForeignHostsAreRefused) {
  TestServer server({}, add_common_routes);
  expect_error(server.client().ask("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403, "permission_error");
  expect_error(server.client().ask("GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 403,
               "permission_error");
  EXPECT_EQ(server.client().ask("GET http://localhost/health HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 200);
  expect_error(server.client().ask("GET /health HTTP/1.1\r\n\r\n"), 400, "invalid_request_error");
  expect_error(server.client().ask("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"), 400,
               "invalid_request_error");
}

TEST(HttpServer, ForeignOriginsAreRefusedAndAllowedOnesMayReadReplies) {
  HttpOptions options;
  options.allowed_origins = {"http://page.example"};
  TestServer server(options, add_common_routes);
  const RawReply refused = server.client().ask(get("/health", "Origin: http://evil.example\r\n"));
  expect_error(refused, 403, "permission_error");
  EXPECT_FALSE(refused.has("Access-Control-Allow-Origin"));
  for (const char* path : {"/health", "/stream", "/nowhere"}) {
    const RawReply allowed = server.client().ask(get(path, "Origin: http://page.example\r\n"));
    EXPECT_TRUE(allowed.has("Access-Control-Allow-Origin: http://page.example\r\n")) << allowed.head;
    EXPECT_TRUE(allowed.has("Vary: Origin\r\n"));
  }
  EXPECT_FALSE(server.client().ask(get("/health")).has("Access-Control"));
}

TEST(HttpServer, PreflightWorksWithoutAKeyForAllowedOriginsOnly) {
  HttpOptions options;
  options.api_keys = {"k"};
  options.allowed_origins = {"http://page.example"};
  TestServer server(options, add_common_routes);
  const auto preflight = [&](std::string_view origin) {
    return server.client().ask("OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: " + std::string(origin) +
                               "\r\nAccess-Control-Request-Method: POST\r\n"
                               "Access-Control-Request-Headers: authorization, content-type\r\n\r\n");
  };
  const RawReply allowed = preflight("http://page.example");
  EXPECT_EQ(allowed.status, 200);
  EXPECT_TRUE(allowed.has("Access-Control-Allow-Origin: http://page.example\r\n"));
  EXPECT_TRUE(allowed.has("Access-Control-Allow-Headers: authorization, content-type\r\n"));
  EXPECT_TRUE(allowed.has("POST"));
  const RawReply refused = preflight("http://evil.example");
  EXPECT_EQ(refused.status, 200);
  EXPECT_FALSE(refused.has("Access-Control"));
  EXPECT_FALSE(refused.has("Allow"));
}

TEST(HttpServer, EveryReplyNamesItsRequest) {
  TestServer server({}, [](HttpServer& http) {
    add_common_routes(http);
    http.route("GET", "/id",
               [](const HttpRequest& request, ResponseWriter& writer) { writer.send(200, "text/plain", request.id); });
  });
  std::set<std::string> ids;
  for (const char* path : {"/id", "/health", "/stream", "/nowhere"}) {
    const RawReply reply = server.client().ask(get(path));
    const auto at = reply.head.find("\r\nrequest-id: req_");
    ASSERT_NE(at, std::string::npos) << reply.head;
    const std::string id = reply.head.substr(at + 14, 28);
    EXPECT_TRUE(reply.has("\r\nx-request-id: " + id + "\r\n")) << reply.head;
    EXPECT_TRUE(ids.insert(id).second);
    if (path == std::string("/id")) {
      EXPECT_EQ(reply.body, id);
    }
  }
}

TEST(HttpServer, ErrorsTakeTheShapeThatTheirSenderExpects) {
  HttpOptions options;
  options.api_keys = {"k"};
  options.body_bytes_max = 100;
  TestServer server(options, [](HttpServer& http) {
    add_common_routes(http);
    http.shape_errors({.applies = [](const HttpRequest& head) { return !head.header("x-mine").empty(); },
                       .make = [](int status, std::string_view message, std::string_view id) -> HttpError {
                         return {status + 1, nlohmann::json{message, id.substr(0, 4)}.dump()};
                       }});
  });
  const std::string mine = "x-mine: 1\r\nx-api-key: k\r\n";
  const auto expect_shaped = [&](const RawReply& reply, int status) {
    EXPECT_EQ(reply.status, status + 1) << reply.head;
    const json body = json::parse(reply.body);
    ASSERT_TRUE(body.is_array()) << reply.body;
    EXPECT_EQ(body[1], "req_");
  };
  expect_shaped(server.client().ask(get("/secret", "x-mine: 1\r\n")), 401);
  expect_shaped(server.client().ask(get("/nowhere", mine)), 404);
  expect_shaped(server.client().ask(get("/echo", mine)), 405);
  expect_shaped(server.client().ask(post("/echo", std::string(101, 'x'), mine)), 413);
  expect_shaped(server.client().ask(post("/throw", "", mine)), 500);
  expect_shaped(server.client().ask("GET /secret HTTP/1.1\r\nHost: evil.example\r\n" + mine + "\r\n"), 403);
  expect_error(server.client().ask(get("/secret")), 401, "authentication_error");
  EXPECT_EQ(server.client().ask(get("/secret", mine)).status, 200);
}

TEST(HttpServer, HandlerExceptionsAre500AndTheServerGoesOn) {
  TestServer server({}, add_common_routes);
  RawClient client = server.client();
  for (const char* path : {"/throw", "/throw-int", "/silent"}) {
    const RawReply reply = server.client().ask(post(path, "{}"));
    expect_error(reply, 500, "server_error");
    EXPECT_EQ(reply.body.find("broken"), std::string::npos) << "internals stay in the log";
  }
  const RawReply cut = client.ask(get("/stream-throw"));
  EXPECT_EQ(cut.body, "data: 1\n\n");
  EXPECT_FALSE(cut.whole) << "a failed stream must not look complete";
  EXPECT_TRUE(client.closed_within(2'000));
  EXPECT_EQ(server.client().ask(get("/health")).status, 200);
}

TEST(HttpServer, StreamsToOldClientsEndWithTheConnection) {
  TestServer server({}, add_common_routes);
  RawClient client = server.client();
  client.send("GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(client.closed_within(2'000));
  EXPECT_TRUE(client.input().ends_with("\r\n\r\ndata: 1\n\ndata: 2\n\n"));
}

TEST(HttpStreams, ClientGoneIsSeenDuringSilence) {
  std::atomic<bool> seen{false};
  TestServer server({}, [&](HttpServer& http) {
    http.route("GET", "/wait", [&](const HttpRequest& request, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
      writer.on_silence(60'000, [&writer] { writer.write(": are you there\n\n"); });
      pause_ms(request, 5'000);
      seen = request.client_gone() && !writer.write("data: late\n\n");
    });
  });
  RawClient client = server.client();
  client.send(get("/wait"));
  ASSERT_TRUE(client.read_until("\r\n\r\n"));
  client.close();
  const std::int64_t start = os::real_clock().monotonic_ns();
  while (!seen && os::elapsed_ms(start, os::real_clock().monotonic_ns()) < 3'000) ::usleep(1'000);
  EXPECT_TRUE(seen);
}

TEST(HttpStreams, ClientThatDoesNotReadIsAbandoned) {
  std::atomic<int> outcome{0};
  TestServer server(quick_limits(), [&](HttpServer& http) {
    http.route("GET", "/flood", [&](const HttpRequest&, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
      const std::string piece(1 << 20, 'x');
      for (int i = 0; i < 200; ++i) {
        if (!writer.write(piece)) {
          outcome = 1;
          return;
        }
      }
      outcome = 2;
    });
  });
  RawClient client = server.client();
  client.send(get("/flood"));
  const std::int64_t start = os::real_clock().monotonic_ns();
  while (outcome == 0 && os::elapsed_ms(start, os::real_clock().monotonic_ns()) < 5'000) ::usleep(1'000);
  EXPECT_EQ(outcome, 1);
}

// Each of them has less than a reply may have. A Unix socket, since the system takes megabytes for one of TCP.
TEST(HttpStreams, OfAllClientsThatDoNotReadTheOneWithMostIsAbandoned) {
  const os::TemporaryDirectory directory = os::TemporaryDirectory::make("unread").value();
  HttpOptions options;
  options.hosts = {directory.path() + "/unread.sock"};
  options.unread_bytes_max = 8 << 20;
  Mutex mutex;
  std::vector<std::shared_ptr<ResponseWriter>> writers;
  TestServer server(options, [&](HttpServer& http) {
    add_common_routes(http);
    http.route("GET", "/flood", [&](const HttpRequest&, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
      const MutexLock lock(mutex);
      writers.push_back(writer.keep());
    });
  });
  std::vector<RawClient> clients;
  std::vector<std::shared_ptr<ResponseWriter>> kept;
  for (std::size_t i = 0; i < 3; ++i) {
    clients.emplace_back(options.hosts.front());
    clients.back().send(get("/flood"));
    ASSERT_TRUE(becomes([&] {
      const MutexLock lock(mutex);
      kept = writers;
      return kept.size() == i + 1;
    }));
  }
  const auto flood = [&](std::size_t which, int mebibytes) {
    for (int i = 0; i < mebibytes; ++i) kept[which]->write(std::string(1 << 20, 'x'));
  };
  flood(0, 2);
  flood(1, 5);
  EXPECT_GT(server->unread().bytes, std::uint64_t{5} << 20);
  EXPECT_FALSE(kept[1]->client_gone());
  flood(2, 3);
  EXPECT_TRUE(becomes([&] { return kept[1]->client_gone(); })) << "it has most";
  EXPECT_TRUE(becomes([&] { return server->unread().bytes <= std::uint64_t{5} << 20; }));
  EXPECT_FALSE(kept[0]->client_gone());
  EXPECT_FALSE(kept[2]->client_gone());
  EXPECT_EQ(server->unread().ended[static_cast<std::size_t>(UnreadCause::kSum)], 1U);
  for (const auto& writer : kept) writer->end();
  for (const std::size_t served : {std::size_t{0}, std::size_t{2}}) EXPECT_TRUE(clients[served].read_reply().whole);
  EXPECT_TRUE(becomes([&] { return server->unread().bytes == 0; }));
  kept.clear();
  const MutexLock lock(mutex);
  writers.clear();
}

TEST(HttpStreams, SixtyFourStreamsAndHealthStillAnswers) {
  constexpr int kStreams = 64;
  std::atomic<bool> release{false};
  HttpOptions options;
  options.threads = kStreams;  // these handlers block their threads
  options.requests_max = kStreams;
  TestServer server(options, [&](HttpServer& http) {
    add_common_routes(http);
    http.route("GET", "/hold", [&](const HttpRequest& request, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
      writer.write("data: start\n\n");
      while (!release && !request.client_gone() && !request.stopping()) ::usleep(1'000);
      writer.write("data: end\n\n");
      writer.end();
    });
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(server.client());
    clients.back().send(get("/hold"));
  }
  for (RawClient& client : clients) ASSERT_TRUE(client.read_until("data: start"));
  const std::int64_t start = os::real_clock().monotonic_ns();
  EXPECT_EQ(server.client().ask(get("/health")).status, 200);
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 1'000);
  const RawReply refused = server.client().ask(get("/hold"));
  expect_error(refused, 503, "unavailable_error");
  EXPECT_TRUE(refused.has("Retry-After"));
  release = true;
  for (RawClient& client : clients) {
    const RawReply reply = client.read_reply();
    EXPECT_TRUE(reply.whole);
    EXPECT_EQ(reply.body, "data: start\n\ndata: end\n\n");
  }
}

TEST(HttpListen, PortInUseIsAOneLineError) {
  TestServer server({}, add_common_routes);
  HttpOptions options;
  options.port = server->port();
  const auto second = HttpServer::listen(options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kBusy);
  EXPECT_NE(second.error().message.find(std::to_string(options.port)), std::string::npos);
  EXPECT_EQ(second.error().message.find('\n'), std::string::npos);
}

TEST(HttpListen, ForeignAddressesAndWildcardsAreErrors) {
  HttpOptions options;
  options.port = 0;
  options.hosts = {"192.0.2.1"};
  EXPECT_FALSE(HttpServer::listen(options).ok());
  options.hosts = {"127.0.0.1", "192.0.2.1"};
  EXPECT_FALSE(HttpServer::listen(options).ok());
  options.hosts = {};
  options.allowed_origins = {"*"};
  EXPECT_FALSE(HttpServer::listen(options).ok());
}

TEST(HttpListen, StopBeforeServeIsNotLost) {
  HttpOptions options;
  options.port = 0;
  auto server = HttpServer::listen(options).value();
  server->stop(100);
  server->serve();
  EXPECT_FALSE(RawClient(server->port()).ask(get("/")).status);
}

TEST(HttpStop, StreamsAreToldAndEndWell) {
  auto server = std::make_unique<TestServer>(HttpOptions{}, [](HttpServer& http) {
    http.route("GET", "/hold", [](const HttpRequest& request, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
      writer.write("data: start\n\n");
      while (!request.stopping() && !request.client_gone()) ::usleep(1'000);
      writer.write("data: goodbye\n\n");
      writer.end();
    });
  });
  const int port = (*server)->port();
  RawClient client(port);
  RawClient idle(port);
  client.send(get("/hold"));
  ASSERT_TRUE(client.read_until("data: start"));
  EXPECT_TRUE((*server)->stop(2'000));
  const RawReply reply = client.read_reply();
  EXPECT_TRUE(reply.whole);
  EXPECT_EQ(reply.body, "data: start\n\ndata: goodbye\n\n");
  EXPECT_TRUE(idle.closed_within(1'000));
  EXPECT_EQ(RawClient(port).ask(get("/hold")).status, 0);
}

// The last connection's end is told to the I/O thread before its order to stop is.
TEST(HttpStop, NothingListensAfterwardsIfTheLastClientLeftMeanwhile) {
  std::atomic<bool> released{false};
  std::atomic<bool> concluded{false};
  TestServer server({}, [&](HttpServer& http) {
    http.on_leave([&] {  // on the I/O thread
      while (!released) ::usleep(1'000);
    });
    http.route("GET", "/hold", [&](const HttpRequest&, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
      while (writer.write("data: x\n\n")) ::usleep(1'000);
      concluded = true;
    });
  });
  {
    RawClient client = server.client();
    client.send(get("/hold"));
    EXPECT_TRUE(client.read_until("data: x"));
  }
  while (!concluded) ::usleep(1'000);
  ::usleep(20'000);  // now the exchange's end waits behind on_leave()
  const auto stopper = os::make_thread_executor("stopper");
  stopper->post([&] { EXPECT_TRUE(server->stop(2'000)); });
  ::usleep(20'000);  // and the order to stop behind that
  released = true;
  stopper->drain();
  EXPECT_FALSE(RawClient(server->port()).connected());
}

TEST(HttpStop, HandlersThatDoNotListenLoseTheirConnectionAtTheDeadline) {
  std::atomic<bool> write_failed{false};
  TestServer server({}, [&](HttpServer& http) {
    http.route("GET", "/deaf", [&](const HttpRequest&, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
      while (writer.write("data: x\n\n")) ::usleep(1'000);
      write_failed = true;
    });
  });
  RawClient client = server.client();
  client.send(get("/deaf"));
  ASSERT_TRUE(client.read_until("data: x"));
  const std::int64_t start = os::real_clock().monotonic_ns();
  EXPECT_TRUE(server->stop(200));
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 1'500);
  EXPECT_TRUE(client.closed_within(2'000));
  while (!write_failed && os::elapsed_ms(start, os::real_clock().monotonic_ns()) < 3'000) ::usleep(1'000);
  EXPECT_TRUE(write_failed);
}

TEST(HttpStop, HandlersThatComputeOnAreReportedAndNotAwaited) {
  std::atomic<bool> computing{false};
  std::atomic<bool> released{false};
  TestServer server({}, [&](HttpServer& http) {
    http.route("GET", "/compute", [&](const HttpRequest&, ResponseWriter& writer) {
      computing = true;
      while (!released) ::usleep(1'000);
      writer.send(200, "application/json", "{}");
    });
  });
  RawClient client = server.client();
  client.send(get("/compute"));
  while (!computing) ::usleep(1'000);
  EXPECT_FALSE(server->stop(100)) << "a handler is still at work";
  EXPECT_TRUE(client.closed_within(2'000));
  released = true;
  EXPECT_TRUE(server->stop(2'000)) << "now it has come back";
}

}  // namespace
}  // namespace kvkeep::server
