#include "server/http/listener.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "server/http/http_error.h"
#include "server/http/http_log.h"

namespace kvkeep::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr int kBacklog = 1'024;
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::bind(asio::io_context& io, const std::string& host, int port) {
  if (host.ends_with(".sock") || host.find(',') != std::string::npos) {
    return unsupported("cannot listen on '" + host + "': give one IP address or host name of this machine");
  }
  ErrorCode error;
  tcp::resolver resolver(io);
  const auto places = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || places.empty()) return listen_error(host, port, 0);
  std::unique_ptr<Listener> listener(new Listener(io));
  for (const auto& place : places) {
    error = listener->open(place.endpoint());
    if (!error) break;
  }
  if (error) return listen_error(host, port, error.value());
  listener->port_ = listener->acceptor_.local_endpoint().port();
  return listener;
}

ErrorCode Listener::open(const tcp::endpoint& endpoint) {
  ErrorCode error;
  ErrorCode ignored;
  acceptor_.close(ignored);
  acceptor_.open(endpoint.protocol(), error);
  // Not SO_REUSEPORT: a second server would share the port and take half of the connections.
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(kBacklog, error);
  return error;
}

void Listener::start(std::function<bool()> may_accept, Take take) {
  may_accept_ = std::move(may_accept);
  take_ = std::move(take);
  accept();
}

void Listener::close() {
  ErrorCode ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

void Listener::accept() {
  if (!acceptor_.is_open()) return;
  if (!may_accept_()) return accept_later();
  acceptor_.async_accept([this](const ErrorCode& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {
      // A connection that was reset before it was taken does not affect later ones; a full table does.
      const bool lasts = error != asio::error::connection_aborted;
      if (lasts && !std::exchange(told_, true)) {
        spdlog::warn("http: cannot accept more connections: {}; raise the limit of open files (ulimit -n)",
                     error.message());
      }
      return accept_later();
    }
    hand_over(std::move(socket));
    accept();
  });
}

// Keeps accepting, whatever fails for one connection.
void Listener::hand_over(tcp::socket socket) {
  try {
    ErrorCode gone;
    const tcp::endpoint remote = socket.remote_endpoint(gone);
    if (!gone) take_(std::move(socket), remote.address().to_string());
  } catch (...) {
    spdlog::error("http: dropped a new connection after an error: {}", current_exception_text());
  }
}

void Listener::accept_later() {
  pause_.expires_after(kPause);
  pause_.async_wait([this](const ErrorCode& error) {
    if (!error) accept();
  });
}

}  // namespace kvkeep::server
