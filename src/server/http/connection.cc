#include "server/http/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <utility>

#include "os/clock.h"
#include "server/http/http_error.h"
#include "server/http/http_log.h"

namespace kvkeep::server {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

constexpr std::string_view kProbe = "HTTP/1.1 102 Processing\r\n\r\n";
constexpr std::int64_t kFirstProbeNs = 100'000'000;  // most replies are ready by then
constexpr std::int64_t kProbeNs = 1'000'000'000;
// Limit for requests that arrive before the previous one is answered.
constexpr std::size_t kPipelinedBytesMax = 64 << 10;
constexpr std::size_t kLingerBytesMax = 8 << 20;
constexpr int kReadsPerTurn = 16;  // then it is the turn of other connections

std::int64_t now_ns() { return os::real_clock().monotonic_ns(); }
// Bytes that wait in the system for a client whose own buffer is full. By default these are 4 MB on Linux: thousands of
// tokens pass before a client that reads nothing is seen not to read.
void let_little_wait(Connection::Socket& socket) {
  constexpr int kUnsentBytes = 16 << 10;
  (void)::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes,
                     sizeof kUnsentBytes);  // of TCP; a Unix socket knows what its client has read
}
bool would_block(const ErrorCode& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

}  // namespace

Connection::Connection(ServerCore& core, Socket socket, std::string remote_address)
    : core_(core), socket_(std::move(socket)), timer_(core.io), remote_address_(std::move(remote_address)) {}

template <typename Turn>
void Connection::guarded(Turn turn) {
  try {
    turn();
  } catch (...) {
    spdlog::error("http: closed the connection of {} after an error: {}", remote_address_, current_exception_text());
    close();
  }
}

template <typename Turn>
auto Connection::later(Turn turn) {
  return [self = shared_from_this(), turn](const auto&... result) { self->guarded([&] { turn(result...); }); };
}

void Connection::start() {
  guarded([this] {
    ErrorCode ignored;
    socket_.non_blocking(true, ignored);
    socket_.set_option(asio::ip::tcp::no_delay(true), ignored);  // a Unix socket never delays, and has no such option
    let_little_wait(socket_);
    enter(Phase::kFirst);
    wait_readable();
  });
}

void Connection::hurry() {
  guarded([this] { arm(); });
}

void Connection::stop() {
  guarded([this] {
    if (phase_ == Phase::kFirst || phase_ == Phase::kIdle) return close();
    if (is_within_request()) refuse(503, kStoppingText);
  });
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  const auto self = shared_from_this();
  if (outbox_) {
    outbox_->leave();
    core_.on_leave();
  }
  outbox_.reset();
  silence_ = {};
  intake_.reset();
  timer_.cancel();
  ErrorCode ignored;
  socket_.close(ignored);
  core_.connections.erase(self);
  resume_waiting_soon(core_);
  asio::post(core_.io, [&core = core_] { core.on_change(); });
}

void Connection::abandon(UnreadCause cause) {
  core_.unread.note_end(cause);
  close();
}

void Connection::enter(Phase phase) {
  phase_ = phase;
  times_.begun_ns = times_.progress_ns = now_ns();  // nothing was read until now, which is not the client's fault
  arm();
}

// --- Reading

// Reads only bytes that there is room for: the system keeps the others, and the sender waits.
bool Connection::may_read() const {
  if (phase_ == Phase::kClosed || phase_ == Phase::kRoom || half_closed_ || is_paused()) return false;
  return phase_ != Phase::kReply || input_.size() < kPipelinedBytesMax;
}

void Connection::wait_readable() {
  if (std::exchange(waits_readable_, true)) return;
  socket_.async_wait(Socket::wait_read, later([this](const ErrorCode& error) {
                       waits_readable_ = false;
                       if (!error) on_readable();
                     }));
}

// A reset is noticed even while nothing is read.
void Connection::wait_broken() {
  if (std::exchange(waits_broken_, true)) return;
  socket_.async_wait(Socket::wait_error, later([this](const ErrorCode& error) {
                       waits_broken_ = false;
                       if (!error) close();
                     }));
}

void Connection::on_readable() {
  for (int turn = 0; turn < kReadsPerTurn && may_read(); ++turn) {
    const std::size_t most = phase_ == Phase::kReply ? kPipelinedBytesMax - input_.size() : core_.scratch.size();
    ErrorCode error;
    const std::size_t count = socket_.read_some(asio::buffer(core_.scratch, most), error);
    if (would_block(error)) break;
    if (error == asio::error::eof) return take_end();
    if (error) return close();
    take_bytes({core_.scratch.data(), count});
  }
  go_on_reading();
}

// Waits for more bytes, or for the turn to take bytes that are here.
void Connection::go_on_reading() {
  if (phase_ == Phase::kClosed || phase_ == Phase::kRoom) return;  // resume() continues
  if (is_paused()) return read_later();
  if (may_read()) return wait_readable();
  if (phase_ != Phase::kReply) return take_end();  // half-closed: nothing more of this request will come
  probe_ns_ = now_ns() + kFirstProbeNs;
  arm();
  wait_broken();
}

void Connection::read_later() {
  if (std::exchange(waits_turn_, true)) return;
  asio::post(core_.io, later([this] {
               waits_turn_ = false;
               if (!is_paused()) return;
               times_.progress_ns = now_ns();  // the delay is not the client's fault
               read_on();
               go_on_reading();
             }));
}

void Connection::take_bytes(std::string_view bytes) {
  if (phase_ == Phase::kLinger) {
    lingered_bytes_ += bytes.size();
    if (lingered_bytes_ > kLingerBytesMax) close();
    return;
  }
  input_ += bytes;
  if (phase_ != Phase::kReply) read_on();
}

void Connection::read_on() {
  if (input_.empty() || phase_ == Phase::kClosed) return;
  const std::string bytes = std::exchange(input_, {});
  const std::size_t used = parse(bytes);
  if (phase_ != Phase::kClosed && phase_ != Phase::kLinger) input_ = bytes.substr(used);
}

std::size_t Connection::parse(std::string_view bytes) {
  std::size_t used = 0;
  if (phase_ == Phase::kFirst || phase_ == Phase::kIdle) {
    // Some clients send an empty line after a body; it is not part of any request.
    if (bytes == "\r" && !line_skipped_) return 0;
    if (bytes.starts_with("\r\n") && !std::exchange(line_skipped_, true)) used = 2;
    if (bytes.size() == used) return used;
    intake_ = std::make_unique<Intake>(core_, remote_address_);
    enter(Phase::kHead);
  }
  used += intake_->feed(bytes.substr(used));
  follow_intake();
  return used;
}

void Connection::follow_intake() {
  if (phase_ == Phase::kHead && intake_->state() != Intake::State::kHead) times_.body_ns = now_ns();
  switch (intake_->state()) {
    case Intake::State::kHead: return;
    case Intake::State::kReady: return dispatch();
    case Intake::State::kAnswered: return answer();
    case Intake::State::kRoom:
      enter(Phase::kRoom);
      core_.waiting_for_room.add(weak_from_this(), intake_->held_bytes(), intake_->wanted_bytes());
      return resume_waiting_soon(core_);
    case Intake::State::kBody: return follow_body();
  }
}

void Connection::follow_body() {
  if (phase_ != Phase::kBody) {
    enter(Phase::kBody);
    times_.held_bytes = intake_->held_bytes();
  }
  note_growth(intake_->held_bytes(), now_ns(), core_.options.limits, times_);
  if (!intake_->grants_leave()) return;
  output_.add("HTTP/1.1 100 Continue\r\n\r\n");
  write();
}

void Connection::resume() {
  guarded([this] {
    intake_->go_on();
    follow_intake();
    read_on();
    go_on_reading();  // or it queues again, after the others
  });
}

void Connection::give_way() {
  guarded([this] { refuse(503, kNoRoomText); });
}

void Connection::take_end() {
  if (is_within_request()) return refuse(400, "The connection ended within the request");
  if (phase_ != Phase::kReply) return close();
  half_closed_ = true;
  go_on_reading();
}

// --- Answering

void Connection::dispatch() {
  const Route& route = *intake_->verdict().route;
  may_probe_ = !intake_->is_http_1_0();
  const auto wake = [weak = weak_from_this(), &core = core_] {
    asio::post(core.io, [weak] {
      if (const auto self = weak.lock()) self->guarded([&self] { self->flush(); });
    });
  };
  outbox_ = std::make_shared<Outbox>(core_.options.limits.unsent_bytes_max, core_.unread, wake);
  auto exchange = std::make_shared<Exchange>(core_, intake_->release(), outbox_);
  begin_reply(Outbox::End::kNotYet);
  exchange->start(route);
}

void Connection::refuse(int status, std::string_view message) {
  intake_->refuse(status, message);
  answer();
}

void Connection::begin_reply(Outbox::End end) {
  reply_end_ = end;
  intake_.reset();
  output_.mark(now_ns());
  enter(Phase::kReply);
}

// Answers without waiting for the unread rest of the request.
void Connection::answer() {
  close_after_ = intake_->closes() || core_.stopping;
  output_.add(intake_->reply(close_after_));
  begin_reply(Outbox::End::kComplete);
  // Not called directly: the caller may still be parsing and expects this object unchanged.
  asio::post(core_.io, later([this] { write(); }));
  resume_waiting_soon(core_);
}

// While nothing is read, only sending shows whether the client is still there.
void Connection::probe() {
  probe_ns_ = now_ns() + kProbeNs;
  if (reply_end_ != Outbox::End::kNotYet || !output_.empty()) return;
  if (outbox_ && outbox_->started()) {
    if (silence_.task) silence_.task();
  } else if (may_probe_) {
    output_.add(std::string(kProbe));
    write();
  }
}

// --- Writing

void Connection::flush() {
  if (phase_ != Phase::kReply || !outbox_) return;
  if (outbox_->gone()) return close();
  Outbox::Taken taken = outbox_->take();
  if (Outbox::Silence silence = outbox_->take_silence(); silence.task) silence_ = std::move(silence);
  output_.add(std::move(taken.bytes));
  if (taken.body != nullptr) output_.add(std::move(taken.body));
  reply_end_ = taken.end;
  close_after_ = taken.close_after;
  write();
  end_most_unread(core_);  // each byte that a maker adds passes here, and those that were sent count no more
}

void Connection::write() {
  if (phase_ == Phase::kClosed) return;
  const auto send = [this](std::string_view bytes) -> std::optional<std::size_t> {
    ErrorCode error;
    const std::size_t count = socket_.write_some(asio::buffer(bytes.data(), bytes.size()), error);
    if (would_block(error)) return 0;
    return error ? std::nullopt : std::optional(count);
  };
  const auto taken = [this](std::size_t bytes) {
    if (outbox_) outbox_->sent(bytes);
  };
  switch (output_.send(send, taken, now_ns())) {
    case OutgoingBytes::Sent::kBroken: return close();
    case OutgoingBytes::Sent::kBlocked: return wait_writable();
    case OutgoingBytes::Sent::kAll: break;
  }
  if (const auto make_more = outbox_ ? outbox_->take_when_sent() : nullptr) make_more();
  if (phase_ == Phase::kReply && reply_end_ != Outbox::End::kNotYet) return after_reply();
  arm();
}

void Connection::wait_writable() {
  arm();
  if (std::exchange(waits_writable_, true)) return;
  socket_.async_wait(Socket::wait_write, later([this](const ErrorCode& error) {
                       waits_writable_ = false;
                       if (!error) write();
                     }));
}

void Connection::after_reply() {
  const bool is_cut = reply_end_ == Outbox::End::kCut;
  outbox_.reset();
  silence_ = {};
  reply_end_ = Outbox::End::kNotYet;
  const bool is_last = half_closed_ && (input_.empty() || close_after_);
  if (is_cut || is_last) return close();
  if (close_after_ || core_.stopping) return linger();
  next_request();
}

void Connection::next_request() {
  enter(Phase::kIdle);
  line_skipped_ = false;
  read_on();
  go_on_reading();
}

// Closing at once would reset a connection whose client is still sending, and could destroy the reply before the client
// has read it.
void Connection::linger() {
  ErrorCode error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) return close();
  std::string().swap(input_);
  lingered_bytes_ = 0;
  enter(Phase::kLinger);
  wait_readable();
}

// --- Time

std::int64_t Connection::reply_deadline_ns() const {
  if (const auto since_ns = output_.stalled_ns()) return *since_ns + core_.options.limits.write_ms * 1'000'000;
  std::int64_t next = kNever;
  if (silence_.task) next = output_.sent_ns() + silence_.ms * 1'000'000;
  if (!may_read()) next = std::min(next, probe_ns_);
  return next;
}

std::int64_t Connection::next_deadline_ns() const {
  if (phase_ == Phase::kReply) return reply_deadline_ns();
  const bool hurried = phase_ == Phase::kBody ? core_.hurries_bodies() : core_.is_crowded();
  return deadline_ns(phase_, times_, core_.options.limits, hurried);
}

// Looks at a body each second, since it may have to be hurried from any moment on.
void Connection::arm() {
  const std::int64_t now = now_ns();
  const bool looks_often = phase_ == Phase::kBody;
  const std::int64_t look_ns = now + core_.options.limits.hurried_header_ms * 1'000'000;
  timer_.set(looks_often ? std::min(next_deadline_ns(), look_ns) : next_deadline_ns(), now,
             later([this] { on_timer(); }));
}

void Connection::on_timer() {
  if (phase_ == Phase::kClosed) return;
  if (now_ns() >= next_deadline_ns()) on_deadline();
  if (phase_ != Phase::kClosed) arm();
}

void Connection::on_deadline() {
  switch (phase_) {
    case Phase::kHead:
    case Phase::kBody: return refuse(408, kLateText);
    case Phase::kRoom: return refuse(503, kNoRoomText);
    case Phase::kReply: return on_reply_deadline(now_ns());
    default: return close();
  }
}

void Connection::on_reply_deadline(std::int64_t now) {
  if (output_.stalled_ns()) return abandon(UnreadCause::kTime);
  if (!may_read() && now >= probe_ns_) return probe();
  if (!silence_.task || now < output_.sent_ns() + silence_.ms * 1'000'000) return;
  output_.mark(now);
  silence_.task();
}

void end_most_unread(ServerCore& core) {
  const auto unread = [](const std::shared_ptr<Connection>& connection) { return connection->unread_bytes(); };
  while (core.unread.are_too_many()) {
    const auto most = std::ranges::max_element(core.connections, {}, unread);
    if (most == core.connections.end() || unread(*most) == 0) return;
    const std::shared_ptr<Connection> ends = *most;
    spdlog::warn(
        "http: closed a connection whose client left {} MiB of its reply unread, the most of all: all replies together "
        "may have {} MiB unread. Its job ends",
        unread(ends) >> 20, core.unread.most() >> 20);
    ends->abandon(UnreadCause::kSum);
  }
}

}  // namespace kvkeep::server
