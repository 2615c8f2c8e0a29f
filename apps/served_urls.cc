#include "served_urls.h"

#include <fmt/format.h>

namespace kvkeep::cli {
namespace {

bool is_wide(const std::string& host) { return host.find(':') != std::string::npos; }

std::string url(const std::string& host, int port) {
  return is_wide(host) ? fmt::format("http://[{}]:{}", host, port) : fmt::format("http://{}:{}", host, port);
}

}  // namespace

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
