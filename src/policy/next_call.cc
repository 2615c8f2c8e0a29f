#include "policy/next_call.h"

#include <algorithm>

namespace kvkeep::policy {

namespace {

using Phase = ScheduledRequest::Phase;

bool is_in(const ScheduledRequest& request, Phase phase) { return request.phase == phase; }

std::size_t slice_limit(const ScheduleView& view, const ScheduledRequest& request) {
  const auto decodes = [](const ScheduledRequest& other) { return is_in(other, Phase::kDecode); };
  const CallLimits& limits = view.limits;
  std::size_t limit = limits.batch_tokens;
  if (std::ranges::any_of(view.admitted, decodes)) limit = std::min(limit, limits.busy_slice_tokens);
  if (request.ahead) limit = std::min(limit, limits.ahead_slice_tokens);
  const bool windowed = limits.window_slice_tokens > 0 && request.captured_by_window;
  if (windowed) limit = std::min(limit, limits.window_slice_tokens);
  if (request.next_cut) limit = std::min(limit, request.next_cut->value() - request.held);
  return limit;
}

}  // namespace

std::optional<NextStart> next_start(const ScheduleView& view) {
  for (const ScheduledRequest& request : view.admitted) {
    if (is_in(request, Phase::kPrefill)) return std::nullopt;
  }
  for (std::size_t i = 0; i < view.admitted.size(); ++i) {
    const ScheduledRequest& request = view.admitted[i];
    if (!is_in(request, Phase::kWaiting) || request.ended) continue;
    return request.must_wait ? std::nullopt : std::optional(NextStart{.from_queue = false, .at = i});
  }
  if (view.queued.empty() || view.admitted.size() >= view.most_admitted) return std::nullopt;
  return NextStart{.from_queue = true, .at = 0};
}

std::vector<std::size_t> next_decode(const ScheduleView& view) {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < view.admitted.size() && members.size() < view.limits.batch_tokens; ++i) {
    if (is_in(view.admitted[i], Phase::kDecode)) members.push_back(i);
  }
  return members;
}

std::optional<NextSlice> next_slice(const ScheduleView& view) {
  const auto found =
      std::ranges::find_if(view.admitted, [](const auto& request) { return is_in(request, Phase::kPrefill); });
  if (found == view.admitted.end()) return std::nullopt;
  const auto at = static_cast<std::size_t>(found - view.admitted.begin());
  return NextSlice{.at = at, .tokens = std::min(slice_limit(view, *found), found->tokens - found->held)};
}

std::optional<NextGiver> next_giver(const ScheduleView& view, std::size_t needy) {
  const auto oldest = std::ranges::min_element(view.idle, {}, &IdleSequence::last_used_ns);  // the first of equals
  if (oldest != view.idle.end()) return NextGiver{.idle = oldest->seq, .at = 0};
  for (std::size_t at = view.admitted.size(); at-- > needy + 1;) {
    if (view.admitted[at].held > 0) return NextGiver{.idle = std::nullopt, .at = at};
  }
  return std::nullopt;
}

std::size_t ahead_slice(double prefill_tokens_per_s, double slice_ms) {
  return std::max(kLeastAheadTokens, static_cast<std::size_t>(prefill_tokens_per_s * slice_ms / 1e3));
}

}  // namespace kvkeep::policy
