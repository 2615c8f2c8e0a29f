// Replies that are made after their handler has returned, and clients that leave meanwhile.

#include <stdexcept>
#include <vector>

#include "server/http/http_test_fixture.h"

namespace kvkeep::server {
namespace {

// Keeps the writers of a handler, for tests that answer from outside.
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
  // Returns the next writer that was kept; waits for it.
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

// No exception leaves a connection that nothing would end.
TEST(HttpLater, ATaskThatThrowsEndsTheReply) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  for (const bool on_worker : {false, true}) {
    RawClient client = server.client();
    client.send(get("/later"));
    auto writer = kept.take();
    ASSERT_TRUE(writer);
    const auto run = [&](std::function<void()> task) {
      on_worker ? writer->post_work(std::move(task)) : writer->post(std::move(task));
    };
    run([] { throw std::runtime_error("broken"); });
    expect_error(client.read_reply(), 500, "server_error");
    EXPECT_TRUE(becomes([&] { return writer->client_gone(); })) << "its maker may stop";
    run([writer] { writer->send(200, "text/plain", "too late"); });
    client.send(get("/later"));
    writer = kept.take();
    writer->post([writer] {
      writer->begin_stream(200, "text/event-stream");
      writer->write("data: 1\n\n");
      throw 7;
    });
    const RawReply cut = client.read_reply();
    EXPECT_EQ(cut.body, "data: 1\n\n");
    EXPECT_FALSE(cut.whole);
    writer->post([writer] {
      EXPECT_FALSE(writer->write("data: 2\n\n"));
      writer->end();
    });
  }
}

// Whoever works for clients need not look at each of them.
TEST(HttpLater, AClientThatLeavesIsReported) {
  Kept kept;
  std::atomic<int> left = 0;
  TestServer server({}, [&](HttpServer& http) {
    kept.add_routes(http);
    http.on_leave([&] { ++left; });
  });
  {
    RawClient stays = server.client();
    stays.send(get("/later"));
    const auto writer = kept.take();
    ASSERT_TRUE(writer);
    writer->post([writer] { writer->send(200, "text/plain", "served"); });
    EXPECT_EQ(stays.read_reply().body, "served");
    EXPECT_EQ(left, 0);
  }
  std::shared_ptr<ResponseWriter> writer;
  {
    RawClient leaves = server.client();
    leaves.send(get("/later"));
    writer = kept.take();
    ASSERT_TRUE(writer);
  }
  EXPECT_TRUE(becomes([&] { return left > 0; }));
  EXPECT_TRUE(writer->client_gone());
}

TEST(HttpLater, AnExceptionInATurnOfTheConnectionEndsIt) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) {
    kept.add_routes(http);
    http.shape_errors(
        {.applies = [](const HttpRequest& head) { return head.path == "/unshaped"; },
         .make = [](int, std::string_view, std::string_view) -> HttpError { throw std::runtime_error("no words"); }});
  });
  RawClient client = server.client();
  client.send(get("/later"));
  auto writer = kept.take();
  ASSERT_TRUE(writer);
  writer->on_silence(10, [] { throw std::runtime_error("broken"); });
  EXPECT_TRUE(client.closed_within(2'000));
  EXPECT_TRUE(becomes([&] { return writer->client_gone(); }));
  RawClient refused = server.client();
  refused.send(get("/unshaped"));
  EXPECT_TRUE(refused.closed_within(2'000));
  EXPECT_EQ(server.client().ask(get("/health")).status, 200);
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

// Pieces are made one at a time, as fast as the client reads.
TEST(HttpLater, ALongBodyIsMadeWhileItLeaves) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  constexpr int kPieces = 400;  // of 100 KB: more than the system takes for a client that does not read
  std::atomic<int> made = 0;
  const auto next = [&made] {
    return made < kPieces ? std::string(100'000, static_cast<char>('a' + made++ % 26)) : std::string();
  };
  for (const bool reads : {true, false}) {
    made = 0;
    RawClient client = server.client();
    client.send(get("/later"));
    auto writer = kept.take();
    ASSERT_TRUE(writer);
    writer->post([writer, next] { writer->send_pieces(200, "text/plain", next); });
    writer.reset();
    if (reads) {
      const RawReply reply = client.read_reply();
      EXPECT_EQ(reply.status, 200);
      EXPECT_TRUE(reply.whole);
      EXPECT_EQ(reply.body.size(), kPieces * 100'000U);
      EXPECT_EQ(made, kPieces);
      EXPECT_EQ(client.ask(get("/health")).status, 200) << "the connection goes on";
      continue;
    }
    EXPECT_TRUE(client.read_until("200 OK"));
    client.close();
    EXPECT_TRUE(becomes([&] { return server.client().ask(get("/health")).status == 200; }));
    EXPECT_LT(made, kPieces) << "nobody wants the rest";
  }
}

// Its system takes bytes for a while, and ours a few more; a stream of a megabyte once went there as if it were read.
TEST(HttpLater, AStreamThatNobodyReadsEnds) {
  Kept kept;
  TestServer server(quick_limits(), [&](HttpServer& http) { kept.add_routes(http); });
  for (const bool shuts : {true, false}) {
    RawClient client = server.client();
    client.send(get("/later"));
    auto writer = kept.take();
    ASSERT_TRUE(writer);
    if (shuts) client.stop_reading();
    writer->post([writer] {
      writer->begin_stream(200, "text/event-stream");
      for (int token = 0; token < 4'000; ++token) writer->write("data: " + std::string(250, 'x') + "\n\n");
    });
    EXPECT_TRUE(becomes([&] { return writer->client_gone(); }, 10'000)) << shuts;
  }
}

TEST(HttpLater, ABodyOfOnePieceHasALength) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  RawClient client = server.client();
  client.send(get("/later"));
  auto writer = kept.take();
  ASSERT_TRUE(writer);
  writer->post([writer, made = false]() mutable {
    writer->send_pieces(200, "text/plain", [&made] { return std::exchange(made, true) ? "" : "short"; });
  });
  writer.reset();
  EXPECT_TRUE(client.read_until("Content-Length: 5\r\n"));
  EXPECT_TRUE(client.read_until("\r\n\r\nshort"));
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
  // A client whose reply takes long is told that its request is worked on.
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
  // So is a client that had half-closed before.
  RawClient later = server.client();
  later.send(get("/later"));
  later.half_close();
  writer = kept.take();
  EXPECT_TRUE(later.read_until("102 Processing"));
  EXPECT_FALSE(writer->client_gone());
  later.close();
  EXPECT_TRUE(becomes([&] { return writer->client_gone(); }, 4'000));
}

// The end of what it sends comes after more bytes than are read ahead.
TEST(HttpHalfClose, AClientThatSentFarAheadIsNoticedWhenItCloses) {
  Kept kept;
  TestServer server({}, [&](HttpServer& http) { kept.add_routes(http); });
  std::string ahead;
  int requests = 0;
  for (; ahead.size() < 150'000; ++requests) ahead += get("/health");
  for (const bool leaves : {true, false}) {
    RawClient client = server.client();
    client.send(get("/later"));
    auto writer = kept.take();
    ASSERT_TRUE(writer);
    ASSERT_TRUE(client.send(ahead));
    ::usleep(200'000);
    EXPECT_FALSE(writer->client_gone());
    if (leaves) {
      client.close();
      EXPECT_TRUE(becomes([&] { return writer->client_gone(); }));
      continue;
    }
    writer->post([writer] { writer->send(200, "text/plain", "late"); });
    writer.reset();
    EXPECT_EQ(client.read_reply().body, "late");
    for (int i = 0; i < requests; ++i) ASSERT_EQ(client.read_reply().status, 200) << i;
  }
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

}  // namespace
}  // namespace kvkeep::server
