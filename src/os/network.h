#pragma once

// This machine's addresses and ports.

#include <string>
#include <vector>

#include "base/result.h"

namespace kvkeep::os {

// Under which numbers other machines reach this one: IPv4 addresses, then IPv6 ones, of interfaces that are up, without
// loopback and those that hold on one link alone. Empty: there are none, or the system does not tell.
std::vector<std::string> own_addresses();

// A free port of the loopback address, as of now.
Result<int> free_port();

// Returns true as soon as nobody listens at this port of the loopback address, false after `limit_ms`.
bool wait_until_port_is_free(int port, int limit_ms);

}  // namespace kvkeep::os
