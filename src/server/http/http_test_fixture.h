#pragma once

// For this room's tests: a server on a free loopback port, and a client that sends raw bytes, so that tests can
// misbehave as real networks do.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "os/clock.h"
#include "os/executor.h"
#include "server/http/http_server.h"

namespace kvkeep::server {

struct RawReply {
  int status = 0;      // 0: the connection ended before a whole head came
  std::string head;    // status line and fields
  std::string body;    // chunks joined
  bool whole = false;  // the body is complete
  bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
};

class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  // Connects to the Unix socket at `path`.
  explicit RawClient(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_), input_(std::move(other.input_)) {}
  ~RawClient() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  // Ends the sending, and still reads.
  void half_close() { ::shutdown(socket_, SHUT_WR); }
  // Ends the reading, and stays connected: TCP tells the server nothing of it.
  void stop_reading() { ::shutdown(socket_, SHUT_RD); }
  // Returns false if the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Reads until `text` has come; returns false at the end of the connection or after `timeout_ms` without a byte.
  bool read_until(std::string_view text, int timeout_ms = 5'000) {
    while (input_.find(text) == std::string::npos) {
      if (!fill(timeout_ms)) return false;
    }
    return true;
  }
  // Returns the next reply of the connection.
  RawReply read_reply(int timeout_ms = 5'000) {
    RawReply reply;
    if (!read_until("\r\n\r\n", timeout_ms)) return reply;
    const auto head_end = input_.find("\r\n\r\n") + 4;
    reply.head = input_.substr(0, head_end);
    input_.erase(0, head_end);
    std::from_chars(reply.head.data() + 9, reply.head.data() + 12, reply.status);
    if (reply.status == 102) return read_reply(timeout_ms);  // an interim reply
    if (reply.has("Transfer-Encoding: chunked"))
      reply.whole = read_chunks(reply.body, timeout_ms);
    else
      reply.whole = read_length(reply, timeout_ms);
    return reply;
  }
  RawReply ask(std::string_view request) {
    send(request);
    return read_reply();
  }
  // Returns true if the server ends the connection within the time.
  bool closed_within(int timeout_ms) {
    const std::int64_t deadline = os::real_clock().monotonic_ns() + timeout_ms * 1'000'000LL;
    while (os::real_clock().monotonic_ns() < deadline) {
      if (!fill(20) && ended_) return true;
    }
    return false;
  }
  const std::string& input() const { return input_; }

 private:
  bool fill(int timeout_ms) {
    pollfd entry{socket_, POLLIN, 0};
    if (::poll(&entry, 1, timeout_ms) <= 0) return false;
    char buffer[16'384];
    const ssize_t received = ::recv(socket_, buffer, sizeof buffer, 0);
    ended_ = received <= 0;
    if (received > 0) input_.append(buffer, static_cast<std::size_t>(received));
    return received > 0;
  }
  bool read_exactly(std::size_t size, std::string& out, int timeout_ms) {
    while (input_.size() < size) {
      if (!fill(timeout_ms)) return false;
    }
    out.append(input_, 0, size);
    input_.erase(0, size);
    return true;
  }
  bool read_length(RawReply& reply, int timeout_ms) {
    constexpr std::string_view kField = "Content-Length: ";
    const auto field = reply.head.find(kField);
    if (field == std::string::npos) return reply.status == 204;
    std::size_t length = 0;
    std::from_chars(reply.head.data() + field + kField.size(), reply.head.data() + reply.head.size(), length);
    return read_exactly(length, reply.body, timeout_ms);
  }
  bool read_chunks(std::string& body, int timeout_ms) {
    while (read_until("\r\n", timeout_ms)) {
      std::size_t length = 0;
      std::from_chars(input_.data(), input_.data() + input_.size(), length, 16);
      input_.erase(0, input_.find("\r\n") + 2);
      std::string end;
      if (!read_exactly(length, body, timeout_ms) || !read_exactly(2, end, timeout_ms)) return false;
      if (length == 0) return true;
    }
    return false;
  }

  int socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string input_;
};

// Serves from construction to destruction. Add routes in the constructor's callback.
class TestServer {
 public:
  template <typename AddRoutes>
  TestServer(HttpOptions options, AddRoutes add_routes) {
    options.port = 0;
    auto listening = HttpServer::listen(std::move(options));
    EXPECT_TRUE(listening.ok()) << (listening.ok() ? "" : listening.error().message);
    server_ = std::move(listening).value();
    add_routes(*server_);
    thread_ = os::make_thread_executor("http");
    thread_->post([this] { server_->serve(); });
  }
  ~TestServer() {
    server_->stop(1'000);
    thread_->drain();
  }
  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  RawClient client() const { return RawClient(server_->port()); }

 private:
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<os::Executor> thread_;
};

inline std::string get(std::string_view path, std::string_view fields = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) + "\r\n";
}
inline std::string post(std::string_view path, std::string_view body, std::string_view fields = "") {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(fields) + "\r\n" + std::string(body);
}

// Blocks like a handler that waits for the model; returns early at shutdown or when the client is gone.
inline void pause_ms(const HttpRequest& request, std::int64_t ms) {
  const std::int64_t end = os::real_clock().monotonic_ns() + ms * 1'000'000;
  while (os::real_clock().monotonic_ns() < end && !request.client_gone() && !request.stopping()) ::usleep(1'000);
}

// Returns true if the condition becomes true within the time.
template <typename Condition>
bool becomes(Condition condition, int timeout_ms = 5'000) {
  const std::int64_t start = os::real_clock().monotonic_ns();
  while (!condition()) {
    if (os::elapsed_ms(start, os::real_clock().monotonic_ns()) > timeout_ms) return false;
    ::usleep(1'000);
  }
  return true;
}

inline void add_common_routes(HttpServer& server) {
  const auto ok = [](const HttpRequest&, ResponseWriter& writer) {
    writer.send(200, "application/json", R"({"status":"ok"})");
  };
  for (const char* path : {"/", "/health"}) server.route("GET", path, ok, {.is_public = true, .is_light = true});
  server.route("GET", "/secret", ok);
  server.route("POST", "/echo", [](const HttpRequest& request, ResponseWriter& writer) {
    writer.send(200, "application/json",
                nlohmann::json{{"size", request.body.size()}, {"query", request.query}}.dump());
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

inline HttpOptions quick_limits() {
  HttpOptions options;
  options.limits = {.idle_ms = 400, .header_ms = 300, .hurried_header_ms = 100, .body_ms = 400, .write_ms = 500};
  return options;
}

inline void expect_error(const RawReply& reply, int status, std::string_view type) {
  ASSERT_EQ(reply.status, status) << reply.head << reply.body;
  const auto body = nlohmann::json::parse(reply.body);
  EXPECT_EQ(body["error"]["code"], status);
  EXPECT_EQ(body["error"]["type"], type);
  EXPECT_FALSE(body["error"]["message"].get<std::string>().empty());
}

}  // namespace kvkeep::server
