#include "server/http/http_server.h"

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "server/http/http_test_fixture.h"

namespace kvkeep::server {
namespace {

using nlohmann::json;

// Blocks like a handler that waits for the model; returns early if asked to.
void pause_ms(const HttpRequest& request, std::int64_t ms) {
  const std::int64_t end = os::real_clock().monotonic_ns() + ms * 1'000'000;
  while (os::real_clock().monotonic_ns() < end && !request.client_gone() && !request.stopping()) ::usleep(1'000);
}

void add_common_routes(HttpServer& server) {
  const auto ok = [](const HttpRequest&, ResponseWriter& writer) {
    writer.send(200, "application/json", R"({"status":"ok"})");
  };
  server.route("GET", "/health", ok, {.is_public = true, .is_light = true});
  server.route("GET", "/secret", ok);
  server.route("POST", "/echo", [](const HttpRequest& request, ResponseWriter& writer) {
    writer.send(200, "application/json", json{{"size", request.body.size()}, {"query", request.query}}.dump());
  });
  server.route("POST", "/throw", [](const HttpRequest&, ResponseWriter&) { throw std::runtime_error("broken"); });
  server.route("POST", "/throw-int", [](const HttpRequest&, ResponseWriter&) { throw 7; });
  server.route("POST", "/silent", [](const HttpRequest&, ResponseWriter&) {});
  server.route("GET", "/stream", [](const HttpRequest&, ResponseWriter& writer) {
    writer.begin_stream(200, "text/event-stream", {{"Cache-Control", "no-cache"}});
    writer.write("data: 1\n\n");
    writer.write("");
    writer.write("data: 2\n\n");
    writer.end();
  });
  server.route("GET", "/stream-throw", [](const HttpRequest&, ResponseWriter& writer) {
    writer.begin_stream(200, "text/event-stream");
    writer.write("data: 1\n\n");
    throw std::runtime_error("mid-stream");
  });
}

HttpOptions quick_limits() {
  HttpOptions options;
  options.limits = {.idle_ms = 400, .header_ms = 300, .hurried_header_ms = 100, .body_ms = 400, .write_ms = 500};
  return options;
}

void expect_error(const RawReply& reply, int status, std::string_view type) {
  ASSERT_EQ(reply.status, status) << reply.head << reply.body;
  const json body = json::parse(reply.body);
  EXPECT_EQ(body["error"]["code"], status);
  EXPECT_EQ(body["error"]["type"], type);
  EXPECT_FALSE(body["error"]["message"].get<std::string>().empty());
}

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
  EXPECT_EQ(allowed.status, 204);
  EXPECT_TRUE(allowed.has("Access-Control-Allow-Origin: http://page.example\r\n"));
  EXPECT_TRUE(allowed.has("Access-Control-Allow-Headers: authorization, content-type\r\n"));
  EXPECT_TRUE(allowed.has("POST"));
  EXPECT_EQ(preflight("http://evil.example").status, 403);
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
  client.send(head + chunk + chunk + chunk + chunk);
  expect_error(client.read_reply(), 413, "invalid_request_error");
}

TEST(HttpLimits, HeaderAndTargetSizes) {
  TestServer server({}, add_common_routes);
  expect_error(server.client().ask(get("/health", fmt::format("A: {:x<10000}\r\n", ""))), 400, "invalid_request_error");
  std::string many;
  for (int i = 0; i < 200; ++i) many += fmt::format("A{}: x\r\n", i);
  expect_error(server.client().ask(get("/health", many)), 400, "invalid_request_error");
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
  options.threads = 1;  // and eight kept ones
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

TEST(HttpStreams, ClientGoneIsSeenDuringSilence) {
  std::atomic<bool> seen{false};
  TestServer server({}, [&](HttpServer& http) {
    http.route("GET", "/wait", [&](const HttpRequest& request, ResponseWriter& writer) {
      writer.begin_stream(200, "text/event-stream");
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

TEST(HttpStreams, ClientThatDoesNotReadIsGivenUp) {
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

TEST(HttpStreams, SixtyFourStreamsAndHealthStillAnswers) {
  constexpr int kStreams = 64;
  std::atomic<bool> release{false};
  HttpOptions options;
  options.threads = kStreams;
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
  options.host = "192.0.2.1";
  EXPECT_FALSE(HttpServer::listen(options).ok());
  options.host = "/tmp/a.sock";
  EXPECT_FALSE(HttpServer::listen(options).ok());
  options.host = "127.0.0.1";
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
  (*server)->stop(2'000);
  const RawReply reply = client.read_reply();
  EXPECT_TRUE(reply.whole);
  EXPECT_EQ(reply.body, "data: start\n\ndata: goodbye\n\n");
  EXPECT_TRUE(idle.closed_within(1'000));
  EXPECT_EQ(RawClient(port).ask(get("/hold")).status, 0);
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
  server->stop(200);
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 1'500);
  EXPECT_TRUE(client.closed_within(2'000));
  while (!write_failed && os::elapsed_ms(start, os::real_clock().monotonic_ns()) < 3'000) ::usleep(1'000);
  EXPECT_TRUE(write_failed);
}

}  // namespace
}  // namespace kvkeep::server
