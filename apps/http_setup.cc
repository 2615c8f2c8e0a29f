#include "http_setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "flag_values.h"
#include "os/machine.h"
#include "os/service_manager.h"

namespace kvkeep::cli {
namespace {

// Files and sockets that the server itself needs, in addition to those of its clients.
constexpr std::size_t kOwnFiles = 256;

// The number of threads that llama-server would use for requests.
int http_threads(const ServeOptions& options) {
  if (options.http_threads) return *options.http_threads;
  return static_cast<int>(std::max(options.model.parallel + 2, os::machine_info().logical_cpus - 1));
}

// The queue is the narrower door: its refusals are in the caller's protocol, and what it refuses passes the wider one.
void admit_queue(server::HttpOptions& http, std::size_t replies) {
  constexpr std::size_t kOthers = 1'024;
  http.requests_max = std::max(http.requests_max, replies + kOthers);
  http.connections_max = std::max(http.connections_max, 2 * http.requests_max);
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

bool is_ipv6(const std::string& host) { return host.find(':') != std::string::npos; }

// Other machines cannot reach it.
bool is_of_this_machine(const std::string& host) {
  return host.empty() || server::is_socket_path(host) || host.starts_with("127.") || host == "localhost" ||
         host == "::1";
}

// Returns the addresses at which other machines may reach a server.
std::vector<std::string> open_hosts(const server::HttpOptions& http) {
  std::vector<std::string> hosts = http.hosts;
  for (const os::PassedSocket& socket : http.passed) hosts.push_back(socket.host);
  std::erase_if(hosts, is_of_this_machine);
  return hosts;
}

std::string url(const std::string& host, int port) {
  return is_ipv6(host) ? fmt::format("http://[{}]:{}", host, port) : fmt::format("http://{}:{}", host, port);
}

}  // namespace

Result<std::unique_ptr<server::HttpServer>> listen(const ServeOptions& options, const NamedFiles& files) {
  os::keep_memory_returnable();
  server::HttpOptions http = options.http;
  http.threads = http_threads(options);
  admit_queue(http, options.model.parallel + options.queue_limit);
  limit_connections(http);
  http.api_keys.insert(http.api_keys.end(), files.api_keys.begin(), files.api_keys.end());
  TRY_ASSIGN(http.passed, os::take_passed_sockets());
  // A manager's sockets stand for the default address, but not for one that was asked for.
  if (http.hosts.empty() && (http.passed.empty() || options.names_port)) http.hosts = {"127.0.0.1"};
  if (const std::vector<std::string> open = open_hosts(http); !open.empty() && http.api_keys.empty()) {
    spdlog::warn("no API key is set: anyone who can reach {} can use this server; set one with --api-key-file",
                 fmt::join(open, " or "));
  }
  return server::HttpServer::listen(std::move(http));
}

Reach reach_of(const std::vector<server::ListeningPlace>& places, const std::vector<std::string>& own_addresses) {
  Reach reach;
  for (const auto& [host, port, path] : places) {
    if (!path.empty()) {
      reach.socket_paths.push_back(path);
      continue;
    }
    const bool takes_ipv6 = host == "::";  // and IPv4
    const bool takes_all = server::is_every_interface(host);
    reach.urls.push_back(url(!takes_all ? host : takes_ipv6 ? "::1" : "127.0.0.1", port));
    if (takes_ipv6) reach.urls.push_back(url("127.0.0.1", port));
    for (const std::string& address : own_addresses) {
      if (takes_all && (takes_ipv6 || !is_ipv6(address))) reach.wide_urls.push_back(url(address, port));
    }
  }
  return reach;
}

namespace {

constexpr const char* kDefaultPredictPath = "/predict";
constexpr const char* kDefaultHealthPath = "/health";

Result<std::string> path_in(const os::Environment& environment, const char* variable, const char* otherwise) {
  const auto found = environment.find(variable);
  if (found == environment.end() || found->second.empty()) return std::string(otherwise);
  if (!found->second.starts_with('/')) {
    return invalid(fmt::format("{}: '{}' is no path: it must begin with '/'", variable, found->second));
  }
  return found->second;
}

}  // namespace

Status obey_vertex(const os::Environment& environment, ServeOptions& options) {
  const auto mode = environment.find("AIP_MODE");
  if (mode == environment.end() || mode->second != "PREDICTION") return {};
  TRY_ASSIGN(std::string predict, path_in(environment, "AIP_PREDICT_ROUTE", kDefaultPredictPath));
  TRY_ASSIGN(std::string health, path_in(environment, "AIP_HEALTH_ROUTE", kDefaultHealthPath));
  options.endpoints.vertex = {std::move(predict), std::move(health)};
  const auto port = environment.find("AIP_HTTP_PORT");
  if (port == environment.end() || port->second.empty()) return {};
  const Result<int> number = parse_number(port->second, 1, 65'535);
  if (!number) return invalid("AIP_HTTP_PORT: " + number.error().message);
  options.http.port = *number;
  options.names_port = true;
  return {};
}

}  // namespace kvkeep::cli
