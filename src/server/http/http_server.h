#pragma once

// The HTTP side of the server: sockets, limits, keys, Host and Origin, and the hand-over of requests to handlers. It
// knows no dialect, no model and no cache.
//
// One thread serves all connections (Boost.Asio): a connection that is idle or waits for its reply costs a few
// kilobytes. Handlers run on a few worker threads, those of light routes on the connections' own thread, so that the
// health check answers however busy the server is.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/service_manager.h"
#include "server/http/deadlines.h"
#include "server/http/http_error.h"
#include "server/http/http_message.h"

namespace kvkeep::server {

struct HttpOptions {
  // Addresses or names of this machine, 0.0.0.0 or :: for every interface, and paths of Unix sockets, which end in
  // ".sock" and get the mode 0600. Empty: only the passed sockets, or 127.0.0.1 if there is none.
  std::vector<std::string> hosts;
  int port = 8080;                       // of all addresses; 0: any free port, see HttpServer::places()
  std::vector<os::PassedSocket> passed;  // the server takes them over

  std::vector<std::string> api_keys;         // empty: no key is needed
  std::vector<std::string> allowed_hosts;    // see OriginGuard
  std::vector<std::string> allowed_origins;  // see OriginGuard

  // Threads for handlers, above 0: how many requests are parsed, rendered and tokenized at a time. A quarter as many
  // are added for requests of more than 1 MiB, and as many, but at least two, for each lane of set_apart().
  int threads = 8;
  // Whole requests, until their reply is made; one more is answered 503. Light ones do not count.
  std::size_t requests_max = 4'096;
  // Open connections; others wait until one ends. From three quarters on, idle ones are closed and slow ones hurried.
  // Each takes a file descriptor.
  std::size_t connections_max = 8'192;
  std::size_t body_bytes_max = 64ULL << 20;  // a larger one is answered 413, even if it is compressed
  // For all requests that are read or parsed, together. A request beyond it waits, unread, for ChannelLimits::room_ms
  // at most; then it is answered 503. Meanwhile bodies that are not sent on are hurried, and if those in handlers hold
  // little, the waiting body that holds most gives way. A sixteenth is for bodies of up to 1 MiB. At least a little
  // more than body_bytes_max.
  std::size_t bodies_bytes_max = 256ULL << 20;
  // Of all replies that clients have not read, together; then the connections that have most of it end.
  std::size_t unread_bytes_max = 1ULL << 30;
  ChannelLimits limits;
};

struct RouteOptions {
  bool is_public = false;  // needs no API key
  bool is_light = false;   // answers within microseconds: never waits for other requests
};

// Why a connection was ended whose client did not read: too much of one reply waited, the client took too little of it
// in time, or it had most while all replies together had too much.
enum class UnreadCause { kBytes, kTime, kSum };
inline constexpr std::size_t kUnreadCauses = static_cast<std::size_t>(UnreadCause::kSum) + 1;
std::string_view to_string(UnreadCause cause);
struct UnreadCounts {
  std::uint64_t bytes = 0;                              // of replies, that wait now
  std::array<std::uint64_t, kUnreadCauses> ended = {};  // connections, by UnreadCause
};

// Where a server listens.
struct ListeningPlace {
  std::string host = {};  // as in HttpOptions::hosts; of a passed socket, its numeric address
  int port = 0;
  std::string path = {};  // of a Unix socket, which has no host and no port
};

// Returns true for an entry of HttpOptions::hosts that names a Unix socket.
bool is_socket_path(std::string_view host);
// Returns true for 0.0.0.0 and ::, which stand for all addresses of this machine.
bool is_every_interface(std::string_view host);

// Set up from one thread: listen(), route()..., serve(). stop(), unread(), places(), port() and address() are thread
// safe.
class HttpServer {
 public:
  // Binds and listens; connections made from here on wait for serve(). kBusy if a port or Unix socket is in use,
  // kInvalid if a host is not one of this machine, a socket's file cannot be made or an option is malformed, kIo if the
  // system refused otherwise.
  static Result<std::unique_ptr<HttpServer>> listen(HttpOptions options);
  virtual ~HttpServer() = default;

  // `path` is matched exactly; but where it ends with "/*", the star stands for any text without a slash. A GET route
  // answers HEAD, too. Call it before serve().
  virtual void route(std::string method, std::string path, Handler handler, RouteOptions options = {}) = 0;

  // Returns the handler that a request of this method and path would reach; null if there is none. It stays where it is
  // once serve() runs.
  virtual const Handler* handler(std::string_view method, std::string_view path) const = 0;

  // The shape of errors that come up before a handler runs. Call it before serve().
  virtual void shape_errors(ErrorShape shape) = 0;
  // Adds words to the refusal of a path that is not served: of this one or, if it ends with "*", of those that begin
  // so. The first that fits is used.
  virtual void explain_path(std::string path, std::string words) = 0;

  // `task` runs on the I/O thread, and must return at once, whenever a connection ends while a request on it may still
  // be answered: a client_gone() became true. Call it before serve().
  virtual void on_leave(std::function<void()> task) = 0;

  // Requests whose handler computes for seconds, or waits for other hosts, have threads of their own: others never wait
  // for them, nor the former for the latter. It is called on a thread that runs handlers, and may read the body. Call
  // it before serve().
  virtual void set_apart(std::function<Lane(const HttpRequest&)> lane_of) = 0;

  virtual UnreadCounts unread() const = 0;

  virtual const std::vector<ListeningPlace>& places() const = 0;
  // The port of the first place that has one; 0: all are Unix sockets.
  virtual int port() const = 0;
  // "http://127.0.0.1:8080", of the same place; empty if port() is 0.
  virtual std::string address() const = 0;

  // Accepts and serves until stop(), on the calling thread; returns when the last handler has returned and no writer is
  // kept any more, however long that takes. Call it once.
  virtual void serve() = 0;
  // Takes no new connection or request, tells running handlers through HttpRequest::stopping, and waits for them; after
  // `drain_ms` it shuts their connections down, so that client_gone() is true and write() fails, and gives them half a
  // second to notice. Must not be called from a handler or a signal handler.
  //
  // Returns false if handlers are still at work, or keep their writers, without a look at client_gone(). serve() and
  // this object's destructor would wait for them, and a thread cannot be ended from outside: a program that must leave
  // saves its data and calls std::_Exit().
  virtual bool stop(std::int64_t drain_ms) = 0;
};

}  // namespace kvkeep::server
