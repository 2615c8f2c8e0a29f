#include "os/service_manager.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "os/descriptor.h"

namespace kvkeep::os {
namespace {

constexpr int kFirstPassed = 3;
constexpr int kMostPassed = 32;

// Returns 0 if the variable is missing or no number.
long number_in(const char* variable) {
  const char* text = std::getenv(variable);
  long number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

int socket_option(int descriptor, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

std::string numeric(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

std::string path_in(const sockaddr_un& address, socklen_t size) {
  const std::size_t most = size > offsetof(sockaddr_un, sun_path) ? size - offsetof(sockaddr_un, sun_path) : 0;
  std::string path(address.sun_path, most);
  if (path.starts_with('\0')) return "@" + path.substr(1);
  return path.c_str();
}

Result<PassedSocket> describe(int descriptor) {
  const std::string what = "the service manager passed the descriptor " + std::to_string(descriptor);
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return invalid(what + ", which is no socket");
  }
  if (socket_option(descriptor, SO_TYPE) != SOCK_STREAM || socket_option(descriptor, SO_ACCEPTCONN) != 1) {
    return invalid(what + ", which does not listen for streams: use ListenStream= and Accept=no in its socket unit");
  }
  PassedSocket socket{.descriptor = descriptor};
  if (storage.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
    socket.host = numeric(AF_INET, &address.sin_addr);
    socket.port = ntohs(address.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
    socket.host = numeric(AF_INET6, &address.sin6_addr);
    socket.port = ntohs(address.sin6_port);
  } else if (storage.ss_family == AF_UNIX) {
    socket.path = path_in(reinterpret_cast<const sockaddr_un&>(storage), size);
  } else {
    return invalid(what + ", whose kind of address is not served");
  }
  return socket;
}

std::string text_of(ServiceState state) {
  if (state == ServiceState::kReady) return "READY=1";
  if (state == ServiceState::kStopping) return "STOPPING=1";
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // tells the manager which of its reloads this one answers
  const long long microseconds = static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1'000;
  return "RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds);
}

}  // namespace

Result<std::vector<PassedSocket>> take_passed_sockets() {
  const bool for_us = number_in("LISTEN_PID") == ::getpid();
  const long count = for_us ? number_in("LISTEN_FDS") : 0;
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  if (count > kMostPassed) {
    return invalid("the service manager passed " + std::to_string(count) + " sockets; at most " +
                   std::to_string(kMostPassed) + " are served");
  }
  std::vector<PassedSocket> passed;
  for (int descriptor = kFirstPassed; descriptor < kFirstPassed + count; ++descriptor) {
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    TRY_ASSIGN(PassedSocket socket, describe(descriptor));
    passed.push_back(std::move(socket));
  }
  return passed;
}

void notify_manager(ServiceState state, std::string_view status) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = name == nullptr ? 0 : std::strlen(name);
  if (length < 2 || length >= sizeof address.sun_path || (name[0] != '/' && name[0] != '@')) return;
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const Descriptor sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::string text = text_of(state) + "\nSTATUS=" + std::string(status) + "\n";
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  ::sendto(sender.get(), text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace kvkeep::os
