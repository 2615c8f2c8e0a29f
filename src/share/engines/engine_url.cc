#include "share/engines/engine_url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "os/paths.h"

namespace kvkeep::share {
namespace {

constexpr int kValkeyPort = 6379;
constexpr std::size_t kMostHosts = 64;
constexpr std::size_t kMostUrlBytes = 4096;
constexpr std::size_t kMostSecretBytes = 4096;
using Options = std::map<std::string, std::string, std::less<>>;

// It may hold a password, which must not get into logs, though none is taken from here.
std::string without_user(std::string_view text) {
  const std::size_t at = text.rfind('@');
  return at == std::string_view::npos ? std::string(text) : "..." + std::string(text.substr(at));
}

Error misspelled(std::string_view text) {
  return invalid(
      "the shared tier's URL '" + without_user(text) +
      "' is none of valkey://HOST[:PORT][,...], valkeys://..., s3://BUCKET[/PREFIX]?endpoint=URL, dir:/PATH");
}

std::optional<std::uint64_t> to_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Splits "rest?name=value&name=value". Fails for an option that is not among `known`, or is given twice.
Result<Options> take_options(std::string_view& rest, std::initializer_list<std::string_view> known) {
  Options options;
  const std::size_t mark = rest.find('?');
  if (mark == std::string_view::npos) return options;
  std::string_view left = rest.substr(mark + 1);
  rest = rest.substr(0, mark);
  while (!left.empty()) {
    const std::string_view option = left.substr(0, left.find('&'));
    left.remove_prefix(std::min(left.size(), option.size() + 1));
    const std::size_t equals = option.find('=');
    const std::string_view name = option.substr(0, equals);
    const bool is_known = std::ranges::find(known, name) != known.end();
    if (equals == std::string_view::npos || equals + 1 == option.size() || !is_known ||
        !options.emplace(name, option.substr(equals + 1)).second) {
      return invalid("the shared tier's URL has an unknown or empty option '" + std::string(name) + "'");
    }
  }
  return options;
}

std::optional<HostPort> parse_host(std::string_view text) {
  HostPort host{.host = {}, .port = kValkeyPort};
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const std::size_t colon = text.find(':');
    host.host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon);
  }
  if (host.host.empty() || host.host.find_first_of("/@ ") != std::string::npos) return std::nullopt;
  if (port.empty()) return host;
  const auto number = port.starts_with(':') ? to_number(port.substr(1)) : std::nullopt;
  if (!number || *number == 0 || *number > 65'535) return std::nullopt;
  host.port = static_cast<int>(*number);
  return host;
}

bool is_this_machine(std::string_view host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// Which part of a node is wrong.
Error misspelled_node(std::string_view node, const EngineUrl& url) {
  const std::string shown = "'" + std::string(node) + "'";
  if (node.contains("://")) {
    return invalid("the node " + shown +
                   " of the shared tier's URL has a scheme, which stands before the first one only");
  }
  if (node.contains('/'))
    return invalid("the node " + shown + " names a database: kvkeep uses database 0, leave it out");
  if (node.contains(' ')) return invalid("the node " + shown + " of the shared tier's URL has a blank");
  const std::size_t colon = node.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return misspelled(url.text);
  return invalid("the port of the node " + shown + " is no number from 1 to 65535");
}

Status parse_valkey(std::string_view rest, EngineUrl& url) {
  TRY_ASSIGN(const Options options, take_options(rest, {"ca"}));
  if (const auto ca = options.find("ca"); ca != options.end()) url.ca_file = ca->second;
  if (!url.ca_file.empty() && !url.tls) return invalid("the option ca= needs valkeys://, which uses TLS");
  if (rest.ends_with('/')) rest.remove_suffix(1);  // other programs print URLs so
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one.find('@') != std::string_view::npos) {
      return invalid("the shared tier's URL must not contain a password: set KVKEEP_SHARE_PASSWORD_FILE");
    }
    const auto host = parse_host(one);
    if (!host) return misspelled_node(one, url);
    url.hosts.push_back(*host);
  }
  if (url.hosts.empty() || url.hosts.size() > kMostHosts) return misspelled(url.text);
  return {};
}

bool is_key_text(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '.' || letter == '-' ||
           letter == '_' || letter == '/';
  });
}

Status parse_s3(std::string_view rest, EngineUrl& url) {
  TRY_ASSIGN(Options options, take_options(rest, {"endpoint", "region", "ca"}));
  const std::size_t slash = rest.find('/');
  url.bucket = rest.substr(0, slash);
  if (slash != std::string_view::npos) url.prefix = rest.substr(slash + 1);
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  if (url.bucket.size() < 3) return invalid("the bucket of the shared tier has fewer than 3 letters");
  if (!is_key_text(url.bucket) || !is_key_text(url.prefix) || url.prefix.starts_with('/')) {
    return invalid("the bucket and prefix of the shared tier may have lower-case letters, digits and . - _ only");
  }
  url.region = options.contains("region") ? options["region"] : "us-east-1";
  url.endpoint = options.contains("endpoint") ? options["endpoint"] : "https://s3." + url.region + ".amazonaws.com";
  url.ca_file = options["ca"];
  while (url.endpoint.ends_with('/')) url.endpoint.pop_back();
  const bool is_http = url.endpoint.starts_with("http://") || url.endpoint.starts_with("https://");
  if (!is_http || url.endpoint.find('@') != std::string::npos) {
    return invalid("the endpoint of the shared tier must be http://HOST[:PORT] or https://HOST[:PORT]");
  }
  return {};
}

Status parse_directory(std::string_view rest, EngineUrl& url) {
  TRY_ASSIGN(const Options options, take_options(rest, {"limit-gb"}));
  if (!rest.starts_with('/')) return invalid("the directory of the shared tier must be an absolute path: dir:/PATH");
  url.path = rest;
  while (url.path.size() > 1 && url.path.ends_with('/')) url.path.pop_back();
  if (const auto limit = options.find("limit-gb"); limit != options.end()) {
    const auto number = to_number(limit->second);
    if (!number || *number == 0 || *number > 1'000'000) return invalid("limit-gb must be a number from 1 to 1000000");
    url.limit = mebibytes(*number * 1024);
  }
  return {};
}

std::string value_of(const os::Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

// A variable, or the contents of the file that the variable NAME_FILE names.
Result<std::string> variable_or_file(const os::Environment& environment, const std::string& name) {
  const std::string file = value_of(environment, name + "_FILE");
  const std::string value = value_of(environment, name);
  if (!file.empty() && !value.empty()) return invalid(name + " and " + name + "_FILE are both set: unset one of them");
  return file.empty() ? Result<std::string>(value) : read_secret_file(file);
}

}  // namespace

Result<EngineUrl> parse_engine_url(std::string_view text) {
  EngineUrl url{.text = std::string(text)};
  if (text.size() > kMostUrlBytes) return invalid("the shared tier's URL is too long");
  struct Scheme {
    std::string_view prefix;
    EngineKind kind;
    bool tls;
    Status (*parse)(std::string_view, EngineUrl&);
  };
  static constexpr std::array<Scheme, 6> kSchemes{{
      {"valkey://", EngineKind::kValkey, false, parse_valkey},
      {"valkeys://", EngineKind::kValkey, true, parse_valkey},
      {"redis://", EngineKind::kValkey, false, parse_valkey},
      {"rediss://", EngineKind::kValkey, true, parse_valkey},
      {"s3://", EngineKind::kS3, false, parse_s3},
      {"dir:", EngineKind::kDirectory, false, parse_directory},
  }};
  for (const Scheme& scheme : kSchemes) {
    if (!text.starts_with(scheme.prefix)) continue;
    url.kind = scheme.kind;
    url.tls = scheme.tls;
    TRY(scheme.parse(text.substr(scheme.prefix.size()), url));
    return url;
  }
  return misspelled(text);
}

Result<std::string> read_secret_file(const std::string& path) {
  auto text = os::read_private_file(path, kMostSecretBytes);
  if (!text.ok()) return Error{text.error().kind, "the secret's file " + text.error().message};
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  if (text->empty()) return invalid("the secret's file " + path + " is empty");
  if (text->find_first_of("\n\r") != std::string::npos) {
    return invalid("the secret's file " + path + " has more than one line: it must hold the secret and nothing else");
  }
  return text;
}

std::vector<std::string> exposed_secrets(const EngineUrl& url, const EngineSecrets& secrets) {
  std::vector<std::string> exposed;
  const bool is_far = std::ranges::any_of(url.hosts, [](const HostPort& one) { return !is_this_machine(one.host); });
  if (url.kind == EngineKind::kValkey && !url.tls && is_far && !secrets.password.empty()) {
    exposed.push_back("the password goes to " + url.text +
                      " in clear: use valkeys://, or a network that nobody listens to");
  }
  constexpr std::string_view kClear = "http://";
  if (url.kind != EngineKind::kS3 || !url.endpoint.starts_with(kClear) || secrets.session_token.empty()) return exposed;
  const auto host = parse_host(std::string_view(url.endpoint).substr(kClear.size()));
  if (!host || !is_this_machine(host->host)) {
    exposed.push_back("AWS_SESSION_TOKEN goes to " + url.endpoint + " in clear: use an https:// endpoint");
  }
  return exposed;
}

Result<EngineSecrets> read_engine_secrets(const os::Environment& environment) {
  EngineSecrets secrets;
  secrets.user = value_of(environment, "KVKEEP_SHARE_USER");
  secrets.access_key = value_of(environment, "AWS_ACCESS_KEY_ID");
  secrets.session_token = value_of(environment, "AWS_SESSION_TOKEN");
  TRY_ASSIGN(secrets.password, variable_or_file(environment, "KVKEEP_SHARE_PASSWORD"));
  const std::string file = value_of(environment, "KVKEEP_SHARE_PASSWORD_FILE");
  secrets.password_from = file.empty() ? "KVKEEP_SHARE_PASSWORD" : "the file " + file;
  TRY_ASSIGN(secrets.secret_key, variable_or_file(environment, "AWS_SECRET_ACCESS_KEY"));
  return secrets;
}

}  // namespace kvkeep::share
