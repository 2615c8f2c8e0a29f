#pragma once

// Makes the HTTP server of `serve` from its flags and the machine's limits, and tells the URLs that clients can use.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "named_files.h"
#include "serve_options.h"
#include "server/http/http_server.h"

namespace kvkeep::cli {

// Listens. Raises this process's limit of open files, and makes the allocator give back the memory of large requests;
// call it before threads start.
Result<std::unique_ptr<server::HttpServer>> listen(const ServeOptions& options, const NamedFiles& files);

// Returns the URLs of a server that listens on `host`, the one for this machine first. "0.0.0.0" and "::" mean every
// interface and are no addresses to connect to: `own_addresses` (os/network.h) of their kind follow, for other
// machines. Pure.
std::vector<std::string> served_urls(const std::string& host, int port, const std::vector<std::string>& own_addresses);

}  // namespace kvkeep::cli
