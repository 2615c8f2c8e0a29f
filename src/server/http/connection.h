#pragma once

// One accepted connection on the I/O thread: reads requests, has them judged, hands them to handlers, writes replies,
// and keeps deadlines. It waits for its socket without a thread and without a buffer of its own, so that a connection
// that is idle or streams costs a few kilobytes.
//
// Replies of handlers come through an Outbox. A client that ends its sending (a half-close) is still answered. It may
// also be gone: the system cannot tell until something is sent, so an interim reply, 102 Processing, or the handler's
// own comment in a stream is sent after 100 ms and then each second; a closed socket answers with a reset. The same is
// done when a client has sent so much ahead that reading stops, since its end would come after those bytes.

#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/deadlines.h"
#include "server/http/intake.h"
#include "server/http/lazy_timer.h"
#include "server/http/outbox.h"
#include "server/http/outgoing_bytes.h"
#include "server/http/server_core.h"

namespace kvkeep::server {

// All calls on the I/O thread. Lives in core.connections until it is closed.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;  // of TCP, or a Unix socket
  // `remote_address`: as in HttpRequest.
  Connection(ServerCore& core, Socket socket, std::string remote_address);

  void start();
  // The server has many connections: an idle one ends now, a slow one sooner.
  void hurry();
  // The server takes no more requests: ends this connection unless a request is being answered.
  void stop();
  // Ends the connection at once.
  void close();
  // Returns true if its body waits for room; resume() when there is some, or give_way() if others need what it holds.
  bool is_waiting() const { return phase_ == Phase::kRoom; }
  void resume();
  void give_way();
  // Bytes of a reply that its client has not taken.
  std::size_t unread_bytes() const { return outbox_ ? outbox_->unsent_bytes() : 0; }
  // The client does not read: ends the connection at once.
  void abandon(UnreadCause cause);

 private:
  // Runs one turn of this connection. An exception ends the connection, which might have no deadline any more.
  template <typename Turn>
  void guarded(Turn turn);
  // Returns the turn as a callback, which keeps the connection alive until it is called.
  template <typename Turn>
  auto later(Turn turn);

  // Reading.
  bool may_read() const;
  bool is_within_request() const { return phase_ == Phase::kHead || phase_ == Phase::kBody || phase_ == Phase::kRoom; }
  bool is_paused() const { return intake_ && intake_->is_paused(); }
  void wait_readable();
  void wait_broken();
  void on_readable();
  void take_bytes(std::string_view bytes);
  void read_on();     // continues with bytes that are here already
  void read_later();  // the same, after other connections had their turn
  void go_on_reading();
  std::size_t parse(std::string_view bytes);
  void follow_intake();
  void follow_body();
  void take_end();  // the client sends no more

  // Answering.
  void dispatch();
  void refuse(int status, std::string_view message);
  void answer();
  void begin_reply(Outbox::End end);
  void probe();

  // Writing.
  void flush();
  void write();
  void wait_writable();
  void after_reply();
  void next_request();
  void linger();

  // Time.
  std::int64_t next_deadline_ns() const;
  std::int64_t reply_deadline_ns() const;
  void arm();
  void on_timer();
  void on_deadline();
  void on_reply_deadline(std::int64_t now_ns);
  void enter(Phase phase);

  ServerCore& core_;
  Socket socket_;
  LazyTimer timer_;
  const std::string remote_address_;
  Phase phase_ = Phase::kFirst;
  PhaseTimes times_;
  bool waits_readable_ = false;
  bool waits_broken_ = false;
  bool waits_turn_ = false;
  bool waits_writable_ = false;
  bool half_closed_ = false;

  std::string input_;               // received, but not taken yet
  bool line_skipped_ = false;       // the empty line that may precede a request was there
  std::unique_ptr<Intake> intake_;  // of the request that is being read
  std::size_t lingered_bytes_ = 0;

  std::shared_ptr<Outbox> outbox_;  // of the request that is being answered
  Outbox::Silence silence_;
  bool may_probe_ = false;     // the client understands interim replies
  std::int64_t probe_ns_ = 0;  // when a half-closed client is probed next
  OutgoingBytes output_;
  Outbox::End reply_end_ = Outbox::End::kNotYet;
  bool close_after_ = false;
};

// While all replies together have too many bytes that clients do not read, ends the connection that has most of them.
// On the I/O thread.
void end_most_unread(ServerCore& core);

}  // namespace kvkeep::server
