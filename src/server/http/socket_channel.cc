#include "server/http/socket_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/clock.h"

namespace kvkeep::server {
namespace {

constexpr std::int64_t kNanosecondsPerMillisecond = 1'000'000;
// How late `hurried`, `stopping` and a passed deadline may be noticed.
constexpr int kSliceMs = 50;
constexpr std::size_t kWritePieceBytes = 64 * 1024;

std::int64_t now_ns() { return os::real_clock().monotonic_ns(); }

// True if the event came; false after `timeout_ms` or on an error.
bool wait_for(int socket, short events, int timeout_ms) {
  pollfd entry{socket, events, 0};
  int ready;
  do {
    ready = ::poll(&entry, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

int remaining_slice_ms(std::int64_t deadline_ns) {
  const std::int64_t left_ms = (deadline_ns - now_ns()) / kNanosecondsPerMillisecond + 1;
  return static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, kSliceMs));
}

}  // namespace

SocketChannel::SocketChannel(int socket, const ChannelLimits& limits, std::function<bool()> hurried,
                             std::function<bool()> stopping)
    : socket_(socket), limits_(limits), hurried_(std::move(hurried)), stopping_(std::move(stopping)) {}

std::int64_t SocketChannel::deadline_ns() const {
  std::int64_t limit_ms = limits_.body_ms;
  if (phase_ == Phase::kHeader) {
    limit_ms = hurried_() ? std::min(limits_.hurried_header_ms, limits_.header_ms) : limits_.header_ms;
  } else if (phase_ == Phase::kIdle) {
    // A new connection gets the time for a header block: its request is probably on the way.
    if (first_request_)
      limit_ms = hurried_() ? limits_.hurried_header_ms : limits_.header_ms;
    else
      limit_ms = hurried_() ? 0 : limits_.idle_ms;
  }
  return phase_start_ns_ + limit_ms * kNanosecondsPerMillisecond;
}

bool SocketChannel::wait_readable() {
  while (true) {
    if (phase_ == Phase::kIdle && stopping_()) return false;
    const std::int64_t deadline = deadline_ns();
    if (wait_for(socket_, POLLIN, remaining_slice_ms(deadline))) return true;
    if (now_ns() >= deadline) {
      timed_out_ = true;
      return false;
    }
  }
}

ssize_t SocketChannel::fill() {
  ssize_t received;
  do {
    received = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  begin_ = 0;
  end_ = received > 0 ? static_cast<std::size_t>(received) : 0;
  return received;
}

bool SocketChannel::wait_for_request() {
  phase_ = Phase::kIdle;
  phase_start_ns_ = now_ns();
  timed_out_ = false;
  if (begin_ == end_ && (!wait_readable() || fill() <= 0)) return false;
  first_request_ = false;
  phase_ = Phase::kHeader;
  phase_start_ns_ = now_ns();
  return true;
}

void SocketChannel::begin_body() {
  phase_ = Phase::kBody;
  phase_start_ns_ = now_ns();
}

ssize_t SocketChannel::read(char* data, std::size_t size) {
  while (begin_ == end_) {
    if (!wait_readable()) return -1;
    const ssize_t received = fill();
    if (received > 0) break;
    if (received == 0) return 0;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return -1;  // else: poll woke up for nothing
  }
  // A drip arrives faster than wait_readable() is asked: look at the clock here too, where a read costs a syscall.
  if (begin_ == 0 && now_ns() >= deadline_ns()) {
    timed_out_ = true;
    return -1;
  }
  const std::size_t count = std::min(size, end_ - begin_);
  std::memcpy(data, buffer_.data() + begin_, count);
  begin_ += count;
  return static_cast<ssize_t>(count);
}

bool SocketChannel::write(std::string_view bytes) {
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, kWritePieceBytes);
    bytes.remove_prefix(piece.size());
    const std::int64_t deadline = now_ns() + limits_.write_ms * kNanosecondsPerMillisecond;
    while (!piece.empty()) {
      const ssize_t sent = ::send(socket_, piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        piece.remove_prefix(static_cast<std::size_t>(sent));
        continue;
      }
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
      if (now_ns() >= deadline) return false;
      wait_for(socket_, POLLOUT, remaining_slice_ms(deadline));
    }
  }
  return true;
}

bool SocketChannel::readable() const { return begin_ != end_ || wait_for(socket_, POLLIN, 0); }

bool SocketChannel::peer_gone() const {
  pollfd entry{socket_, POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0;  // POLLHUP, POLLERR and POLLNVAL are reported unasked
}

void SocketChannel::linger() {
  constexpr std::int64_t kLingerMs = 1'000;
  constexpr std::size_t kLingerBytes = 8 << 20;
  ::shutdown(socket_, SHUT_WR);
  const std::int64_t deadline = now_ns() + kLingerMs * kNanosecondsPerMillisecond;
  std::size_t drained = 0;
  while (drained < kLingerBytes && now_ns() < deadline && !hurried_()) {
    if (!wait_for(socket_, POLLIN, remaining_slice_ms(deadline))) continue;
    const ssize_t received = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (received > 0) drained += static_cast<std::size_t>(received);
  }
}

}  // namespace kvkeep::server
