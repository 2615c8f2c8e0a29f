#include "server/http/http_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "base/mutex.h"
#include "os/clock.h"
#include "server/http/connection.h"
#include "server/http/gatekeeper.h"
#include "server/http/http_log.h"
#include "server/http/listener.h"
#include "server/http/server_core.h"

namespace kvkeep::server {
namespace {

namespace asio = boost::asio;

constexpr std::int64_t kLastChanceMs = 500;     // for handlers to notice that their connection was shut down
constexpr std::int64_t kHurryNs = 100'000'000;  // between two looks at all connections

class Server final : public HttpServer {
 public:
  Server(HttpOptions options, Gatekeeper gatekeeper) : core_(std::move(options), std::move(gatekeeper)) {}

  Status bind() {
    TRY_ASSIGN(listeners_, Listeners::open(core_.io, core_.options));
    places_ = listeners_.places();
    return {};
  }
  void route(std::string method, std::string path, Handler handler, RouteOptions options) override {
    KVKEEP_ASSERT(!served_, "routes are added before serve()");
    core_.gatekeeper.add({std::move(method), std::move(path), std::move(handler), options});
  }
  const Handler* handler(std::string_view method, std::string_view path) const override {
    const Route* route = core_.gatekeeper.route(method, path);
    return route == nullptr ? nullptr : &route->handler;
  }
  void shape_errors(ErrorShape shape) override { core_.gatekeeper.shape_errors(std::move(shape)); }
  void explain_path(std::string path, std::string words) override {
    core_.gatekeeper.explain_path(std::move(path), std::move(words));
  }
  void on_leave(std::function<void()> task) override { core_.on_leave = std::move(task); }
  void set_apart(std::function<Lane(const HttpRequest&)> lane_of) override { core_.lane_of = std::move(lane_of); }
  UnreadCounts unread() const override { return core_.unread.counts(); }
  const std::vector<ListeningPlace>& places() const override { return places_; }
  int port() const override { return first_address().port; }
  std::string address() const override;
  void serve() override;
  bool stop(std::int64_t drain_ms) override;

 private:
  ListeningPlace first_address() const;
  void run_io();
  void take(Listener::Socket socket, std::string remote_address);
  void hurry_others();
  void begin_stop();
  void note_change();
  bool wait_until_over(std::int64_t ms);

  ServerCore core_;
  Listeners listeners_;  // I/O thread while the server serves
  std::vector<ListeningPlace> places_;
  std::int64_t hurried_ns_ = 0;  // I/O thread
  bool is_closed_ = false;       // no place is listened at any more; I/O thread
  std::atomic<bool> served_{false};

  Mutex mutex_;
  CondVar over_changed_;
  bool over_ GUARDED_BY(mutex_) = false;  // nothing is left to do after stop()
};

// Returns the first place that is no Unix socket; an empty one if there is none.
ListeningPlace Server::first_address() const {
  const auto first = std::ranges::find(places_, "", &ListeningPlace::path);
  return first == places_.end() ? ListeningPlace() : *first;
}

std::string Server::address() const {
  const ListeningPlace first = first_address();
  if (first.host.empty()) return {};
  const bool is_ipv6 = first.host.find(':') != std::string::npos;
  return "http://" + (is_ipv6 ? "[" + first.host + "]" : first.host) + ":" + std::to_string(first.port);
}

void Server::serve() {
  KVKEEP_ASSERT(!served_, "serve() runs once");
  served_ = true;
  const auto threads = static_cast<std::size_t>(core_.options.threads);
  core_.workers = os::make_thread_pool(threads, "http-worker");
  core_.large_workers = os::make_thread_pool(std::max<std::size_t>(threads / 4, 1), "http-large");
  core_.slow_workers = os::make_thread_pool(std::max<std::size_t>(threads / 4, 2), "http-slow");
  core_.waiting_workers = os::make_thread_pool(std::max<std::size_t>(threads / 4, 2), "http-waiting");
  core_.turns = std::make_unique<ClientTurns>(*core_.waiting_workers);
  core_.on_change = [this] { note_change(); };
  asio::post(core_.io, [this] {
    listeners_.start(
        [this] { return core_.connections.size() < core_.options.connections_max; },
        [this](Listener::Socket socket, std::string address) { take(std::move(socket), std::move(address)); });
    if (core_.stopping) begin_stop();
  });
  run_io();
  // The first two hand requests over to the last two, and so end before them.
  core_.large_workers.reset();
  core_.workers.reset();
  core_.slow_workers.reset();
  core_.waiting_workers.reset();
}

void Server::run_io() {
  const auto guard = asio::make_work_guard(core_.io);
  while (true) {
    try {
      core_.io.run();
      return;
    } catch (...) {
      // Connections and replies handle their own errors: this one was the server's.
      spdlog::error("http: an error in the server; it continues: {}", current_exception_text());
    }
  }
}

void Server::take(Listener::Socket socket, std::string remote_address) {
  if (core_.stopping) return;  // accepted at the last moment: nothing would end it
  const auto connection = std::make_shared<Connection>(core_, std::move(socket), std::move(remote_address));
  core_.connections.insert(connection);
  if (core_.is_crowded()) hurry_others();
  connection->start();
}

void Server::hurry_others() {
  const std::int64_t now_ns = os::real_clock().monotonic_ns();
  if (now_ns - hurried_ns_ < kHurryNs) return;
  hurried_ns_ = now_ns;
  const auto all = core_.connections;  // connections that end leave the set
  for (const auto& connection : all) connection->hurry();
}

void Server::begin_stop() {
  listeners_.close();
  is_closed_ = true;
  const auto all = core_.connections;  // connections that end leave the set
  for (const auto& connection : all) connection->stop();
  note_change();
}

void Server::note_change() {
  if (!is_closed_ || !core_.is_empty()) return;
  core_.io.stop();
  const MutexLock lock(mutex_);
  over_ = true;
  over_changed_.notify_all();
}

bool Server::wait_until_over(std::int64_t ms) {
  const std::int64_t end_ns = os::real_clock().monotonic_ns() + ms * 1'000'000;
  const MutexLock lock(mutex_);
  while (!over_) {
    const std::int64_t left_ns = end_ns - os::real_clock().monotonic_ns();
    if (left_ns <= 0) return false;
    over_changed_.wait_for(mutex_, std::chrono::nanoseconds(left_ns));
  }
  return true;
}

bool Server::stop(std::int64_t drain_ms) {
  core_.stopping = true;
  if (!served_) return true;
  asio::post(core_.io, [this] { begin_stop(); });
  if (wait_until_over(drain_ms)) return true;
  asio::post(core_.io, [this] {
    const auto all = core_.connections;
    if (!all.empty()) spdlog::warn("http: closing {} connections that did not finish in time", all.size());
    for (const auto& connection : all) connection->close();
  });
  return wait_until_over(kLastChanceMs);
}

}  // namespace

std::string_view to_string(UnreadCause cause) {
  switch (cause) {
    case UnreadCause::kBytes: return "bytes";
    case UnreadCause::kTime: return "time";
    case UnreadCause::kSum: return "sum";
  }
  return "";
}

bool is_socket_path(std::string_view host) { return host.ends_with(".sock"); }

bool is_every_interface(std::string_view host) { return host == "0.0.0.0" || host == "::"; }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpOptions options) {
  TRY_ASSIGN(Gatekeeper gatekeeper, Gatekeeper::make(options));
  auto server = std::make_unique<Server>(std::move(options), std::move(gatekeeper));
  TRY(server->bind());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace kvkeep::server
