#include "server/http/listener.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "server/http/http_error.h"
#include "server/http/http_log.h"

namespace kvkeep::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using AnyProtocol = asio::generic::stream_protocol;

constexpr int kBacklog = 1'024;
// With port 0 the first address's free port may be taken at the others.
constexpr int kTriesForAFreePort = 16;
constexpr std::chrono::milliseconds kPause{20};

// Precondition: an address of IPv4 or IPv6.
tcp::endpoint ip_endpoint(const AnyProtocol::endpoint& any) {
  tcp::endpoint endpoint;
  std::memcpy(endpoint.data(), any.data(), any.size());
  endpoint.resize(any.size());
  return endpoint;
}

std::string address_text(const AnyProtocol::endpoint& remote) {
  if (remote.protocol().family() == AF_UNIX) return std::string(kUnixClient);
  const asio::ip::address address = ip_endpoint(remote).address();
  const bool is_mapped = address.is_v6() && address.to_v6().is_v4_mapped();  // a client of IPv4 at an IPv6 socket
  return is_mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string() : address.to_string();
}

}  // namespace

Listener::Opened Listener::at_endpoint(asio::io_context& io, const tcp::endpoint& endpoint, const std::string& host) {
  std::unique_ptr<Listener> listener(new Listener(io));
  if (const ErrorCode error = listener->open(endpoint)) return listen_error(host, endpoint.port(), error.value());
  listener->bound_ = ip_endpoint(listener->acceptor_.local_endpoint());
  listener->place_ = {.host = host, .port = listener->bound_->port()};
  return listener;
}

Listener::Opened Listener::at_path(asio::io_context& io, const std::string& path) {
  TRY_ASSIGN(os::UnixListener file, os::UnixListener::listen(path, kBacklog));
  std::unique_ptr<Listener> listener(new Listener(io));
  listener->file_.emplace(std::move(file));
  if (const ErrorCode error = listener->adopt(AF_UNIX, listener->file_->release())) {
    return io_error("cannot listen on " + path + ": " + error.message());
  }
  listener->place_ = {.path = path};
  return listener;
}

Listener::Opened Listener::at_passed(asio::io_context& io, const os::PassedSocket& socket) {
  std::unique_ptr<Listener> listener(new Listener(io));
  const bool is_ipv6 = socket.host.find(':') != std::string::npos;
  const int family = !socket.path.empty() ? AF_UNIX : is_ipv6 ? AF_INET6 : AF_INET;
  listener->place_ = {.host = socket.host, .port = socket.port, .path = socket.path};
  if (const ErrorCode error = listener->adopt(family, socket.descriptor)) {
    return io_error("cannot listen on a socket that the service manager passed: " + error.message());
  }
  return listener;
}

ErrorCode Listener::adopt(int family, int descriptor) {
  ErrorCode error;
  acceptor_.assign(AnyProtocol(family, 0), descriptor, error);
  return error;
}

ErrorCode Listener::open(const tcp::endpoint& endpoint) {
  ErrorCode error;
  acceptor_.open(AnyProtocol(endpoint.protocol()), error);
  // Not SO_REUSEPORT: a second server would share the port and take half of the connections.
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && endpoint.protocol() == tcp::v6()) {
    // "::" means every interface, whatever the system's default is. Systems that cannot do that keep to IPv6.
    ErrorCode refused;
    acceptor_.set_option(asio::ip::v6_only(false), refused);
    takes_ipv4_ = !refused && endpoint.address().is_unspecified();
  }
  if (!error) acceptor_.bind(AnyProtocol::endpoint(endpoint), error);
  if (!error) acceptor_.listen(kBacklog, error);
  return error;
}

bool Listener::covers(const tcp::endpoint& endpoint) const {
  if (!bound_ || bound_->port() != endpoint.port()) return false;
  if (bound_->address() == endpoint.address()) return true;
  const bool same_kind = bound_->protocol() == endpoint.protocol();
  return bound_->address().is_unspecified() && (same_kind || takes_ipv4_);
}

void Listener::start(std::function<bool()> may_accept, Take take) {
  may_accept_ = std::move(may_accept);
  take_ = std::move(take);
  accept();
}

void Listener::close() {
  ErrorCode ignored;
  file_.reset();  // first: a file at which nobody listens would look like one of a server that was killed
  acceptor_.close(ignored);
  pause_.cancel();
}

void Listener::accept() {
  if (!acceptor_.is_open()) return;
  if (!may_accept_()) return accept_later();
  acceptor_.async_accept([this](const ErrorCode& error, Socket socket) {
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
void Listener::hand_over(Socket socket) {
  try {
    ErrorCode gone;
    const AnyProtocol::endpoint remote = socket.remote_endpoint(gone);
    if (!gone) take_(std::move(socket), address_text(remote));
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

// ---- all places

Result<Listeners> Listeners::open(asio::io_context& io, const HttpOptions& options) {
  Listeners opened;
  TRY(opened.take_passed(io, options.passed));
  const std::size_t kept = opened.all_.size();
  std::vector<std::string> hosts;
  // The wildcards come first, and cover others.
  for (const bool every : {true, false}) {
    std::ranges::copy_if(options.hosts, std::back_inserter(hosts),
                         [every](const std::string& host) { return is_every_interface(host) == every; });
  }
  if (hosts.empty() && kept == 0) hosts = {"127.0.0.1"};
  for (int tries = 1;; ++tries) {
    const Status status = opened.add_hosts(io, hosts, options.port);
    if (status) return opened;
    const bool may_try_again = options.port == 0 && status.error().kind == ErrorKind::kBusy;
    if (!may_try_again || tries == kTriesForAFreePort) return status.error();
    opened.all_.resize(kept);
  }
}

Status Listeners::take_passed(asio::io_context& io, const std::vector<os::PassedSocket>& passed) {
  for (const os::PassedSocket& socket : passed) {
    TRY_ASSIGN(std::unique_ptr<Listener> taken, Listener::at_passed(io, socket));
    all_.push_back(std::move(taken));
  }
  return {};
}

Status Listeners::add_hosts(asio::io_context& io, const std::vector<std::string>& hosts, int port) {
  for (const std::string& host : hosts) {
    TRY(add_host(io, host, port));
    if (port == 0) port = all_.back()->place().port;  // of a Unix socket: 0 again
  }
  return {};
}

// A name may have several addresses: the first that can be bound is taken.
Status Listeners::add_host(asio::io_context& io, const std::string& host, int port) {
  if (is_socket_path(host)) {
    TRY_ASSIGN(std::unique_ptr<Listener> opened, Listener::at_path(io, host));
    all_.push_back(std::move(opened));
    return {};
  }
  boost::system::error_code unknown;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, unknown);
  Status status = listen_error(host, port, 0);
  if (unknown) return status;
  for (const auto& entry : found) {
    const tcp::endpoint endpoint = entry.endpoint();
    const auto covers = [&](const auto& listener) { return listener->covers(endpoint); };
    if (std::ranges::any_of(all_, covers)) return {};
    auto opened = Listener::at_endpoint(io, endpoint, host);
    if (opened) {
      all_.push_back(std::move(*opened));
      return {};
    }
    status = opened.error();
  }
  return status;
}

std::vector<ListeningPlace> Listeners::places() const {
  std::vector<ListeningPlace> places;
  for (const auto& listener : all_) places.push_back(listener->place());
  return places;
}

void Listeners::start(const std::function<bool()>& may_accept, const Listener::Take& take) {
  for (const auto& listener : all_) listener->start(may_accept, take);
}

void Listeners::close() {
  for (const auto& listener : all_) listener->close();
}

}  // namespace kvkeep::server
