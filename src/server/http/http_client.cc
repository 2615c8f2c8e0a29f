#include "server/http/http_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <optional>

#include "os/clock.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kBodyBytesMax = 64U << 20;

struct Address {
  std::string host;
  int port = 80;
  std::string prefix;  // of every path, without a slash at its end
};

std::optional<int> parse_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port < 1 || port > 65'535) return std::nullopt;
  return port;
}

// Bytes that would end a line of the request's head, or a path in it.
bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7F; });
}

Result<Address> parse_address(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const Error refused = invalid("'" + url + "' is not a URL like http://127.0.0.1:8080");
  if (url.starts_with("https://")) return invalid("'" + url + "': only http is spoken here");
  if (!url.starts_with(kScheme) || has_control(url)) return refused;
  const std::string rest = url.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view place = std::string_view(rest).substr(0, slash);
  Address address{.host = {}, .prefix = rest.substr(slash)};
  while (address.prefix.ends_with('/')) address.prefix.pop_back();
  if (place.starts_with('[')) {  // [::1]:8080
    const std::size_t bracket = place.find(']');
    if (bracket == std::string_view::npos) return refused;
    address.host = place.substr(1, bracket - 1);
    place.remove_prefix(bracket + 1);
  } else {
    address.host = place.substr(0, place.find(':'));
    place.remove_prefix(address.host.size());
  }
  if (!place.empty()) {
    const auto port = place.front() == ':' ? parse_port(place.substr(1)) : std::nullopt;
    if (!port) return refused;
    address.port = *port;
  }
  if (address.host.empty() || address.host.find_first_of(" @") != std::string::npos) return refused;
  return address;
}

Result<httplib::Request> library_request(const ClientRequest& request, const std::string& prefix) {
  httplib::Request out;
  out.method = request.method;
  out.path = prefix + request.path;
  out.body = request.body;
  if (!request.path.starts_with('/') || has_control(out.path) || out.path.find(' ') != std::string::npos) {
    return invalid("'" + request.path + "' is not a path that can be sent");
  }
  for (const auto& [name, value] : request.headers) {
    out.set_header(name, value);
    // The library leaves out what would break the head, without a word.
    if (!out.has_header(name)) return invalid("the header field '" + name + "' cannot be sent");
  }
  if (!request.body.empty() && !out.has_header("Content-Type")) out.set_header("Content-Type", "application/json");
  // Else the library asks before it sends a body of 1 KiB or more, and waits a second where nobody answers that.
  // An empty list of expectations says what no field says.
  if (!out.has_header("Expect")) out.set_header("Expect", "");
  // Compressed bytes would wait for each other.
  if (!out.has_header("Accept-Encoding")) out.set_header("Accept-Encoding", "identity");
  return out;
}

bool asks_to_close(const HeaderList& headers) {
  return std::ranges::any_of(headers, [](const auto& header) {
    return equals_ignoring_case(header.first, "Connection") && equals_ignoring_case(header.second, "close");
  });
}

HeaderList fields_of(const httplib::Headers& headers) { return {headers.begin(), headers.end()}; }

}  // namespace

struct HttpClient::Connection {
  explicit Connection(Address to)
      : address(std::move(to)),
        client(address.host, address.port),
        name(fmt::format("{}:{}", client.host(), address.port)) {
    // From a second on, the library looks names up in a thread that the C library starts per connection: milliseconds
    // each, and beyond what ThreadSanitizer can follow. Below it, connecting is tried again (connect_and_send).
    client.set_connection_timeout(std::chrono::milliseconds(999));
    client.set_keep_alive(true);
    client.set_tcp_nodelay(true);
    client.set_path_encode(false);  // what was recorded is sent
    client.set_follow_location(false);
  }

  // Silence and a broken connection are one error of the library; they are seconds apart.
  bool is_silent(const ClientRequest& request, std::int64_t heard_ns) const {
    return os::elapsed_ms(heard_ns, os::real_clock().monotonic_ns()) >= 0.95 * request.silence_ms;
  }
  httplib::Result connect_and_send(const httplib::Request& out, const ClientRequest& request,
                                   const std::int64_t& heard_ns) {
    while (true) {
      httplib::Result result = client.send(out);
      const bool gave_up_early = result.error() == httplib::Error::ConnectionTimeout && !is_silent(request, heard_ns);
      if (!gave_up_early || stopped) return result;
    }
  }
  Error failure(httplib::Error error, const ClientRequest& request, std::int64_t heard_ns) const;

  const Address address;
  httplib::Client client;
  const std::string name;  // for messages
  bool was_used = false;   // and is open still, as far as we know
  std::atomic<bool> stopped{false};
};

Error HttpClient::Connection::failure(httplib::Error error, const ClientRequest& request, std::int64_t heard_ns) const {
  const std::string what = fmt::format("{} {}: ", request.method, request.path);
  if (stopped) return aborted(what + "stopped");
  switch (error) {
    case httplib::Error::Canceled: return aborted(what + "given up");
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout: return io_error(what + "no connection to " + name);
    default:
      if (is_silent(request, heard_ns))
        return io_error(fmt::format("{}{} sent nothing for {:.3g} s", what, name, request.silence_ms / 1e3));
      return io_error(fmt::format("{}the connection to {} broke ({})", what, name, httplib::to_string(error)));
  }
}

Result<HttpClient> HttpClient::make(const std::string& base_url) {
  TRY_ASSIGN(Address address, parse_address(base_url));
  return HttpClient(std::make_unique<Connection>(std::move(address)));
}

HttpClient::HttpClient(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<ClientReply> HttpClient::send(const ClientRequest& request, const std::function<void(int status)>& on_status,
                                     const std::function<bool(std::string_view bytes)>& on_bytes) {
  Connection& connection = *connection_;
  TRY_ASSIGN(httplib::Request out, library_request(request, connection.address.prefix));
  const std::chrono::milliseconds silence(request.silence_ms);
  connection.client.set_read_timeout(silence);
  connection.client.set_write_timeout(silence);
  connection.client.set_keep_alive(!asks_to_close(request.headers));
  os::Clock& clock = os::real_clock();
  bool heard = false;
  std::int64_t heard_ns = clock.monotonic_ns();
  out.response_handler = [&](const httplib::Response& head) {
    heard = true;
    heard_ns = clock.monotonic_ns();
    on_status(head.status);
    return true;
  };
  out.content_receiver = [&](const char* bytes, std::size_t size, std::size_t /*offset*/, std::size_t /*total*/) {
    heard_ns = clock.monotonic_ns();
    return !connection.stopped && on_bytes({bytes, size});
  };
  if (connection.stopped) return connection.failure(httplib::Error::Canceled, request, heard_ns);
  httplib::Result result = connection.connect_and_send(out, request, heard_ns);
  // A server may close a connection just when it is used again: then nothing was heard, and nothing was done there.
  if (!result && connection.was_used && !heard && result.error() == httplib::Error::Read &&
      !connection.is_silent(request, heard_ns) && !connection.stopped) {
    httplib::Result again = connection.connect_and_send(out, request, heard_ns);
    if (again || again.error() != httplib::Error::Connection) result = std::move(again);
  }
  connection.was_used = static_cast<bool>(result);
  if (!result) return connection.failure(result.error(), request, heard_ns);
  return ClientReply{result->status, fields_of(result->headers)};
}

Result<std::pair<ClientReply, std::string>> HttpClient::send(const ClientRequest& request) {
  std::string body;
  bool too_large = false;
  const auto take = [&](std::string_view bytes) {
    too_large = body.size() + bytes.size() > kBodyBytesMax;
    if (!too_large) body += bytes;
    return !too_large;
  };
  Result<ClientReply> reply = send(request, [](int /*status*/) {}, take);
  if (too_large) return no_space(fmt::format("{} {}: a reply of more than 64 MiB", request.method, request.path));
  if (!reply) return std::move(reply).error();
  return std::pair(std::move(*reply), std::move(body));
}

void HttpClient::stop() {
  connection_->stopped = true;
  connection_->client.stop();
}

}  // namespace kvkeep::server
