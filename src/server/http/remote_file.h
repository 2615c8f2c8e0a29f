#pragma once

// Fetches files that requests name by URL, from hosts that the server's owner listed.
//
// A URL comes from a stranger, who must not reach what only this machine can reach. Therefore the host has to be
// listed, the address that its name leads to has to be public, which is looked at when the connection is made (a name
// may lead elsewhere a moment later), each redirect is held to the same rules, and no proxy is asked. An address that
// is itself in the list may be private, at the ports of that entry: its owner put it there.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::server {

// "example.com" or an address; "*.example.com": all hosts below it; "*": all. Each with ":PORT", or for the usual
// ports.
struct RemoteHost {
  std::string name;
  std::string port = {};  // empty: 80 and 443
};

struct RemoteRules {
  std::vector<RemoteHost> hosts = {};  // empty: nothing is fetched
  std::size_t most_bytes = 64U << 20;
  long longest_ms = 10'000;  // for one file, redirects included
};

// Reads a list with commas. kInvalid, a line, for an entry that names no host.
Result<std::vector<RemoteHost>> parse_remote_hosts(std::string_view list);

// Returns true if the list has the host of a URL. `port`: empty if the URL names none.
bool is_listed(const std::vector<RemoteHost>& hosts, std::string_view name, std::string_view port);

// Returns the thing that a URL names and the list lacks: "a host that is not in ...", or a port. Precondition: it is
// not listed.
std::string reason_not_listed(const std::vector<RemoteHost>& hosts, std::string_view name, std::string_view port);

// Returns true for an address, as text, that anybody may reach: not of this machine, of a private network, of a link,
// of a group or reserved. IPv6 forms that stand for an IPv4 address are looked at as that.
bool is_public_address(const std::string& address);

// Any thread; blocks. Gives up within a second or two once `gone` returns true. Errors are a line to be put after the
// file's place in a request: kInvalid if the rules refuse the URL or the host has no such file, kAborted if it gave up,
// kUnsupported if this kvkeep was built without libcurl.
Result<std::string> fetch_remote(
    const std::string& url, const RemoteRules& rules, const std::function<bool()>& gone = [] { return false; });

}  // namespace kvkeep::server
