#pragma once

// Limits of the cost of a slow or dead node of the shared tier: ShareBreaker decides whether it is asked, ShareLatency
// for how long. Pure: time is passed in.

#include <array>
#include <cstdint>

#include "base/types.h"

namespace kvkeep::policy {

inline constexpr std::uint32_t kFailuresToOpen = 3;
inline constexpr std::int64_t kFirstOpenNs = 5'000'000'000;
inline constexpr std::int64_t kLongestOpenNs = 300'000'000'000;
// With a tick a second and a probe of a second, requests go to a node again within 5 seconds after it healed.
inline constexpr std::int64_t kProbeEveryNs = 2'000'000'000;

// A node may answer what is small and hang at what is large, so that one kind of call says nothing of the other.
enum class ShareCall : std::uint8_t { kLookup, kTransfer };

// Decides whether a node may be asked.
//
//   closed ---- a failure ----> suspected ---- probe fails, 3 failures in all ----> open  <-- a transfer was silent
//     ^                          |                                                  |
//     |                          | probe answers        a probe answers: after one  |
//     |                          |                      that failed, or after the   |
//     +--------------------------+------------------------ time of the opening -----+
//
// An open breaker wants a probe every two seconds. A node that failed one is down, and healed as soon as it answers the
// next. A node that answers all of them while requests fail shows nothing by that: it stays open for 5 seconds, then
// for twice as long each time, up to 5 minutes. That begins anew after an answered request of the kind that opened it,
// and after an outage that a failed probe showed.
//
// Only a closed breaker lets requests through, so a dead node costs one request (or those that were under way at once)
// its deadline, and then nothing. Probes are the caller's tick, never a request. A node that answers probes and nothing
// else opens it as well: after three failed requests, or at once if a transfer was given up because nothing came any
// more, for each of those costs more than a look-up.
class ShareBreaker {
 public:
  // Returns true if a request may go to the node.
  bool closed() const { return state_ == State::kClosed; }
  // Returns true if a probe will say soon whether requests may go there again.
  bool suspected() const { return state_ == State::kSuspected; }
  // Returns true if the node is to be probed now: it is suspected, or open and was not probed for a while.
  bool wants_probe(std::int64_t now_ns) const;

  // A request was answered, be it with a miss. Failures of its kind before it are forgotten.
  void note_answer(ShareCall call);
  // A request failed at the connection, or its deadline passed. Returns true if that opened the breaker.
  bool note_failure(ShareCall call, std::int64_t now_ns);
  // A transfer was given up, for nothing came in the time in which look-ups are answered. Returns true if that opened
  // the breaker.
  bool note_silence(std::int64_t now_ns);
  // As note_failure() and, for an answer, the way back to closed; but an answered probe forgets no failure: only a
  // request shows that requests work.
  bool note_probe(bool answered, std::int64_t now_ns);

 private:
  enum class State : std::uint8_t { kClosed, kSuspected, kOpen };
  std::uint32_t& failures(ShareCall call) { return failures_[static_cast<std::size_t>(call)]; }
  void open(ShareCall call, std::int64_t now_ns);
  void plan_probe(std::int64_t now_ns);

  State state_ = State::kClosed;
  std::array<std::uint32_t, 2> failures_{};  // of each kind of call, in a row
  ShareCall opened_by_ = ShareCall::kLookup;
  std::int64_t open_ns_ = 0;  // how long it opened last; 0: not since the last answer of that kind
  std::int64_t open_until_ns_ = 0;
  bool down_ = false;  // while open: a probe failed
  std::int64_t probe_ns_ = 0;
};

// Bounds of a look-up's deadline, in milliseconds.
struct DeadlineRange {
  double least_ms = 5;
  double most_ms = 50;
};

// Follows the latency of look-ups at one node. Not thread safe.
//
// A look-up may take four times as long as usual: that many round trips connect anew under TLS. Where look-ups vary, it
// may exceed the usual by eight times what they mostly do, so that a node which is steadily slow has a short deadline
// and one on a busy machine is not taken for one that hangs.
class ShareLatency {
 public:
  explicit ShareLatency(DeadlineRange range) : range_(range) {}
  void note(double ms);
  // A deadline passed: the next ones are longer, up to the range's end, so that a node which became slower is measured
  // again instead of failing for ever.
  void note_late();
  // A probe was answered. It connects anew, which takes longer than a look-up: it says only that those take no longer.
  void note_probe(double ms);
  // Inside the range; the most as long as nothing is known.
  double deadline_ms() const;
  // 0: not known yet.
  double usual_ms() const { return usual_ms_; }

 private:
  void begin(double ms);

  const DeadlineRange range_;
  double usual_ms_ = 0;
  double deviation_ms_ = 0;  // the usual distance from the usual
};

// Divides time among transfers that go on side by side: each is charged its part of every moment, so that bytes by the
// time charged for them are the rate of all together. Not thread safe.
class DividedTime {
 public:
  // A transfer begins. Returns what end() wants to know of it.
  std::int64_t begin(std::int64_t now_ns);
  // It ended. Returns the time that is charged for it.
  std::int64_t end(std::int64_t begun, std::int64_t now_ns);

 private:
  void advance(std::int64_t now_ns);

  std::int64_t under_way_ = 0;
  std::int64_t charged_ns_ = 0;  // to each that went on since the beginning
  std::int64_t now_ns_ = 0;
};

// A transfer of so many bytes may take a look-up's deadline and four times as long as the bytes usually take. With an
// unknown rate (0), the rate is taken as 16 MiB/s.
double transfer_deadline_ms(double lookup_deadline_ms, ByteCount bytes, double bytes_per_s);

}  // namespace kvkeep::policy
