#pragma once

// The running server that a subcommand asks (top, warm, replay) and the key that it sends: flags that they share.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "flag_set.h"

namespace kvkeep::cli {

struct ServerAddress {
  // Without a path, or with that of a proxy. Ends with no slash.
  std::string url = "http://127.0.0.1:8080";

  std::string api_key = {};       // "": none is sent; of a list, as serve takes it, the first one is
  std::string api_key_file = {};  // its first key is sent instead; "": none was named
};

// For a server that answers 401 to a request with this key, or, if it is empty, without one.
Error key_refused(const std::string& key);

// --url with a default, --api-key and --api-key-file: the group "Server" of a command's flags.
std::vector<Flag> address_flags(ServerAddress& address);
// The last two of them, for commands whose --url has no default.
std::vector<Flag> key_flags(ServerAddress& address);

// Parses as FlagSet::parse() does, and completes `address`: a key of the command line replaces those of variables, of
// both kinds, and a base URL with /v1, as clients are told it, loses that.
Result<bool> parse_with_address(const FlagSet& flags, ServerAddress& address, const std::vector<std::string>& arguments,
                                const os::Environment& environment, std::vector<std::string>* files = nullptr);

}  // namespace kvkeep::cli
