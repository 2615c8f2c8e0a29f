#pragma once

// This machine's addresses and ports.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace kvkeep::os {

// Returns the addresses under which other machines reach this one: IPv4, then IPv6, of interfaces that are up, without
// loopback and link-local ones. Empty if there are none, or the system does not report them.
std::vector<std::string> own_addresses();

// Returns a port of the loopback address that is free now.
Result<int> free_port();

// Connects to a TCP port of any machine, and hangs up. kIo, with the reason, if that fails or takes longer than
// `limit_ms`; to find the name's address may take longer.
Status try_to_connect(const std::string& host, int port, int limit_ms);

// Returns true for the text of an IPv4 or IPv6 address. No name server is asked.
bool is_address(const std::string& host);

// Returns the first address of a host, as text. kIo, with the reason, if it has none. May take seconds.
Result<std::string> resolve_host(const std::string& host);

// Finds addresses within a time, also where a name server hangs. Thread safe.
class HostResolver {
 public:
  using Find = std::function<Result<std::string>(const std::string&)>;
  explicit HostResolver(Find find = resolve_host) : find_(std::move(find)) {}
  // Returns what resolve_host() returns, or kBusy after `limit_ms`: then the search goes on, and a later call has its
  // answer. One search for a host goes on at a time.
  Result<std::string> resolve(const std::string& host, std::int64_t limit_ms) EXCLUDES(mutex_);

 private:
  struct Search;
  const Find find_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Search>> searches_ GUARDED_BY(mutex_);  // whose answer nobody has yet
};

// Waits until a socket of a library can be read from, or written to. Returns false after `limit_ms`.
enum class Readiness { kRead, kWrite };
bool wait_for_socket(int socket, Readiness readiness, int limit_ms);

// Returns true as soon as nothing listens at this port of the loopback address, false after `limit_ms`.
bool wait_until_port_is_free(int port, int limit_ms);

}  // namespace kvkeep::os
