#pragma once

#include <string>
#include <vector>

namespace kvkeep::os {

// Under which numbers other machines reach this one: IPv4 addresses, then IPv6 ones, of interfaces that are up, without
// loopback and those that hold on one link alone. Empty: there are none, or the system does not tell.
std::vector<std::string> own_addresses();

}  // namespace kvkeep::os
