#pragma once

// The HTTP server of `serve`, as flags and the machine allow it, and where clients find it.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "named_files.h"
#include "serve_options.h"
#include "server/http/http_server.h"

namespace kvkeep::cli {

// Listens. Raises this process's limit of open files, and has memory of large requests given back: before threads
// start.
Result<std::unique_ptr<server::HttpServer>> listen(const ServeOptions& options, const NamedFiles& files);

// Under which URLs clients reach a server that listens on `host`, first the one for this machine. "0.0.0.0" and "::"
// mean every interface and are no addresses to connect to: then `own_addresses` (os/own_addresses.h) of that kind
// follow, for other machines. Pure.
std::vector<std::string> served_urls(const std::string& host, int port, const std::vector<std::string>& own_addresses);

}  // namespace kvkeep::cli
