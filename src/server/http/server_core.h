#pragma once

// State that all connections of one server share. In this room "I/O thread" is the one that runs `io`; ARCHITECTURE.md
// calls it the HTTP thread.

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "os/threads.h"
#include "server/http/budget.h"
#include "server/http/client_turns.h"
#include "server/http/gatekeeper.h"
#include "server/http/http_server.h"
#include "server/http/room_queue.h"
#include "server/http/unread_replies.h"

namespace kvkeep::server {

class Connection;

// Larger bodies are parsed by a few threads, and leave room for these.
inline constexpr std::size_t kSmallBodyBytes = 1 << 20;

struct ServerCore {
  ServerCore(HttpOptions given, Gatekeeper rules)
      : options(std::move(given)),
        gatekeeper(std::move(rules)),
        budget(std::max(options.bodies_bytes_max, options.body_bytes_max / 15 * 16 + 16), kSmallBodyBytes),
        places(options.requests_max),
        unread(options.unread_bytes_max),
        scratch(64 << 10) {}

  // With more connections than this, idle ones are closed and slow ones hurried.
  bool is_crowded() const { return connections.size() > options.connections_max / 4 * 3; }
  // A body that is not sent on must not keep out those that wait for its room.
  bool hurries_bodies() const { return is_crowded() || !waiting_for_room.empty(); }
  bool is_empty() const { return connections.empty() && exchanges == 0; }

  const HttpOptions options;
  Gatekeeper gatekeeper;
  boost::asio::io_context io{1};
  // While the server serves. Large bodies have threads of their own: each takes seconds, and short requests and the
  // ends of replies would wait for them.
  std::unique_ptr<os::ThreadPool> workers;
  std::unique_ptr<os::ThreadPool> large_workers;
  std::unique_ptr<os::ThreadPool> slow_workers;
  std::unique_ptr<os::ThreadPool> waiting_workers;
  std::unique_ptr<ClientTurns> turns;  // on the waiting workers
  std::function<Lane(const HttpRequest&)> lane_of = [](const HttpRequest&) { return Lane(); };  // see set_apart()
  Budget budget;                                                                                // of bytes of bodies
  Budget places;  // for whole requests that are not light, until they are answered
  UnreadReplies unread;
  std::atomic<bool> stopping{false};
  std::atomic<std::size_t> bytes_at_work{0};  // bytes of bodies in handlers, which will give their room back
  std::atomic<std::size_t> parsed_bytes{0};   // bytes of bodies since freed memory was returned
  std::atomic<bool> resume_is_due{false};     // see resume_waiting_soon()

  // Used by the I/O thread only.
  std::unordered_set<std::shared_ptr<Connection>> connections;
  RoomQueue<Connection> waiting_for_room;
  std::size_t exchanges = 0;  // requests in handlers, or with a kept writer
  std::uint64_t requests = 0;
  std::vector<char> scratch;               // the buffer that every connection reads into
  std::function<void()> on_leave = [] {};  // see HttpServer::on_leave()
  std::function<void()> on_change{};       // called when a connection or an exchange has ended
};

}  // namespace kvkeep::server
