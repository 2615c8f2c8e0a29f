#pragma once

// Chooses the next call: which request starts, which ones decode together, which one prefills and how much of it, and
// which one gives cells back when the model's memory runs short. Pure: the scheduler shows what there is, asks before
// each call of a round, and carries out the answer. What an order costs or saves is time, never a token.
//
// The order today:
// - Requests start as they came; those that gave their cells back come first, in order of admission. None starts while
//   another prefills, for it would miss what that one is about to compute; and none overtakes one that must wait for
//   room.
// - All that decode do so in one call, as many as fit into a batch, in order of admission.
// - Then the first one that prefills gets one slice.
// - Cells come from the sequence that lies idle longest, then from the youngest request that holds some, but never from
//   one that is older than the request that needs them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"

namespace kvkeep::policy {

// A request that has not ended, or ended in this round.
struct ScheduledRequest {
  enum class Phase {
    kWaiting,  // to start: it just came, or gave its cells back
    kLoading,  // for rows from disk
    kPrefill,
    kDecode,
  } phase = Phase::kWaiting;
  bool ended = false;
  bool must_wait = false;                 // its plan found no room, and nothing changed since
  bool ahead = false;                     // for a request that may come
  bool captured_by_window = false;        // window rows slide off uncaptured if a slice is too long
  std::size_t tokens = 0;                 // of the prompt, and of the reply so far
  std::size_t held = 0;                   // of these, in the model's memory
  std::optional<Position> next_cut = {};  // a slice ends there at the latest: state is captured
  bool operator==(const ScheduledRequest&) const = default;
};

struct IdleSequence {
  SeqId seq;
  std::int64_t last_used_ns = 0;
};

// Most tokens of one call.
struct CallLimits {
  std::size_t batch_tokens = 512;
  std::size_t busy_slice_tokens = 512;   // of a slice while others decode
  std::size_t ahead_slice_tokens = 512;  // of a slice that is computed ahead: see ahead_slice()
  std::size_t window_slice_tokens = 0;   // of a slice of a windowed model; 0: the model has no windows
};

struct ScheduleView {
  std::vector<ScheduledRequest> admitted;  // in order of admission
  std::vector<ScheduledRequest> queued;    // in order of arrival
  std::vector<IdleSequence> idle;
  std::size_t most_admitted = 1;
  CallLimits limits;
};

// A request by its place in the view.
struct NextStart {
  bool from_queue = false;  // of ScheduleView::queued; else of admitted
  std::size_t at = 0;
  bool operator==(const NextStart&) const = default;
};
// Returns the request that looks up the cache and takes its place in memory next; nullopt if none may.
std::optional<NextStart> next_start(const ScheduleView& view);

// The admitted requests that decode a token each in the next call.
std::vector<std::size_t> next_decode(const ScheduleView& view);

struct NextSlice {
  std::size_t at = 0;      // of ScheduleView::admitted
  std::size_t tokens = 0;  // at least one
  bool operator==(const NextSlice&) const = default;
};
std::optional<NextSlice> next_slice(const ScheduleView& view);

// Either an idle sequence, which leaves, or an admitted request, which is set aside.
struct NextGiver {
  std::optional<SeqId> idle;
  std::size_t at = 0;
  bool operator==(const NextGiver&) const = default;
};
// Returns the sequence or request that gives cells back to `needy`; nullopt if only older requests hold any.
std::optional<NextGiver> next_giver(const ScheduleView& view, std::size_t needy);

// A slice that is computed ahead, for a request that may come, holds up a real one by about `slice_ms`. Shorter slices
// than the least prefill much slower.
inline constexpr std::size_t kLeastAheadTokens = 32;
std::size_t ahead_slice(double prefill_tokens_per_s, double slice_ms);

}  // namespace kvkeep::policy
