#include "policy/next_call.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace kvkeep::policy {

namespace {

using Phase = ScheduledRequest::Phase;

bool is_in(const ScheduledRequest& request, Phase phase) { return request.phase == phase; }

// Admitted requests of the session.
std::size_t running_of(const ScheduleView& view, std::uint64_t session) {
  if (session == kNoSession) return 0;
  return static_cast<std::size_t>(std::ranges::count(view.admitted, session, &ScheduledRequest::session));
}

// How many admitted requests have each of these ids, keys or sessions. They are counted once for a choice among a
// thousand that wait.
class RunningCounts {
 public:
  RunningCounts(const ScheduleView& view, std::uint64_t ScheduledRequest::* id) {
    for (const ScheduledRequest& request : view.admitted) {
      const auto same = std::ranges::find(counts_, request.*id, &Count::id);
      if (same != counts_.end()) {
        ++same->requests;
      } else {
        counts_.push_back({request.*id, 1});
      }
    }
  }

  std::size_t of(std::uint64_t id) const {
    const auto same = std::ranges::find(counts_, id, &Count::id);
    return same != counts_.end() ? same->requests : 0;
  }

 private:
  struct Count {
    std::uint64_t id = 0;
    std::size_t requests = 0;
  };
  std::vector<Count> counts_;
};

// ---- starts ----

// Of two requests in the queue the one with the lower rank goes first, unless an overtaken one goes in its place.
using QueueRank =
    std::tuple<std::size_t, std::uint64_t, std::int64_t, int, std::size_t, bool, int, std::int64_t, std::uint64_t>;

class QueueRanks {
 public:
  explicit QueueRanks(const ScheduleView& view)
      : served_last_(view.served_last),
        of_key_(view, &ScheduledRequest::key),
        of_session_(view, &ScheduledRequest::session) {}

  QueueRank of(const QueuedRequest& request) const {
    const std::size_t of_key = of_key_.of(request.key);
    const auto longest_first = -static_cast<std::int64_t>(request.passed);
    if (request.passed >= kMostOvertaken) {
      return {of_key, request.key_started, longest_first, request.priority, 0, false, 0, 0, request.number};
    }
    const bool has_session = request.session != kNoSession;
    const std::size_t of_session = has_session ? of_session_.of(request.session) : 0;
    const bool again = has_session && request.session == served_last_;
    const auto work = static_cast<int>(std::bit_width(request.work));
    return {of_key, request.key_started, 0, request.priority, of_session, again, work, longest_first, request.number};
  }

 private:
  const std::uint64_t served_last_;
  const RunningCounts of_key_;
  const RunningCounts of_session_;
};

// Returns the first request of the session that later ones of it overtook too often; else the one that is given.
std::size_t overtaken_before(const ScheduleView& view, std::size_t chosen) {
  const QueuedRequest& request = view.queued[chosen];
  for (std::size_t at = 0; at < view.queued.size(); ++at) {
    const QueuedRequest& other = view.queued[at];
    if (!other.awaits && other.overtaken >= kMostOvertaken && are_of_one_session(other, request)) return at;
  }
  return chosen;
}

// Where there is a place for each, the first that came starts first: who prefills first is decided later.
std::optional<std::size_t> first_of_queue(const ScheduleView& view) {
  const auto ready = std::ranges::count(view.queued, false, &QueuedRequest::awaits);
  const bool places_for_all = static_cast<std::size_t>(ready) <= view.most_admitted - view.admitted.size();
  const QueueRanks ranks(view);
  std::optional<std::size_t> first;
  QueueRank first_rank;
  for (std::size_t at = 0; at < view.queued.size(); ++at) {
    if (view.queued[at].awaits) continue;
    if (places_for_all) return at;
    const QueueRank rank = ranks.of(view.queued[at]);
    if (first && first_rank <= rank) continue;
    first = at;
    first_rank = rank;
  }
  return first ? std::optional(overtaken_before(view, *first)) : std::nullopt;
}

// ---- slices ----

// Returns true if somebody would wait for the end of a long slice.
bool is_watched(const ScheduleView& view, const ScheduledRequest& request) {
  const auto watches = [&request](const ScheduledRequest& other) {
    return &other != &request && !is_in(other, Phase::kWaiting);
  };
  return std::ranges::any_of(view.admitted, watches) ||
         std::ranges::any_of(view.queued, [](const QueuedRequest& queued) { return !queued.awaits; });
}

std::size_t slice_limit(const ScheduleView& view, const ScheduledRequest& request) {
  const CallLimits& limits = view.limits;
  const std::size_t by_time = is_watched(view, request) ? limits.shared_slice_tokens : limits.own_slice_tokens;
  const std::size_t limit = std::min(limits.batch_tokens, by_time);
  return request.ahead ? std::min(limit, limits.ahead_slice_tokens) : limit;
}

std::size_t slice_tokens(const ScheduleView& view, const ScheduledRequest& request) {
  const Position prompt_end = Position{} + request.tokens;
  const std::size_t end = std::min(prompt_end, request.next_cut.value_or(prompt_end)).value();
  const std::size_t left = end - request.held;
  if (const std::size_t pin = view.limits.pinned_tokens; pin > 0) {
    return std::min({left, pin - request.held % pin, view.limits.batch_tokens});
  }
  const std::size_t limit = slice_limit(view, request);
  if (left <= limit) return left;
  const std::size_t tile = view.limits.tile_tokens;
  const std::size_t less = (tile - (left - limit) % tile) % tile;  // so that whole tiles are left
  return less < limit ? limit - less : limit;
}

// In prefilled tokens.
std::size_t work_of(const ScheduleView& view, const ScheduledRequest& request) {
  const auto restores = static_cast<double>(request.restores) * view.limits.restored_token;
  return request.tokens - request.held - request.restores + static_cast<std::size_t>(restores);
}

// One session's many requests shall not all go before another's only one.
std::size_t weighed_work(const ScheduleView& view, const ScheduledRequest& request) {
  return work_of(view, request) * std::max<std::size_t>(1, running_of(view, request.session));
}

bool before_in_prefill(const ScheduleView& view, const ScheduledRequest& a, const ScheduledRequest& b) {
  const std::uint32_t a_is_due = a.passed >= kMostPassed ? a.passed : 0;
  const std::uint32_t b_is_due = b.passed >= kMostPassed ? b.passed : 0;
  if (a_is_due != b_is_due) return a_is_due > b_is_due;
  if (a.priority != b.priority) return a.priority < b.priority;
  return weighed_work(view, a) < weighed_work(view, b);
}

// Returns the one that prefills, or with `restores` also one whose rows are restored, that comes before the others.
const ScheduledRequest* first_by_work(const ScheduleView& view, bool restores) {
  const ScheduledRequest* first = nullptr;
  for (const ScheduledRequest& request : view.admitted) {
    const bool prefills = is_in(request, Phase::kPrefill) && !request.encodes;
    if (!prefills && !(restores && is_in(request, Phase::kRestoring))) continue;
    if (first == nullptr || before_in_prefill(view, request, *first)) first = &request;
  }
  return first;
}

}  // namespace

bool are_of_one_session(const QueuedRequest& a, const QueuedRequest& b) {
  if (a.key != b.key || a.session != b.session) return false;
  return a.session != kNoSession || a.number == b.number;
}

std::optional<NextStart> next_start(const ScheduleView& view) {
  for (std::size_t i = 0; i < view.admitted.size(); ++i) {
    const ScheduledRequest& request = view.admitted[i];
    if (!is_in(request, Phase::kWaiting) || request.ended || request.awaits) continue;
    if (!request.must_wait) return NextStart{.from_queue = false, .at = i};
    if (request.overtaken >= kMostOvertaken) return std::nullopt;
  }
  if (view.admitted.size() >= view.most_admitted) return std::nullopt;
  const std::optional<std::size_t> first = first_of_queue(view);
  return first ? std::optional(NextStart{.from_queue = true, .at = *first}) : std::nullopt;
}

std::vector<std::size_t> next_decode(const ScheduleView& view) {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < view.admitted.size() && members.size() < view.limits.batch_tokens; ++i) {
    if (is_in(view.admitted[i], Phase::kDecode)) members.push_back(i);
  }
  return members;
}

std::optional<NextSlice> next_slice(const ScheduleView& view) {
  const ScheduledRequest* first = first_by_work(view, /*restores=*/false);
  if (first == nullptr || view.limits.slice_is_taken) return std::nullopt;
  const auto at = static_cast<std::size_t>(first - view.admitted.data());
  return NextSlice{.at = at, .tokens = slice_tokens(view, *first)};
}

std::optional<std::size_t> next_restore(const ScheduleView& view) {
  const ScheduledRequest* first = first_by_work(view, /*restores=*/true);
  if (first == nullptr || !is_in(*first, Phase::kRestoring)) return std::nullopt;
  return static_cast<std::size_t>(first - view.admitted.data());
}

std::optional<NextGiver> next_giver(const ScheduleView& view, std::size_t needy) {
  const auto oldest = std::ranges::min_element(view.idle, {}, &IdleSequence::last_used_ns);  // the first of equals
  if (oldest != view.idle.end()) return NextGiver{.idle = oldest->seq, .at = 0};
  for (std::size_t at = view.admitted.size(); at-- > needy + 1;) {
    if (view.admitted[at].held > 0) return NextGiver{.idle = std::nullopt, .at = at};
  }
  return std::nullopt;
}

}  // namespace kvkeep::policy
