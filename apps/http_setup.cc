#include "http_setup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "os/machine.h"
#include "os/process.h"

namespace kvkeep::cli {
namespace {

// Files and sockets that the server itself needs, in addition to those of its clients.
constexpr std::size_t kOwnFiles = 256;

// The number of threads that llama-server would use for requests.
int http_threads(const ServeOptions& options) {
  if (options.http_threads) return *options.http_threads;
  return static_cast<int>(std::max(options.model.parallel + 2, os::machine_info().logical_cpus - 1));
}

// Each client takes a file descriptor, and shells allow 1,024 where the system would allow more.
void limit_connections(server::HttpOptions& http) {
  const std::size_t files = os::raise_open_files_limit();
  if (files >= http.connections_max + kOwnFiles) return;
  http.connections_max = files > 2 * kOwnFiles ? files - kOwnFiles : files / 2;
  spdlog::warn(
      "at most {} clients may be connected at a time, and further ones wait: this process may open only {} files "
      "(raise the hard limit, ulimit -Hn)",
      http.connections_max, files);
}

bool is_wide(const std::string& host) { return host.find(':') != std::string::npos; }

std::string url(const std::string& host, int port) {
  return is_wide(host) ? fmt::format("http://[{}]:{}", host, port) : fmt::format("http://{}:{}", host, port);
}

}  // namespace

Result<std::unique_ptr<server::HttpServer>> listen(const ServeOptions& options, const NamedFiles& files) {
  os::keep_memory_returnable();
  server::HttpOptions http = options.http;
  http.threads = http_threads(options);
  limit_connections(http);
  http.api_keys.insert(http.api_keys.end(), files.api_keys.begin(), files.api_keys.end());
  const bool is_local = http.host.starts_with("127.") || http.host == "localhost" || http.host == "::1";
  if (!is_local && http.api_keys.empty()) {
    spdlog::warn("no API key is set: anyone who can reach {} can use this server; set one with --api-key-file",
                 http.host);
  }
  return server::HttpServer::listen(std::move(http));
}

std::vector<std::string> served_urls(const std::string& host, int port, const std::vector<std::string>& own_addresses) {
  const bool everywhere = host == "0.0.0.0" || host == "::";
  if (!everywhere) return {url(host, port)};
  std::vector<std::string> urls = {url(host == "::" ? "::1" : "127.0.0.1", port)};
  for (const std::string& address : own_addresses) {
    if (is_wide(address) == is_wide(host)) urls.push_back(url(address, port));
  }
  return urls;
}

}  // namespace kvkeep::cli
