#pragma once

// A client for the programs that measure and replay: one request at a time per object, with the reply's body as it
// arrives. It lives here because only this room may include the HTTP libraries.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "server/http/http_message.h"

namespace kvkeep::server {

struct ClientRequest {
  std::string method = "POST";
  std::string path;    // with its query, sent as it is
  HeaderList headers;  // Content-Type: application/json is added if there is a body and no such field
  std::string body;
  // Longest wait for the head of the final reply, including the connect, then for each byte of the body. What comes
  // before that head (interim replies, a head byte by byte) does not prolong it.
  int silence_ms = 600'000;
};

struct ClientReply {
  int status = 0;
  HeaderList headers;
};

// Not thread safe except for stop(); several objects may be used at once. Keeps its connection open between requests,
// unless a request says "Connection: close": a server that closes idle ones loses a request sent at that moment.
// Redirects are not followed: a server under measurement must answer itself.
class HttpClient {
 public:
  // `base_url`: "http://host:port" with an optional path, which is put before that of every request. kInvalid if it is
  // no such URL, or https.
  static Result<HttpClient> make(const std::string& base_url);
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Sends the request, and gives the body's bytes to `on_bytes` as they arrive, after `on_status` had the status;
  // on_bytes returns false to stop (kAborted). kIo if there is no connection, it broke, or nothing came; the message
  // says which. kInvalid if a path or field cannot be sent. A status of 4xx or 5xx is a reply, not an error.
  Result<ClientReply> send(const ClientRequest& request, const std::function<void(int status)>& on_status,
                           const std::function<bool(std::string_view bytes)>& on_bytes);
  // The same, but returns the whole body, of at most 64 MiB (kNoSpace). All of it must come within silence_ms of the
  // head.
  Result<std::pair<ClientReply, std::string>> send(const ClientRequest& request);
  // Callable from any thread: the request under way and all later ones end with kAborted.
  void stop();

 private:
  struct Connection;
  enum class Within { kBytes, kWholeBody };  // what must come within silence_ms after the head
  Result<ClientReply> send(const ClientRequest& request, Within within,
                           const std::function<void(int status)>& on_status,
                           const std::function<bool(std::string_view bytes)>& on_bytes);
  explicit HttpClient(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace kvkeep::server
