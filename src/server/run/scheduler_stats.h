#pragma once

// Counts of the scheduler: its work since the start, and its requests now. The inbox holds them, under its lock.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "server/run/audit.h"
#include "server/run/request_figures.h"
#include "server/run/sequences.h"
#include "server/run/waits.h"

namespace kvkeep::server {

// How many requests wait, by cause.
class WaitCounts {
 public:
  std::uint64_t operator[](WaitCause cause) const { return requests_[static_cast<std::size_t>(cause)]; }
  void add(WaitCause cause, std::uint64_t requests = 1) { requests_[static_cast<std::size_t>(cause)] += requests; }

 private:
  std::array<std::uint64_t, kWaitCauses.size()> requests_{};
};

// The collected requests and the model's memory, after a round of the scheduler.
struct SchedulerNow {
  std::size_t running = 0;
  std::size_t waiting = 0;      // replies that have no place
  WaitCounts waiting_for = {};  // the same, and requests that have a place and wait
  CellCounts cells = {};
};

struct SchedulerStats {
  std::uint64_t requests = 0;
  std::uint64_t running = 0;  // now
  std::uint64_t waiting = 0;  // now, for a place: replies, those included that await a prefix meanwhile
  std::uint64_t prefilled_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t predicted_tokens = 0;
  double prefill_ms = 0;            // in model calls that prefilled
  double predicted_ms = 0;          // from the first token of a reply to its last, summed over replies
  std::uint64_t model_calls = 0;    // that prefill or decode
  std::uint64_t joint_calls = 0;    // that do both
  std::uint64_t calls_running = 0;  // running requests, summed over these calls
  std::size_t longest_tokens = 0;   // of a prompt with its reply, in the model's memory, so far
  std::uint64_t plans = 0;          // lookups and plans made, including those that ended in waiting
  std::uint64_t set_aside = 0;      // requests interrupted for lack of cells and resumed later
  std::uint64_t preemptions = 0;    // slices that one request got before another was done that had begun
  std::uint64_t media_encoded = 0;  // pictures and sounds that the projector turned into embeddings
  double encode_ms = 0;             // the time of that
  std::uint64_t prefix_waits = 0;   // times that a request waited for a prefix that another was prefilling
  WaitTimes waited;                 // of requests that have ended
  WaitCounts waiting_for;           // now: those that wait for a place, and those that wait at theirs
  std::uint64_t open_tokens = 0;    // now, of the prompts that run and wait, as they were sent
  CellCounts cells;                 // now
  bool own_cells = false;           // now: each sequence has cells of its own
  std::uint64_t layout_changes = 0;
  std::int64_t retry_after_s = 1;  // until those that wait now will have been served (served_rate.h)
  bool closed = false;             // no request is accepted any more: the server is stopping
  AuditCounts audits = {};
  RequestFigures figures = {};

  void note_call(std::size_t running_requests, bool joint) {
    ++model_calls;
    joint_calls += joint ? 1 : 0;
    calls_running += running_requests;
  }
  // `length`: see longest_tokens.
  void note_prefilled(const PrefilledTokens& tokens, double ms, std::size_t length) {
    prefilled_tokens += tokens.all;
    prefill_ms += ms;
    figures.note_prefilled(tokens, ms);
    longest_tokens = std::max(longest_tokens, length);
  }
  // A request with these statistics begins to prefill.
  void note_start(const JobStats& stats, bool ahead) {
    cached_tokens += stats.cached_tokens;
    figures.note_start(stats, ahead);
  }
  // The last token of `stats`, so long after the one before it. `length`: see longest_tokens.
  void note_predicted(const JobStats& stats, double ms, std::size_t length) {
    ++predicted_tokens;
    figures.note_token(stats, ms);
    predicted_ms += ms;
    longest_tokens = std::max(longest_tokens, length);
  }
  void note_end(Finish how, const JobStats& stats) {
    waited.add(stats.waits.ended());
    figures.note_end(how, stats);
  }
};

}  // namespace kvkeep::server
