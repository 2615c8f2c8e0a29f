#pragma once

// Chooses the next call: which request starts, which ones decode together, which one prefills and how much of it, and
// which one gives cells back when the model's memory runs short. Pure: the scheduler shows what there is, asks before
// each call of a round, and carries out the answer. An order costs or saves time, never a token.
//
// The order (docs/scheduling.md):
// - Requests that gave their cells back start first, in order of admission. One that must wait for room lets younger
//   ones start next to those that run, but kMostOvertaken at most. Then the queue: the key with fewest requests that
//   run, and of several the one whose last start lies longest ago. Of its sessions one that kMostOvertaken starts of
//   others passed, the one that waits longest; else the lowest priority, then the session with fewest requests that
//   run, then one that was not served last, then the least work, within a factor of two, then the one that waits
//   longest. So each of n sessions gets one start in kMostOvertaken + n at least, however many requests the others
//   have. Of the session's requests likewise: the lowest priority, the least work, the first that came; but one that
//   kMostOvertaken later ones of the session overtook goes first, whatever their priority.
// - A request that awaits a prefix, which another one is prefilling, does not start, and holds nobody up.
// - All that decode do so in one call, as many as fit into a batch, in order of admission.
// - Then one that prefills, or whose rows are put into the model's memory, gets one slice: of those of the lowest
//   priority the one with the least to prefill, where a request counts once for each admitted one of its session. A
//   request that kMostPassed slices of others passed gets the next one, so that each of n gets one slice in
//   kMostPassed + n - 1 at least.
// - Cells come from the sequence that lies idle longest, then from the youngest request that holds some, but never from
//   one that is older than the request that needs them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"

namespace kvkeep::policy {

// Requests of one session share its turns. kNoSession: each such request is a session of its own.
inline constexpr std::uint64_t kNoSession = 0;
// Requests of one key share its places. All without a key are alike.
inline constexpr std::uint64_t kNoKey = 0;

inline constexpr std::uint32_t kMostPassed = 3;
inline constexpr std::uint32_t kMostOvertaken = 8;

// A request that has not ended, or ended in this round.
struct ScheduledRequest {
  enum class Phase {
    kWaiting,    // to start: it just came, or gave its cells back
    kLoading,    // for rows from disk
    kRestoring,  // rows that lie in RAM are put into the model's memory, slice by slice
    kPrefill,
    kDecode,
  } phase = Phase::kWaiting;
  bool ended = false;
  bool must_wait = false;       // its plan found no room, and nothing changed since
  std::uint32_t overtaken = 0;  // by so many starts that it let go first
  bool awaits = false;          // another request is prefilling a prefix of it
  bool ahead = false;           // for a request that may come
  std::uint64_t key = kNoKey;
  std::uint64_t session = kNoSession;
  int priority = 0;                       // the lowest come first
  std::size_t tokens = 0;                 // of the prompt, and of the reply so far
  std::size_t held = 0;                   // of these, in the model's memory
  std::size_t restores = 0;               // of the others, so many are restored and not prefilled
  std::optional<Position> next_cut = {};  // a slice ends there at the latest: state is captured
  bool encodes = false;                   // its next slice is of a picture or sound that is still being encoded
  std::uint32_t passed = 0;               // slices of others since its own last one
  bool operator==(const ScheduledRequest&) const = default;
};

// A request that was not admitted yet.
struct QueuedRequest {
  std::uint64_t number = 0;  // by arrival
  std::uint64_t key = kNoKey;
  std::uint64_t session = kNoSession;
  int priority = 0;               // as above
  std::size_t work = 0;           // tokens to prefill, as far as known
  std::uint32_t overtaken = 0;    // by so many of its session that came later
  std::uint32_t passed = 0;       // by so many starts of its key's other sessions, since its own one's last, or it came
  std::uint64_t key_started = 0;  // the number of the start that was its key's last; 0: none yet
  bool awaits = false;            // as above
};

// Each request without a session is a session of its own.
bool are_of_one_session(const QueuedRequest& a, const QueuedRequest& b);

struct IdleSequence {
  SeqId seq;
  std::int64_t last_used_ns = 0;
};

// CPU kernels of attention compute so many tokens of a slice at a time; those left over took five times as long each at
// a context of 10,000 (ggml 0.27), so they go first, where the context is short.
inline constexpr std::size_t kSliceTile = 64;

// Most tokens of one call. A slice leaves whole tiles to the next cut or the prompt's end, if it can.
struct CallLimits {
  std::size_t batch_tokens = 512;
  std::size_t shared_slice_tokens = 512;  // of a slice while others decode, prefill or wait
  std::size_t own_slice_tokens = 512;     // of a slice while there is nobody else
  std::size_t ahead_slice_tokens = 512;   // of a slice that is computed ahead: see slice_meter.h
  std::size_t tile_tokens = kSliceTile;
  std::size_t pinned_tokens = 0;  // > 0: slices end at multiples of it, at cuts and at the prompt's end
  double restored_token = 0;      // to restore a token takes as long as to prefill so many
  bool slice_is_taken = false;    // other work took this round's slice: nothing is prefilled
};

struct ScheduleView {
  std::vector<ScheduledRequest> admitted;  // in order of admission
  std::span<const QueuedRequest> queued;   // in order of arrival
  std::vector<IdleSequence> idle;
  std::size_t most_admitted = 1;
  std::uint64_t served_last = kNoSession;  // the session of the request that left the queue last
  CallLimits limits;
};

// A request by its place in the view.
struct NextStart {
  bool from_queue = false;  // of ScheduleView::queued; else of admitted
  std::size_t at = 0;
  bool operator==(const NextStart&) const = default;
};
// Returns the request that looks up the cache and takes its place next; nullopt if none may.
// O(queued * keys and sessions of those admitted).
std::optional<NextStart> next_start(const ScheduleView& view);

// The admitted requests that decode a token each in the next call.
std::vector<std::size_t> next_decode(const ScheduleView& view);

struct NextSlice {
  std::size_t at = 0;      // of ScheduleView::admitted
  std::size_t tokens = 0;  // at least one
  bool operator==(const NextSlice&) const = default;
};
std::optional<NextSlice> next_slice(const ScheduleView& view);
// Returns the admitted request whose rows are put into the model's memory next; nullopt if there is none, or one that
// prefills comes before them.
std::optional<std::size_t> next_restore(const ScheduleView& view);

// Either an idle sequence, which leaves, or an admitted request, which is set aside.
struct NextGiver {
  std::optional<SeqId> idle;
  std::size_t at = 0;
  bool operator==(const NextGiver&) const = default;
};
// Returns the sequence or request that gives cells back to `needy`; nullopt if only older requests hold any.
std::optional<NextGiver> next_giver(const ScheduleView& view, std::size_t needy);

}  // namespace kvkeep::policy
