#include "os/own_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <memory>

namespace kvkeep::os {
namespace {

// "": not one that other machines use.
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

}  // namespace kvkeep::os
