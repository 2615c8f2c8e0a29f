#pragma once

// A place where clients connect: an address of this machine, bound and listening.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace kvkeep::server {

// Bound from any thread; all other calls on the thread that runs `io`, which outlives it.
class Listener {
 public:
  using Take = std::function<void(boost::asio::ip::tcp::socket socket, std::string remote_address)>;

  // Connections made from here on wait for start(). `port` 0 takes a free one. Errors as of HttpServer::listen.
  static Result<std::unique_ptr<Listener>> bind(boost::asio::io_context& io, const std::string& host, int port);

  int port() const { return port_; }
  // Accepts one connection after the other while `may_accept` returns true. Without free descriptors, or while it
  // returns false, it looks again a little later; clients wait in the system's queue meanwhile.
  void start(std::function<bool()> may_accept, Take take);
  void close();

 private:
  explicit Listener(boost::asio::io_context& io) : acceptor_(io), pause_(io) {}
  boost::system::error_code open(const boost::asio::ip::tcp::endpoint& endpoint);
  void accept();
  void hand_over(boost::asio::ip::tcp::socket socket);
  void accept_later();

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  int port_ = 0;
  bool told_ = false;
  std::function<bool()> may_accept_;
  Take take_;
};

}  // namespace kvkeep::server
