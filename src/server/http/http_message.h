#pragma once

// HTTP as a handler sees it: a request as a value, and a writer for its one reply. No library type appears here, so
// that the dialects above do not know the HTTP library and tests may fake both sides.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvkeep::server {

// Header fields in the order in which they came or will be sent.
using HeaderList = std::vector<std::pair<std::string, std::string>>;

// The remote address of a client that came through a Unix socket.
inline constexpr std::string_view kUnixClient = "unix";

struct HttpRequest {
  std::string method;          // "GET", "POST"...; a HEAD request reaches the GET handler of its path
  std::string path;            // percent-decoded, without the query
  std::string query;           // as sent, without the question mark
  std::string body;            // whole, at most HttpOptions::body_bytes_max; the handler may take it
  HeaderList headers;          // names as the client spelt them
  std::string remote_address;  // numeric IP address, or kUnixClient
  std::string id;              // "req_...", in the reply's fields `request-id` and `x-request-id`

  // Returns true once the client has left or does not read, even while nothing is written to it; not for a client that
  // has only ended its sending. Callable from any thread as long as the writer lives.
  std::function<bool()> client_gone = [] { return false; };
  // Returns true once the server is shutting down: finish soon, the drain deadline runs. Callable like client_gone.
  std::function<bool()> stopping = [] { return false; };

  // Returns true for a client that came through a Unix socket: a program on this machine, never a browser itself.
  bool over_unix_socket() const { return remote_address == kUnixClient; }
  // Returns the first field of that name, compared without case; "" if absent.
  std::string_view header(std::string_view name) const;
  // Returns the value of the first parameter of that name in the query, as sent; "" if absent.
  std::string_view parameter(std::string_view name) const;
};

// A body that is made while it leaves: returns its next piece, "" at the end.
using BodyPieces = std::function<std::string()>;

// The reply to one request: either one send() or send_pieces(), or begin_stream(), any number of write() and one end().
// No call waits: bytes that the client does not read yet queue up, up to ChannelLimits::unsent_bytes_max.
//
// A handler that answers later keeps its writer and returns. One thread at a time makes the reply: the handler's until
// it returns, then tasks of post(). keep(), post(), post_work(), on_silence() and client_gone() are thread safe.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  // Sends a whole reply. `content_type` may be empty only with an empty body.
  virtual void send(int status, std::string_view content_type, std::string body, const HeaderList& headers = {}) = 0;

  // The same with a body that many replies share.
  virtual void send_shared(int status, std::string_view content_type, std::shared_ptr<const std::string> body,
                           const HeaderList& headers = {}) {
    send(status, content_type, *body, headers);
  }

  // The same with a body that may be too large to be made at once. A first piece that is all of it goes as by send().
  // Further pieces of a longer body are made by post_work(), each once those before it were sent; if the client leaves,
  // no more are made. A task, too: no other part of the reply may come after this call.
  virtual void send_pieces(int status, std::string_view content_type, BodyPieces next, const HeaderList& headers = {});

  // The reply's maker keeps so many more bytes until it sends the reply. They count like bytes that the client has not
  // read, so that more of them than one reply may have unread end the connection.
  virtual void note_kept(std::size_t /*bytes*/) {}

  // Starts a reply of unknown length (server-sent events). Returns false if the client is gone: no more will arrive.
  virtual bool begin_stream(int status, std::string_view content_type, const HeaderList& headers = {}) = 0;
  // Sends a piece at once. Returns false if the client is gone or does not read: stop working for it.
  virtual bool write(std::string_view piece) = 0;
  // Marks the stream complete. If a handler throws before that, the reply is cut off, which clients can tell.
  virtual void end() = 0;

  // Returns true after send() or begin_stream(): the status is fixed then.
  virtual bool started() const = 0;

  // For a reply that continues after the handler: the request is open as long as the returned writer lives. If no end
  // was written by then, the reply is a 500, or cut off if it has begun.
  virtual std::shared_ptr<ResponseWriter> keep() = 0;
  virtual bool client_gone() const = 0;
  // Runs a task of microseconds on the thread that serves all connections, after those posted before. An exception in a
  // task, or in one of post_work(), ends the reply like one in the handler; later writes are dropped.
  virtual void post(std::function<void()> task) = 0;
  // Runs a task that may compute for long, on a thread that runs handlers.
  virtual void post_work(std::function<void()> task) = 0;
  // Runs `task` like post() each time that nothing was sent for `silence_ms`, until the reply has ended. `task` must
  // not keep the writer, because a reply without a writer has ended.
  virtual void on_silence(std::int64_t silence_ms, std::function<void()> task) = 0;
};

// Where a request's handler runs, see HttpServer::set_apart().
struct Lane {
  enum class Kind { kShort, kLong, kWaits };
  Kind kind = Kind::kShort;
  std::uint64_t client = 0;  // of kWaits: requests of the same client run one after another
};

// Runs on one of a few threads that all requests share, so that it must not wait: a reply that takes longer than
// parsing comes from a kept writer. Only requests that HttpServer::set_apart() knows as slow may wait, on threads of
// their own. Handlers of light routes run on the thread that serves the connections. An
// exception becomes a 500, or cuts the stream off if the reply has begun.
using Handler = std::function<void(HttpRequest&, ResponseWriter&)>;

// ASCII comparison without case, for header names and host names.
bool equals_ignoring_case(std::string_view a, std::string_view b);

}  // namespace kvkeep::server
