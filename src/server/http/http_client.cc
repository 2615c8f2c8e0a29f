#include "server/http/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "os/clock.h"

namespace kvkeep::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using BeastText = boost::beast::string_view;

constexpr std::size_t kBodyBytesMax = 64U << 20;
constexpr std::uint32_t kHeadBytesMax = 64 << 10;
constexpr int kMostInterimReplies = 100;

std::string_view text_of(BeastText text) { return {text.data(), text.size()}; }

struct Address {
  std::string host;
  int port = 80;
  std::string prefix;  // added before every path; no slash at its end

  std::string host_field() const {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return fmt::format("{}:{}", is_ipv6 ? "[" + host + "]" : host, port);
  }
};

bool names(const HeaderList& fields, std::string_view name) {
  return std::ranges::any_of(fields, [&](const auto& field) { return equals_ignoring_case(field.first, name); });
}

std::optional<int> parse_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port < 1 || port > 65'535) return std::nullopt;
  return port;
}

// Returns true if the text has bytes that would end a line of the request's head, or a path in it.
bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7F; });
}

Result<Address> parse_address(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const Error refused = invalid("'" + url + "' is not a URL like http://127.0.0.1:8080");
  if (url.starts_with("https://")) return invalid("'" + url + "': only http is supported");
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

// Returns the request's head and body. kInvalid if the server would read some of it differently.
Result<std::string> request_bytes(const ClientRequest& request, const Address& address) {
  const std::string path = address.prefix + request.path;
  if (!request.path.starts_with('/') || has_control(path) || path.find(' ') != std::string::npos) {
    return invalid("'" + request.path + "' cannot be sent as a path");
  }
  std::string bytes = fmt::format("{} {} HTTP/1.1\r\n", request.method, path);
  const auto add = [&](std::string_view name, std::string_view value) {
    bytes.append(name).append(": ").append(value).append("\r\n");
  };
  const auto add_unless_given = [&](std::string_view name, std::string_view value) {
    if (!names(request.headers, name)) add(name, value);
  };
  add_unless_given("Host", address.host_field());
  for (const auto& [name, value] : request.headers) {
    if (name.empty() || has_control(name) || name.find_first_of(" :") != std::string::npos || has_control(value)) {
      return invalid("the header field '" + name + "' cannot be sent");
    }
    add(name, value);
  }
  if (!request.body.empty()) add_unless_given("Content-Type", "application/json");
  if (!request.body.empty() || request.method == "POST") add("Content-Length", std::to_string(request.body.size()));
  add_unless_given("Accept-Encoding", "identity");  // compressed bytes would be held back to be packed together
  return bytes + "\r\n" + request.body;
}

bool asks_to_close(const HeaderList& headers) {
  return std::ranges::any_of(headers, [](const auto& header) {
    return equals_ignoring_case(header.first, "Connection") && equals_ignoring_case(header.second, "close");
  });
}

// Reads one reply; interim ones (100 to 199) are skipped.
class ReplyGrammar final : public http::basic_parser<false> {
 public:
  using OnBytes = std::function<bool(std::string_view bytes)>;
  // `has_body`: false for the reply to a HEAD, which announces a body that does not come.
  ReplyGrammar(bool has_body, const std::function<void(int status)>& on_status, const OnBytes& on_bytes)
      : on_status_(on_status), on_bytes_(on_bytes) {
    header_limit(kHeadBytesMax);
    body_limit(boost::none);
    eager(true);
    skip(!has_body);
  }
  ClientReply reply;
  bool given_up = false;
  bool is_interim() const { return reply.status < 200; }
  bool has_final_head() const { return is_header_done() && !is_interim(); }

 private:
  void on_request_impl(http::verb /*known*/, BeastText /*method*/, BeastText /*target*/, int /*version*/,
                       ErrorCode& error) override {
    error = http::error::bad_version;
  }
  void on_response_impl(int status, BeastText /*reason*/, int /*version*/, ErrorCode& error) override {
    reply.status = status;
    error = {};
  }
  void on_field_impl(http::field /*known*/, BeastText name, BeastText value, ErrorCode& error) override {
    if (!is_header_done()) reply.headers.emplace_back(text_of(name), text_of(value));
    error = {};
  }
// Newer releases report trailer fields separately, older ones do not have the function.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winconsistent-missing-override"
#endif
  void on_trailer_field_impl(http::field /*known*/, BeastText /*name*/, BeastText /*value*/, ErrorCode& error) {
    error = {};
  }
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
  void on_header_impl(ErrorCode& error) override {
    if (!is_interim()) on_status_(reply.status);
    error = {};
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/, ErrorCode& error) override { error = {}; }
  std::size_t on_body_impl(BeastText bytes, ErrorCode& error) override {
    error = {};
    given_up = !on_bytes_(text_of(bytes));
    if (given_up) error = asio::error::operation_aborted;
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/, BeastText /*extensions*/, ErrorCode& error) override { error = {}; }
  std::size_t on_chunk_body_impl(std::uint64_t /*left*/, BeastText bytes, ErrorCode& error) override {
    return on_body_impl(bytes, error);
  }
  void on_finish_impl(ErrorCode& error) override { error = {}; }

  const std::function<void(int status)>& on_status_;
  const OnBytes& on_bytes_;
};

}  // namespace

// A blocking connection with a limit on silence: an operation is begun, and `io` runs until it has ended.
struct HttpClient::Connection {
  explicit Connection(Address to) : address(std::move(to)), name(fmt::format("{}:{}", address.host, address.port)) {}

  // How one request ended.
  enum class End { kReply, kNoConnection, kBroken, kSilent, kInterimOnly, kGivenUp, kStopped };

  End send(const std::string& bytes, const ClientRequest& request, ReplyGrammar& grammar);
  End connect();
  End write(std::string_view bytes);
  End read(ReplyGrammar& grammar);
  End parse(ReplyGrammar& grammar);
  void close();
  Error failure(End end, const ClientRequest& request) const;

  // Runs until the operation that `begin` starts is over; sets `error` and `moved`, and returns nullopt then.
  template <typename Begin>
  std::optional<End> run(Begin begin) {
    bool ended = false;
    begin([&](const ErrorCode& result, std::size_t count) {
      error = result;
      moved = count;
      ended = true;
    });
    std::optional<End> why;
    io.restart();
    while (!ended) {
      const std::int64_t left_ns = waits_from_ns + silence_ns - os::real_clock().monotonic_ns();
      if (!why && stopped) why = End::kStopped;
      if (!why && left_ns <= 0) why = End::kSilent;
      if (why) close();  // ends the operation
      io.run_one_for(std::chrono::nanoseconds(why ? kLongNs : left_ns));
    }
    return why;
  }

  static constexpr std::int64_t kLongNs = 1'000'000'000;

  const Address address;
  const std::string name;  // for messages
  asio::io_context io{1};
  tcp::socket socket{io};
  std::string input;  // received, but not of a reply yet
  std::vector<char> buffer = std::vector<char>(64 << 10);
  bool was_used = false;           // and still open, as far as is known
  bool heard = false;              // a byte of this reply came
  std::int64_t heard_ns = 0;       // its last byte came, or the request's last one went
  std::int64_t waits_from_ns = 0;  // from then on, silence_ns are all that the server has for its next step
  std::int64_t silence_ns = 0;
  Within within = Within::kBytes;
  ErrorCode error;
  std::size_t moved = 0;
  std::atomic<bool> stopped{false};
};

void HttpClient::Connection::close() {
  ErrorCode ignored;
  socket.close(ignored);
  input.clear();
  was_used = false;
}

HttpClient::Connection::End HttpClient::Connection::connect() {
  tcp::resolver resolver(io);
  const auto places = resolver.resolve(address.host, std::to_string(address.port), error);
  for (const auto& place : places) {
    close();
    const auto why = run([&](auto done) {
      socket.async_connect(place.endpoint(), [done](const ErrorCode& result) { done(result, 0); });
    });
    if (why) return *why;
    if (error) continue;
    ErrorCode ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    return End::kReply;
  }
  return End::kNoConnection;
}

HttpClient::Connection::End HttpClient::Connection::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto why =
        run([&](auto done) { socket.async_write_some(asio::buffer(bytes.data(), bytes.size()), std::move(done)); });
    if (why) return *why;
    if (error) return End::kBroken;
    bytes.remove_prefix(moved);
    heard_ns = waits_from_ns = os::real_clock().monotonic_ns();  // the server takes what is sent
  }
  return End::kReply;
}

// Returns kReply when the grammar has its reply.
HttpClient::Connection::End HttpClient::Connection::read(ReplyGrammar& grammar) {
  while (true) {
    if (!input.empty()) {
      const bool had_head = grammar.has_final_head();
      if (const End end = parse(grammar); end != End::kReply || grammar.is_done()) return end;
      const bool is_step = grammar.has_final_head() && (!had_head || within == Within::kBytes);
      if (is_step) waits_from_ns = heard_ns;
    }
    const auto why = run([&](auto done) { socket.async_read_some(asio::buffer(buffer), std::move(done)); });
    if (why) return *why;
    if (error == asio::error::eof && heard && grammar.has_final_head()) {
      grammar.put_eof(error);
      was_used = false;
      return error ? End::kBroken : End::kReply;
    }
    if (error) return End::kBroken;
    heard = true;
    heard_ns = os::real_clock().monotonic_ns();
    input.append(buffer.data(), moved);
  }
}

// Parses as much of the input as it can.
HttpClient::Connection::End HttpClient::Connection::parse(ReplyGrammar& grammar) {
  const std::size_t used = grammar.put(asio::const_buffer(input.data(), input.size()), error);
  input.erase(0, used);
  if (grammar.given_up) return End::kGivenUp;
  return error && error != http::error::need_more ? End::kBroken : End::kReply;
}

HttpClient::Connection::End HttpClient::Connection::send(const std::string& bytes, const ClientRequest& request,
                                                         ReplyGrammar& grammar) {
  silence_ns = request.silence_ms * 1'000'000LL;
  heard_ns = waits_from_ns = os::real_clock().monotonic_ns();
  heard = false;
  if (!was_used) {
    if (const End end = connect(); end != End::kReply) return end;
  }
  was_used = true;
  // A server may refuse a request and close while the rest is sent: its reply is there all the same.
  if (const End end = write(bytes); end != End::kReply && end != End::kBroken) return end;
  return read(grammar);
}

Error HttpClient::Connection::failure(End end, const ClientRequest& request) const {
  const std::string what = fmt::format("{} {}: ", request.method, request.path);
  switch (end) {
    case End::kStopped: return aborted(what + "stopped");
    case End::kGivenUp: return aborted(what + "abandoned");
    case End::kNoConnection: return io_error(what + "no connection to " + name);
    case End::kSilent: {
      const bool was_heard =
          heard && os::elapsed_ms(heard_ns, os::real_clock().monotonic_ns()) < request.silence_ms / 2.0;
      return io_error(fmt::format("{}{} sent {} for {:.3g} s", what, name, was_heard ? "no whole reply" : "nothing",
                                  request.silence_ms / 1e3));
    }
    case End::kInterimOnly:
      return io_error(
          fmt::format("{}{} sent {} interim replies (100 Continue...), and no other", what, name, kMostInterimReplies));
    case End::kBroken:
    case End::kReply: break;
  }
  return io_error(fmt::format("{}the connection to {} broke ({})", what, name, error.message()));
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
  return send(request, Within::kBytes, on_status, on_bytes);
}

Result<ClientReply> HttpClient::send(const ClientRequest& request, Within within,
                                     const std::function<void(int status)>& on_status,
                                     const std::function<bool(std::string_view bytes)>& on_bytes) {
  using End = Connection::End;
  Connection& connection = *connection_;
  connection.within = within;
  TRY_ASSIGN(const std::string bytes, request_bytes(request, connection.address));
  const bool is_reused = connection.was_used;
  const bool has_body = request.method != "HEAD";
  for (int attempt = 1;; ++attempt) {
    std::optional<ReplyGrammar> grammar(std::in_place, has_body, on_status, on_bytes);
    End end = connection.stopped ? End::kStopped : connection.send(bytes, request, *grammar);
    for (int interim = 1; end == End::kReply && grammar->is_interim(); ++interim) {
      grammar.emplace(has_body, on_status, on_bytes);
      end = interim < kMostInterimReplies ? connection.read(*grammar) : End::kInterimOnly;
    }
    const bool may_go_on = end == End::kReply && grammar->keep_alive() && !asks_to_close(request.headers);
    if (!may_go_on) connection.close();
    if (end == End::kReply) return std::move(grammar->reply);
    // A server may close a connection just when it is used again: if no byte came back, the server did nothing.
    const bool again = end == End::kBroken && is_reused && !connection.heard && attempt == 1;
    if (!again) return connection.failure(end, request);
  }
}

Result<std::pair<ClientReply, std::string>> HttpClient::send(const ClientRequest& request) {
  std::string body;
  bool too_large = false;
  const auto take = [&](std::string_view bytes) {
    too_large = body.size() + bytes.size() > kBodyBytesMax;
    if (!too_large) body += bytes;
    return !too_large;
  };
  Result<ClientReply> reply = send(request, Within::kWholeBody, [](int /*status*/) {}, take);
  if (too_large) return no_space(fmt::format("{} {}: a reply of more than 64 MiB", request.method, request.path));
  if (!reply) return std::move(reply).error();
  return std::pair(std::move(*reply), std::move(body));
}

void HttpClient::stop() {
  connection_->stopped = true;
  asio::post(connection_->io, [] {});  // wakes the waiting thread
}

}  // namespace kvkeep::server
