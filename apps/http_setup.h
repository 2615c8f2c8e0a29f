#pragma once

// Makes the HTTP server of `serve` from its flags and the machine's limits, and finds the URLs that clients can use.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "named_files.h"
#include "os/process.h"
#include "serve_options.h"
#include "server/http/http_server.h"

namespace kvkeep::cli {

// Listens at the places that the flags name, and at the sockets that a service manager passed (socket activation);
// those replace the default address. Raises this process's limit of open files, and makes the allocator give back the
// memory of large requests; call it once, before threads start.
Result<std::unique_ptr<server::HttpServer>> listen(const ServeOptions& options, const NamedFiles& files);

// How clients reach a server.
struct Reach {
  std::vector<std::string> urls;          // of each address, from this machine at least
  std::vector<std::string> wide_urls;     // from other machines, where the server listens on every interface
  std::vector<std::string> socket_paths;  // of Unix sockets
};

// "0.0.0.0" and "::" mean every interface and are no addresses to connect to: `own_addresses` (os/network.h) are what
// other machines use; with "::" those of IPv4 too. Pure.
Reach reach_of(const std::vector<server::ListeningPlace>& places, const std::vector<std::string>& own_addresses);

// Google's Vertex AI starts a container with variables instead of flags, and asks it at the paths that they name.
// With AIP_MODE=PREDICTION the server listens at AIP_HTTP_PORT, and serves AIP_PREDICT_ROUTE (/predict) and
// AIP_HEALTH_ROUTE. Without that value nothing changes.
Status obey_vertex(const os::Environment& environment, ServeOptions& options);

// ---- --path ----
//
// The files below the directory, for browsers. They are read once, when the server starts: a request then never reaches
// the file system, so that no name in it can lead out of the directory. Links are not followed.

inline constexpr std::size_t kMostWebFiles = 4'096;
inline constexpr std::size_t kMostWebBytes = std::size_t{64} << 20;  // of all files together

struct WebFile {
  std::string path;  // of the URL, not percent-encoded: "/", "/index.html", "/assets/app.js"
  std::string type;  // for Content-Type
  std::shared_ptr<const std::string> bytes;
};

// Reads all files below the directory whose names can be asked for and do not begin with a dot. "/" and each "/folder/"
// get the folder's index.html. Empty if `directory` is. Errors name the flag; kInvalid if there are more than the
// limits above allow.
Result<std::vector<WebFile>> read_web_files(const std::string& directory, os::FileSystem& files);

// Adds a route for each file, after the API's routes: a file at the path of one of them is left out, with a warning.
// Only "/" needs no API key, as with llama-server. The path of a folder with an index.html leads to that.
void serve_web_files(server::HttpServer& http, const std::vector<WebFile>& files);

}  // namespace kvkeep::cli
