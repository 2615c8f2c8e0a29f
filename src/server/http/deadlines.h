#pragma once

// How long a connection may stay in each of its phases. Pure: times are passed in, in nanoseconds.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace kvkeep::server {

struct ChannelLimits {
  std::int64_t idle_ms = 30'000;            // between requests of one connection
  std::int64_t header_ms = 10'000;          // from a request's first byte to the end of its header fields
  std::int64_t hurried_header_ms = 1'000;   // the same while the server has many connections; also for each piece
                                            // of a body then, and while another body waits for room
  std::int64_t body_ms = 60'000;            // from the end of the header fields to the end of the body
  std::int64_t room_ms = 10'000;            // the part of it that may pass until other bodies make room; then 503
  std::int64_t write_ms = 60'000;           // for the client to take 64 KiB of the reply
  std::int64_t linger_ms = 1'000;           // after a reply that ends the connection, for the client to read it
  std::size_t unsent_bytes_max = 64 << 20;  // of a reply: a client that lets more pile up is dropped
};

// kFirst: nothing came yet; kIdle: between requests; kRoom: other bodies leave no room for this one; kReply: the
// request is worked on and answered; kLinger: the last reply was sent, and the client may still be sending.
enum class Phase { kFirst, kIdle, kHead, kBody, kRoom, kReply, kLinger, kClosed };

struct PhaseTimes {
  std::int64_t begun_ns = 0;     // start of the phase; kRoom: start of the wait; kBody and kRoom: see body_ns
  std::int64_t body_ns = 0;      // the end of the head
  std::int64_t progress_ns = 0;  // when the last piece of the body was complete, see note_growth()
  std::size_t held_bytes = 0;    // the body's bytes at that time
};

inline constexpr std::int64_t kNever = INT64_MAX;

// Notes that a body has now so many bytes. A piece is what comes in hurried_header_ms at half of the slowest pace that
// brings so many bytes in body_ms: a byte now and then is no progress.
inline void note_growth(std::size_t held_bytes, std::int64_t now_ns, const ChannelLimits& limits, PhaseTimes& times) {
  const auto piece_ms = static_cast<std::size_t>(limits.hurried_header_ms);
  const std::size_t piece = held_bytes * piece_ms / static_cast<std::size_t>(2 * limits.body_ms);
  if (held_bytes <= times.held_bytes + piece) return;
  times.held_bytes = held_bytes;
  times.progress_ns = now_ns;
}

// When the phase has lasted too long; kNever for kClosed, and for kReply, which has rules of its own.
inline std::int64_t deadline_ns(Phase phase, const PhaseTimes& times, const ChannelLimits& limits, bool hurried) {
  const auto after = [](std::int64_t from_ns, std::int64_t ms) { return from_ns + ms * 1'000'000; };
  switch (phase) {
    // A new connection gets the time for a head, since its request is probably on the way.
    case Phase::kFirst:
    case Phase::kHead: return after(times.begun_ns, hurried ? limits.hurried_header_ms : limits.header_ms);
    case Phase::kIdle: return after(times.begun_ns, hurried ? 0 : limits.idle_ms);
    case Phase::kBody: {
      const std::int64_t whole = after(times.body_ns, limits.body_ms);
      const std::int64_t piece = after(times.progress_ns, limits.hurried_header_ms);
      return hurried && piece < whole ? piece : whole;
    }
    case Phase::kRoom: return std::min(after(times.begun_ns, limits.room_ms), after(times.body_ns, limits.body_ms));
    case Phase::kLinger: return after(times.begun_ns, limits.linger_ms);
    case Phase::kReply:
    case Phase::kClosed: break;
  }
  return kNever;
}

}  // namespace kvkeep::server
