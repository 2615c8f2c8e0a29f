#pragma once

// Decides whether a node of the shared tier may be asked. Pure: time is passed in.
//
//   closed ---- a failure ----> suspected ---- probe fails, 3 failures in all ----> open ---- its time is over -+
//     ^                          |                                               ^                             |
//     |                          | probe answers                                 +------ probe fails ----------+
//     +--------------------------+-------------------------- probe answers --------------------------------------+
//
// Only a closed breaker lets requests through, so a dead node costs one request (or those that were under way at once)
// its deadline, and then nothing. Probes are the caller's tick, never a request. A node that answers probes and nothing
// else opens it as well, after three failed requests.

#include <cstdint>

namespace kvkeep::policy {

inline constexpr std::uint32_t kFailuresToOpen = 3;
inline constexpr std::int64_t kFirstOpenNs = 5'000'000'000;
inline constexpr std::int64_t kLongestOpenNs = 300'000'000'000;

class ShareBreaker {
 public:
  // Returns true if a request may go to the node.
  bool closed() const { return state_ == State::kClosed; }
  // Returns true if the node is to be probed now: it is suspected, or has been open for long enough.
  bool wants_probe(std::int64_t now_ns) const;

  // A request was answered, be it with a miss. Failures before it are forgotten.
  void note_answer();
  // A request failed at the connection, or its deadline passed. Returns true if that opened the breaker.
  bool note_failure(std::int64_t now_ns);
  // As note_failure() and, for an answer, the way back to closed; but an answered probe forgets no failure: only a
  // request shows that requests work.
  bool note_probe(bool answered, std::int64_t now_ns);

 private:
  enum class State : std::uint8_t { kClosed, kSuspected, kOpen };
  void open(std::int64_t now_ns);

  State state_ = State::kClosed;
  std::uint32_t failures_ = 0;  // in a row
  std::int64_t open_ns_ = 0;    // how long it opened last; 0: not since the last answer
  std::int64_t open_until_ns_ = 0;
};

}  // namespace kvkeep::policy
