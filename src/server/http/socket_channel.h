#pragma once

// One accepted connection with total deadlines. The HTTP library's own stream restarts its timeout with every byte, so
// a client that sends one byte a second keeps a thread for ever; here a whole header block, a whole body and each
// accepted piece of a reply have a deadline of their own.
//
// A connection holds a thread, and threads are few: while other connections wait for one (`hurried`), idle connections
// are closed at once and slow headers get a second instead of their full time.

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

namespace kvkeep::server {

struct ChannelLimits {
  std::int64_t idle_ms = 30'000;           // between requests of one connection
  std::int64_t header_ms = 10'000;         // from a request's first byte to the end of its header fields
  std::int64_t hurried_header_ms = 1'000;  // the same while other connections wait for a thread
  std::int64_t body_ms = 60'000;           // from the end of the header fields to the end of the body
  std::int64_t write_ms = 60'000;          // for the client to take 64 KiB of the reply
};

// Does not own the socket. One thread reads and writes; peer_gone() may be called from any thread meanwhile.
class SocketChannel {
 public:
  // `hurried`: other connections wait for a thread. `stopping`: take no further request.
  SocketChannel(int socket, const ChannelLimits& limits, std::function<bool()> hurried, std::function<bool()> stopping);

  int socket() const { return socket_; }

  // Blocks until the next request's first byte and starts its header deadline. False: closed, idle for too long,
  // hurried or stopping; hang up.
  bool wait_for_request();
  // The header fields are complete; starts the body's deadline.
  void begin_body();

  // Bytes received, 0 at the end of the stream, -1 on an error or when the deadline has passed.
  ssize_t read(char* data, std::size_t size);
  // Sends everything or returns false; after a false the connection is of no use.
  bool write(std::string_view bytes);

  bool timed_out() const { return timed_out_; }
  // Bytes arrived or read ahead: a read will not block.
  bool readable() const;
  // The client closed, half-closed or reset the connection, or it was shut down from this side.
  bool peer_gone() const;
  // Ends a connection whose client may still be sending: closing at once would reset it and could destroy the reply
  // before it is read. Waits for the client's end of stream, for at most a second and 8 MiB.
  void linger();

 private:
  enum class Phase { kIdle, kHeader, kBody };
  std::int64_t deadline_ns() const;
  // Waits for more bytes within the phase's deadline; slices keep `hurried` and `stopping` fresh.
  bool wait_readable();
  ssize_t fill();

  const int socket_;
  const ChannelLimits limits_;
  const std::function<bool()> hurried_;
  const std::function<bool()> stopping_;
  Phase phase_ = Phase::kIdle;
  std::int64_t phase_start_ns_ = 0;
  bool first_request_ = true;
  bool timed_out_ = false;
  std::array<char, 16'384> buffer_{};  // the library reads header lines byte by byte
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace kvkeep::server
