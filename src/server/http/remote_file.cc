#include "server/http/remote_file.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#ifdef KVKEEP_HAS_CURL
#include <curl/curl.h>
#endif

#include "base/assert.h"

namespace kvkeep::server {

namespace {

constexpr std::string_view kNameSigns = "abcdefghijklmnopqrstuvwxyz0123456789-._";

std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lowered;
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// An entry that has a host and more.
Error not_only_a_host(std::string_view entry) {
  const std::size_t scheme = entry.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::string before = begin == 0 ? "" : "'" + std::string(entry.substr(0, begin)) + "' and ";
  return invalid("'" + std::string(entry) + "' is no host: leave out " + before + "the path, as in '" +
                 std::string(entry.substr(begin, entry.find('/', begin) - begin)) + "'");
}

Result<RemoteHost> parse_host(std::string_view entry) {
  if (entry.find('/') != std::string_view::npos) return not_only_a_host(entry);
  RemoteHost host{.name = lower(entry)};
  const bool in_brackets = entry.starts_with('[');
  const std::size_t end = in_brackets ? entry.find(']') : entry.find(':');
  if (in_brackets && end == std::string_view::npos) return invalid("'" + std::string(entry) + "' lacks a ']'");
  const std::size_t colon = in_brackets ? end + 1 : end;
  if (colon < entry.size()) {
    host.port = entry.substr(colon + 1);
    host.name = lower(entry.substr(in_brackets ? 1 : 0, end - (in_brackets ? 1 : 0)));
    if (entry[colon] != ':' || !is_port(host.port))
      return invalid("'" + std::string(entry) + "' has no port after ':'");
  } else if (in_brackets) {
    host.name = lower(entry.substr(1, end - 1));
  }
  const std::string_view name = std::string_view(host.name).substr(host.name.starts_with("*.") ? 2 : 0);
  const std::string_view signs = in_brackets ? "0123456789abcdef:." : kNameSigns;
  const bool is_name = !name.empty() && name.find_first_not_of(signs) == std::string_view::npos;
  if (!is_name && name != "*") return invalid("'" + std::string(entry) + "' is no host");
  return host;
}

// ---- addresses ----

struct Network {
  std::uint32_t address;
  int bits;
};

// IANA's registry of special-purpose addresses; 224.0.0.0/3 has groups and what is reserved.
constexpr auto kClosed = std::to_array<Network>({{0x00000000, 8},  // 0.0.0.0/8, this network
                                                 {0x0A000000, 8},
                                                 {0x64400000, 10},  // carriers' NAT
                                                 {0x7F000000, 8},
                                                 {0xA9FE0000, 16},  // of a link; clouds answer there
                                                 {0xAC100000, 12},
                                                 {0xC0000000, 24},
                                                 {0xC0000200, 24},
                                                 {0xC0586300, 24},
                                                 {0xC0A80000, 16},
                                                 {0xC6120000, 15},
                                                 {0xC6336400, 24},
                                                 {0xCB007100, 24},
                                                 {0xE0000000, 3}});

bool is_public_v4(std::uint32_t address) {
  return std::ranges::none_of(
      kClosed, [address](const Network& network) { return (address ^ network.address) >> (32 - network.bits) == 0; });
}

std::uint32_t word(std::span<const std::uint8_t, 16> address, std::size_t at) {
  return std::uint32_t{address[at]} << 24 | std::uint32_t{address[at + 1]} << 16 | std::uint32_t{address[at + 2]} << 8 |
         address[at + 3];
}

// Only 2000::/3 is given out, and in it 2001::/23 (Teredo and others), 2001:db8::/32 and 3fff::/20 are not hosts' own.
bool is_public_v6(std::span<const std::uint8_t, 16> address) {
  const std::uint32_t first = word(address, 0);
  const bool begins_empty = first == 0 && word(address, 4) == 0;
  const bool is_mapped = begins_empty && (word(address, 8) == 0xFFFF || word(address, 8) == 0);
  const bool is_translated = first == 0x0064FF9B && word(address, 4) == 0 && word(address, 8) == 0;  // 64:ff9b::/96
  if (is_mapped || is_translated) return is_public_v4(word(address, 12));
  if (first >> 16 == 0x2002) return is_public_v4(first << 16 | word(address, 4) >> 16);  // 6to4
  if (first >> 29 != 1) return false;
  return first >> 9 != 0x20010000U >> 9 && first != 0x20010DB8 && first >> 12 != 0x3FFF0000U >> 12;
}

}  // namespace

Result<std::vector<RemoteHost>> parse_remote_hosts(std::string_view list) {
  std::vector<RemoteHost> hosts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    TRY_ASSIGN(hosts.emplace_back(), parse_host(list.substr(0, comma)));
    if (comma + 1 == list.size()) return invalid("it ends with a comma");
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return hosts;
}

namespace {

// `name` is in lower case.
bool lists_name(const RemoteHost& host, const std::string& name) {
  if (host.name.starts_with("*.")) return name.ends_with(std::string_view(host.name).substr(1));
  return host.name == "*" || host.name == name;
}

bool lists(const RemoteHost& host, const std::string& name, std::string_view port) {
  const bool is_usual = port.empty() || port == "80" || port == "443";
  return (host.port.empty() ? is_usual : host.port == port) && lists_name(host, name);
}

// Returns true if an entry names this very host, and the port with it.
bool is_listed_by_name(const std::vector<RemoteHost>& hosts, std::string_view name, std::string_view port) {
  const std::string wanted = lower(name);
  return std::ranges::any_of(hosts,
                             [&](const RemoteHost& host) { return host.name == wanted && lists(host, wanted, port); });
}

}  // namespace

bool is_listed(const std::vector<RemoteHost>& hosts, std::string_view name, std::string_view port) {
  const std::string wanted = lower(name);
  return std::ranges::any_of(hosts, [&](const RemoteHost& host) { return lists(host, wanted, port); });
}

std::string reason_not_listed(const std::vector<RemoteHost>& hosts, std::string_view name, std::string_view port) {
  const std::string wanted = lower(name);
  const bool by_port = std::ranges::any_of(hosts, [&](const RemoteHost& host) { return lists_name(host, wanted); });
  if (!by_port) return "a host that is not in the server's --allow-remote-media";
  return "a port (" + std::string(port.empty() ? "80 or 443" : port) +
         ") that is not in the server's --allow-remote-media, where a host without a port stands for 80 and 443";
}

bool is_public_address(const std::string& address) {
  in_addr v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return is_public_v4(ntohl(v4.s_addr));
  in6_addr v6{};
  if (inet_pton(AF_INET6, address.c_str(), &v6) == 1)
    return is_public_v6(std::span<const std::uint8_t, 16>(v6.s6_addr));
  return false;
}

#ifndef KVKEEP_HAS_CURL

Result<std::string> fetch_remote(const std::string&, const RemoteRules&, const std::function<bool()>&) {
  return unsupported("this kvkeep was built without libcurl: it fetches nothing");
}

#else

namespace {

constexpr int kMostRedirects = 3;

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

struct UrlParts {
  std::string host;  // without brackets
  std::string port;  // empty: none is named
};

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK || text == nullptr) return {};
  std::string copy = text;
  curl_free(text);
  return copy;
}

// As libcurl itself understands the URL, so that both see the same host.
std::optional<UrlParts> read_url(const std::string& url) {
  const std::unique_ptr<CURLU, FreeUrl> parsed(curl_url());
  if (parsed == nullptr || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const std::string scheme = part_of(parsed.get(), CURLUPART_SCHEME);
  const bool has_user = !part_of(parsed.get(), CURLUPART_USER).empty();
  if ((scheme != "http" && scheme != "https") || has_user) return std::nullopt;
  UrlParts parts{part_of(parsed.get(), CURLUPART_HOST), part_of(parsed.get(), CURLUPART_PORT)};
  if (parts.host.starts_with('[')) parts.host = parts.host.substr(1, parts.host.size() - 2);
  return parts;
}

// One transfer. libcurl holds pointers to it, so it stays where it is.
class Transfer {
 public:
  Transfer(const std::string& url, const RemoteRules& rules, long left_ms, bool may_be_private,
           const std::function<bool()>& gone)
      : rules_(rules), may_be_private_(may_be_private), gone_(gone) {
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TIMEOUT_MS, left_ms);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_USERAGENT, "kvkeep");
    set(CURLOPT_OPENSOCKETFUNCTION, &Transfer::open_socket);
    set(CURLOPT_OPENSOCKETDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Transfer::take_bytes);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    set(CURLOPT_XFERINFODATA, this);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Returns the file, or where to look for it instead.
  Result<std::pair<std::string, std::string>> run() {
    const CURLcode code = curl_easy_perform(easy_.get());
    if (code == CURLE_ABORTED_BY_CALLBACK) return aborted("the client left");
    if (is_private_) return invalid("its host is at a private address");
    if (is_too_large_) return invalid("the file is larger than " + std::to_string(rules_.most_bytes >> 20) + " MiB");
    if (code == CURLE_HTTP_RETURNED_ERROR) {
      long status = 0;
      curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
      return invalid("its host answers with HTTP status " + std::to_string(status));
    }
    if (code != CURLE_OK) return invalid(std::string("it cannot be fetched: ") + curl_easy_strerror(code));
    const char* elsewhere = nullptr;
    curl_easy_getinfo(easy_.get(), CURLINFO_REDIRECT_URL, &elsewhere);
    return std::pair(std::move(bytes_), std::string(elsewhere == nullptr ? "" : elsewhere));
  }

  long spent_ms() const {
    curl_off_t spent_us = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_TOTAL_TIME_T, &spent_us);
    return static_cast<long>(spent_us / 1'000);
  }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    KVKEEP_ASSERT(curl_easy_setopt(easy_.get(), option, value) == CURLE_OK, "libcurl knows its options");
  }

  static curl_socket_t open_socket(void* self, curlsocktype, curl_sockaddr* to) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.is_private_ = !transfer.may_be_private_ && !is_public_address(text_of(to->addr));
    return transfer.is_private_ ? CURL_SOCKET_BAD : ::socket(to->family, to->socktype, to->protocol);
  }

  static std::string text_of(const sockaddr& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* bytes = address.sa_family == AF_INET
                            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&address)->sin_addr)
                            : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
    const bool is_known = inet_ntop(address.sa_family, bytes, text.data(), text.size()) != nullptr;
    return is_known ? text.data() : "";
  }

  // libcurl asks about once a second, also while nothing comes.
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Transfer*>(self)->gone_() ? 1 : 0;
  }

  static std::size_t take_bytes(char* bytes, std::size_t, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.is_too_large_ = count > transfer.rules_.most_bytes - transfer.bytes_.size();
    if (transfer.is_too_large_) return 0;
    transfer.bytes_.append(bytes, count);
    return count;
  }

  const RemoteRules& rules_;
  const bool may_be_private_;
  const std::function<bool()>& gone_;
  std::unique_ptr<CURL, FreeEasy> easy_{curl_easy_init()};
  std::string bytes_;
  bool is_private_ = false;
  bool is_too_large_ = false;
};

bool is_address(const std::string& host) {
  std::array<std::uint8_t, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

Result<std::string> fetch_remote(const std::string& url, const RemoteRules& rules, const std::function<bool()>& gone) {
  std::string target = url;
  long left_ms = rules.longest_ms;
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    const auto parts = read_url(target);
    if (!parts) return invalid(redirects == 0 ? "it is no http: or https: URL" : "it is redirected to no such URL");
    if (!is_listed(rules.hosts, parts->host, parts->port)) {
      return invalid((redirects == 0 ? "it names " : "it is redirected to ") +
                     reason_not_listed(rules.hosts, parts->host, parts->port));
    }
    // "*" lists no address, and an address that is listed with a port opens no other port of it.
    const bool names_itself = is_address(parts->host) && is_listed_by_name(rules.hosts, parts->host, parts->port);
    Transfer transfer(target, rules, left_ms, names_itself, gone);
    TRY_ASSIGN(auto got, transfer.run());
    left_ms = std::max(left_ms - transfer.spent_ms(), 1L);
    if (got.second.empty()) return std::move(got.first);
    target = std::move(got.second);
  }
  return invalid("it is redirected too often");
}

#endif

}  // namespace kvkeep::server
