// What somebody at the door may do to a server: hold its threads, its connections, its memory, its attention.

#include <atomic>
#include <nlohmann/json.hpp>
#include <vector>

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

// The reply comes at once, says once that it is the last one, and the connection ends soon.
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

// Writers kept by a handler, for tests that answer from outside.
class Kept {
 public:
  void add_routes(HttpServer& http) {
    add_common_routes(http);
    const auto keep = [this](const HttpRequest&, ResponseWriter& writer) {
      const MutexLock lock(mutex_);
      writers_.push_back(writer.keep());
    };
    http.route("GET", "/later", keep);
    http.route("POST", "/later", keep);
  }
  // The next one that was kept; waits for it.
  std::shared_ptr<ResponseWriter> take() {
    std::shared_ptr<ResponseWriter> taken;
    becomes([&] {
      const MutexLock lock(mutex_);
      if (writers_.empty()) return false;
      taken = std::move(writers_.front());
      writers_.erase(writers_.begin());
      return true;
    });
    return taken;
  }

 private:
  Mutex mutex_;
  std::vector<std::shared_ptr<ResponseWriter>> writers_ GUARDED_BY(mutex_);
};

TEST(HttpLater, AKeptWriterAnswersFromPostedTasks) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  RawClient client = server.client();
  for (int round = 0; round < 2; ++round) {
    client.send(get("/later"));
    auto writer = kept.take();
    ASSERT_TRUE(writer);
    writer->post([writer] { writer->send(200, "text/plain", "late"); });
    writer.reset();
    EXPECT_EQ(client.read_reply().body, "late");
  }
  client.send(get("/later"));
  auto writer = kept.take();
  ASSERT_TRUE(writer);
  writer->post_work([writer] {
    writer->begin_stream(200, "text/event-stream");
    writer->write("data: 1\n\n");
    writer->post([writer] {
      writer->write("data: 2\n\n");
      writer->end();
    });
  });
  writer.reset();
  EXPECT_EQ(client.read_reply().body, "data: 1\n\ndata: 2\n\n");
}

TEST(HttpLater, AWriterThatIsDroppedWithoutAnEndIsAFailure) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  RawClient client = server.client();
  client.send(get("/later"));
  kept.take().reset();
  expect_error(client.read_reply(), 500, "server_error");
  client.send(get("/later"));
  auto writer = kept.take();
  writer->post([writer] {
    writer->begin_stream(200, "text/event-stream");
    writer->write("data: 1\n\n");
  });
  writer.reset();
  const RawReply cut = client.read_reply();
  EXPECT_EQ(cut.body, "data: 1\n\n");
  EXPECT_FALSE(cut.whole);
}

TEST(HttpLater, ASilentStreamIsToldSo) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  RawClient client = server.client();
  client.send(get("/later"));
  auto writer = kept.take();
  writer->on_silence(20, [weak = std::weak_ptr(writer)] {
    const auto alive = weak.lock();
    if (!alive) return;
    if (!alive->started()) alive->begin_stream(200, "text/event-stream");
    alive->write(": waiting\n\n");
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client.read_until(": waiting\n\n"));
  writer->post([writer] { writer->end(); });
  writer.reset();
  EXPECT_TRUE(client.read_reply().whole);
}

TEST(HttpHalfClose, TheWholeReplyComes) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  for (const std::string& request : {get("/health"), post("/echo", "123"), get("/stream")}) {
    RawClient client = server.client();
    client.send(request);
    client.half_close();
    const RawReply reply = client.read_reply();
    EXPECT_EQ(reply.status, 200) << request;
    EXPECT_TRUE(reply.whole);
    EXPECT_TRUE(client.closed_within(1'000));
  }
  // One whose reply takes its time is told that it is worked on.
  RawClient waiting = server.client();
  waiting.send(post("/later", "{}"));
  waiting.half_close();
  auto writer = kept.take();
  EXPECT_TRUE(waiting.read_until("HTTP/1.1 102 Processing\r\n\r\n"));
  EXPECT_FALSE(writer->client_gone());
  writer->post([writer] { writer->send(200, "text/plain", "late"); });
  writer.reset();
  EXPECT_TRUE(waiting.read_until("\r\n\r\nlate"));
}

TEST(HttpHalfClose, AllRequestsThatCameBeforeItAreAnswered) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  RawClient client = server.client();
  client.send(get("/health") + post("/echo", "123") + get("/health"));
  client.half_close();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.read_reply().status, 200) << i;
  EXPECT_TRUE(client.closed_within(1'000));
  RawClient cut = server.client();
  cut.send(get("/health") + "GET /hea");
  cut.half_close();
  EXPECT_EQ(cut.read_reply().status, 200);
  EXPECT_EQ(cut.read_reply().status, 400);
}

TEST(HttpHalfClose, AClientThatClosesIsNoticed) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  const std::int64_t start = os::real_clock().monotonic_ns();
  RawClient gone = server.client();
  gone.send(get("/later"));
  auto writer = kept.take();
  gone.close();
  EXPECT_TRUE(becomes([&] { return writer->client_gone(); }, 2'000));
  EXPECT_LT(os::elapsed_ms(start, os::real_clock().monotonic_ns()), 500);
  writer.reset();
  // And so is one that had half-closed before.
  RawClient later = server.client();
  later.send(get("/later"));
  later.half_close();
  writer = kept.take();
  EXPECT_TRUE(later.read_until("102 Processing"));
  EXPECT_FALSE(writer->client_gone());
  later.close();
  EXPECT_TRUE(becomes([&] { return writer->client_gone(); }, 4'000));
}

TEST(HttpHalfClose, WithinARequestIsAnError) {
  TestServer server({}, add_common_routes);
  for (const char* request : {"POST /echo HTTP/1.1\r\nHost: localhost\r\n",
                              "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123"}) {
    RawClient client = server.client();
    client.send(request);
    client.half_close();
    expect_error(client.read_reply(), 400, "invalid_request_error");
  }
}

TEST(HttpDoors, KeysAreTakenAsTheyStand) {
  HttpOptions options;
  options.api_keys = {"sekret%41"};
  TestServer server(options, add_common_routes);
  EXPECT_EQ(server.client().ask(get("/secret", "Authorization: Bearer sekret%41\r\n")).status, 200);
  EXPECT_EQ(server.client().ask(get("/secret", "Authorization: Bearer sekretA\r\n")).status, 401);
  const std::string twice = "Authorization: Bearer x\r\nAuthorization: Bearer sekret%41\r\n";
  EXPECT_EQ(server.client().ask(get("/secret", twice)).status, 400);
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

TEST(HttpDoors, OtherEncodingsThanGzipAreRefused) {
  TestServer server({}, add_common_routes);
  expect_error(server.client().ask(post("/echo", "123", "Content-Encoding: br\r\n")), 415, "invalid_request_error");
  expect_error(server.client().ask(post("/echo", "123", "Content-Encoding: gzip\r\n")), 400, "invalid_request_error");
}

}  // namespace
}  // namespace kvkeep::server
