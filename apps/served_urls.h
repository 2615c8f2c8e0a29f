#pragma once

#include <string>
#include <vector>

namespace kvkeep::cli {

// Under which URLs clients reach a server that listens on `host`, first the one for this machine. "0.0.0.0" and "::"
// mean every interface and are no addresses to connect to: then `own_addresses` (os/own_addresses.h) of that kind
// follow, for other machines. Pure.
std::vector<std::string> served_urls(const std::string& host, int port, const std::vector<std::string>& own_addresses);

}  // namespace kvkeep::cli
