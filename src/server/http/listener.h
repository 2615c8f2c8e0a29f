#pragma once

// A place where clients connect: an address of this machine, a Unix socket, or a socket that the service manager
// passed, bound and listening.

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/service_manager.h"
#include "os/unix_socket.h"
#include "server/http/http_server.h"

namespace kvkeep::server {

// Opened from any thread; all other calls on the thread that runs `io`, which outlives it.
class Listener {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  // `remote_address`: as in HttpRequest.
  using Take = std::function<void(Socket socket, std::string remote_address)>;
  using Opened = Result<std::unique_ptr<Listener>>;

  // Each binds and listens: connections made from here on wait for start(). Errors as of HttpServer::listen.
  // `host` is the name by which the endpoint was found; port 0 takes a free one.
  static Opened at_endpoint(boost::asio::io_context& io, const boost::asio::ip::tcp::endpoint& endpoint,
                            const std::string& host);
  static Opened at_path(boost::asio::io_context& io, const std::string& path);
  static Opened at_passed(boost::asio::io_context& io, const os::PassedSocket& socket);

  const ListeningPlace& place() const { return place_; }
  // Returns true if clients of this endpoint reach this listener: it has the same address, or every address.
  bool covers(const boost::asio::ip::tcp::endpoint& endpoint) const;
  // Accepts one connection after the other while `may_accept` returns true. Without free descriptors, or while it
  // returns false, it looks again a little later; clients wait in the system's queue meanwhile.
  void start(std::function<bool()> may_accept, Take take);
  // Takes no more connections, and removes the file of a Unix socket that this listener made.
  void close();

 private:
  explicit Listener(boost::asio::io_context& io) : acceptor_(io), pause_(io) {}
  boost::system::error_code open(const boost::asio::ip::tcp::endpoint& endpoint);
  boost::system::error_code adopt(int family, int descriptor);
  void accept();
  void hand_over(Socket socket);
  void accept_later();

  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol> acceptor_;
  boost::asio::steady_timer pause_;
  ListeningPlace place_;
  std::optional<boost::asio::ip::tcp::endpoint> bound_;  // at_endpoint() only
  bool takes_ipv4_ = false;                              // an IPv6 socket that also takes clients of IPv4
  std::optional<os::UnixListener> file_;                 // at_path() only
  bool told_ = false;
  std::function<bool()> may_accept_;
  Take take_;
};

// All places at which one server listens, as one: opened together, or not at all. Used like Listener.
class Listeners {
 public:
  // Opens options.hosts and takes options.passed over. An address is left out if another one of the list covers it
  // ("0.0.0.0,127.0.0.1"). With port 0 all addresses get the same free port. Errors as of HttpServer::listen.
  static Result<Listeners> open(boost::asio::io_context& io, const HttpOptions& options);

  // The passed sockets, then the others in their order. Never empty.
  std::vector<ListeningPlace> places() const;
  // As of Listener; the functions are used for each of them.
  void start(const std::function<bool()>& may_accept, const Listener::Take& take);
  void close();

 private:
  Status take_passed(boost::asio::io_context& io, const std::vector<os::PassedSocket>& passed);
  Status add_hosts(boost::asio::io_context& io, const std::vector<std::string>& hosts, int port);
  Status add_host(boost::asio::io_context& io, const std::string& host, int port);

  std::vector<std::unique_ptr<Listener>> all_;
};

}  // namespace kvkeep::server
