#include "os/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "os/descriptor.h"
#include "os/threads.h"

namespace kvkeep::os {
namespace {

// Returns "" for an address that other machines do not use.
std::string reachable(const ifaddrs& entry, int family) {
  const bool is_up = (entry.ifa_flags & IFF_UP) != 0 && (entry.ifa_flags & IFF_LOOPBACK) == 0;
  if (!is_up || entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != family) return {};
  const void* address = &reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr;
  if (family == AF_INET6) {
    const in6_addr& wide = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&wide)) return {};
    address = &wide;
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

bool port_answers(int port) {
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  // A socket that connects to its own port would answer itself: from another address it cannot.
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  if (::bind(probe.get(), plain, sizeof address) != 0) return true;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(probe.get(), plain, sizeof address) == 0) return true;
  if (errno != EINPROGRESS) return errno != ECONNREFUSED;
  constexpr int kSettledMs = 100;  // a listener whose queue is full does not answer
  pollfd wait{.fd = probe.get(), .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t size = sizeof error;
  if (::poll(&wait, 1, kSettledMs) > 0) ::getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error != ECONNREFUSED;
}

}  // namespace

std::vector<std::string> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  std::vector<std::string> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = all.get(); entry != nullptr; entry = entry->ifa_next) {
      if (std::string address = reachable(*entry, family); !address.empty()) found.push_back(std::move(address));
    }
  }
  return found;
}

Result<int> free_port() {
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (probe.get() < 0 || ::bind(probe.get(), plain, size) != 0 || ::getsockname(probe.get(), plain, &size) != 0) {
    return io_error(std::string("no free port: ") + std::strerror(errno));
  }
  return ntohs(address.sin_port);
}

namespace {

// Returns 0, or the number of the error.
int connect_error(const addrinfo& address, int limit_ms) {
  const Descriptor probe(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wait{.fd = probe.get(), .events = POLLOUT, .revents = 0};
  int error = ETIMEDOUT;
  socklen_t size = sizeof error;
  if (::poll(&wait, 1, limit_ms) > 0) ::getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Status try_to_connect(const std::string& host, int port, int limit_ms) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &first); failure != 0) {
    return io_error(host + ": " + ::gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* address = all.get(); address != nullptr; address = address->ai_next) {
    error = connect_error(*address, limit_ms);
    if (error == 0) return {};
  }
  return io_error(host + ":" + std::to_string(port) + ": " + std::strerror(error));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

Result<std::string> resolve_host(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (const int failure = ::getaddrinfo(host.c_str(), nullptr, &wanted, &first); failure != 0) {
    return io_error(host + ": " + ::gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, ::freeaddrinfo);
  std::array<char, NI_MAXHOST> text{};
  const int failure =
      ::getnameinfo(first->ai_addr, first->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  if (failure != 0) return io_error(host + ": " + ::gai_strerror(failure));
  return std::string(text.data());
}

// Shared by who waits and the thread that asks, which may outlive everything: nothing ends a call of the system's.
struct HostResolver::Search {
  Mutex mutex;
  CondVar ended;
  std::optional<Result<std::string>> answer GUARDED_BY(mutex);
};

Result<std::string> HostResolver::resolve(const std::string& host, std::int64_t limit_ms) {
  if (is_address(host)) return host;
  std::shared_ptr<Search> search;
  {
    const MutexLock lock(mutex_);
    auto& known = searches_[host];
    if (known == nullptr) {
      known = std::make_shared<Search>();
      std::thread([own = known, find = find_, host] {
        auto found = find(host);
        const MutexLock held(own->mutex);
        own->answer = std::move(found);
        own->ended.notify_all();
      }).detach();
    }
    search = known;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  const MutexLock waiting(search->mutex);
  while (!search->answer) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) return busy(host + ": no answer of the name server in time");
    search->ended.wait_for(search->mutex, left);
  }
  const Result<std::string> answer = *search->answer;
  const MutexLock lock(mutex_);
  if (const auto known = searches_.find(host); known != searches_.end() && known->second == search) {
    searches_.erase(known);
  }
  return answer;
}

bool wait_for_socket(int socket, Readiness readiness, int limit_ms) {
  const short events = readiness == Readiness::kRead ? POLLIN : POLLOUT;
  pollfd wait{.fd = socket, .events = events, .revents = 0};
  return ::poll(&wait, 1, limit_ms) > 0;
}

bool wait_until_port_is_free(int port, int limit_ms) {
  return wait_until(limit_ms, [port] { return !port_answers(port); });
}

}  // namespace kvkeep::os
