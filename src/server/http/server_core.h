#pragma once

// State that all connections of one server share. "I/O thread" in this room is the one that runs `io`, which
// ARCHITECTURE.md calls the HTTP thread.

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "os/threads.h"
#include "server/http/budget.h"
#include "server/http/gatekeeper.h"
#include "server/http/http_server.h"

namespace kvkeep::server {

class Connection;

struct ServerCore {
  ServerCore(HttpOptions given, Gatekeeper rules)
      : options(std::move(given)),
        gatekeeper(std::move(rules)),
        budget(std::max(options.bodies_bytes_max, options.body_bytes_max)),
        places(options.requests_max),
        scratch(64 << 10) {}

  // More connections than this press the others: idle ones are closed, slow ones hurried.
  bool is_crowded() const { return connections.size() > options.connections_max / 4 * 3; }
  bool is_empty() const { return connections.empty() && exchanges == 0; }

  const HttpOptions options;
  Gatekeeper gatekeeper;
  boost::asio::io_context io{1};
  std::unique_ptr<os::ThreadPool> workers;  // while the server serves
  Budget budget;                            // of bytes of bodies
  Budget places;                            // of requests that are not light, from their head until they are answered
  std::atomic<bool> stopping{false};
  std::atomic<std::size_t> bodies_at_work{0};  // in handlers, which give their room back
  std::atomic<std::size_t> parsed_bytes{0};    // of bodies, since freed memory was returned

  // The I/O thread's own.
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::deque<std::weak_ptr<Connection>> waiting_for_room;  // for their bodies, in the order in which they came
  std::size_t exchanges = 0;                               // requests in handlers, or whose writer is kept
  std::uint64_t requests = 0;
  std::vector<char> scratch;          // every connection reads into this one
  std::function<void()> on_change{};  // a connection or an exchange has ended
};

}  // namespace kvkeep::server
