#include "server/run/places.h"

#include <algorithm>

#include "base/assert.h"
#include "base/tenant_scope.h"
#include "server/run/request.h"
#include "server/run/request_queue.h"
#include "server/run/scheduler_stats.h"

namespace kvkeep::server {

std::string_view state_of(const Place& place) {
  using Phase = policy::ScheduledRequest::Phase;
  if (!place.running) return "idle";
  switch (place.phase) {
    case Phase::kWaiting: return "waiting";
    case Phase::kLoading:
    case Phase::kRestoring: return "loading";
    case Phase::kPrefill: return "prefilling";
    case Phase::kDecode: return "decoding";
  }
  return "waiting";
}

std::size_t Places::show(std::span<const std::unique_ptr<Request>> admitted) {
  MutexLock lock(mutex_);
  for (Place& place : places_) place.running = false;
  for (const auto& request : admitted) {
    if (!request->stats.place) continue;
    places_[*request->stats.place].running = request->sink != nullptr;
    places_[*request->stats.place].phase = request->phase;
    places_[*request->stats.place].stats = request->stats;
  }
  for (const auto& request : admitted) {
    if (!request->stats.place && request->sink != nullptr) take(*request);
  }
  return static_cast<std::size_t>(std::ranges::count(places_, true, &Place::running));
}

void Places::take(Request& request) {
  auto free = std::ranges::find(places_, false, &Place::running);
  if (const auto wish = request.job.place; wish && !places_[*wish % places_.size()].running) {
    free = places_.begin() + static_cast<std::ptrdiff_t>(*wish % places_.size());
  }
  KVKEEP_ASSERT(free != places_.end(), "more requests than places");
  request.stats.place = static_cast<std::size_t>(free - places_.begin());
  *free = {.running = true,
           .task = ++tasks_,
           .phase = request.phase,
           .stats = request.stats,
           .max_tokens = request.job.max_tokens,
           .sampling = request.job.sampling,
           .conversation = request.job.ahead ? std::move(free->conversation) : nullptr};
  free->sampling.grammar = {};
  free->sampling.logit_bias = {};
  free->sampling.dry_breakers = {};
  free->sampling.thinking = {};
}

std::vector<Place> Places::all() const {
  MutexLock lock(mutex_);
  return places_;
}

void Places::note_end(const Request& request, Finish how, std::int64_t now_ns) {
  if (request.job.ahead) return;
  MutexLock lock(mutex_);
  ended_.push_front({request.job.id, request.job.kind, request.job.tenant, how, now_ns, request.stats});
  if (ended_.size() > kMostEnded) ended_.pop_back();
  tenants_.note_end(request.job.tenant, request.stats, now_ns);
}

TenantSums Places::tenants() const {
  MutexLock lock(mutex_);
  return tenants_;
}

std::vector<EndedPlace> Places::ended() const {
  MutexLock lock(mutex_);
  return {ended_.begin(), ended_.end()};
}

void Places::leave(const Request& request, Conversation conversation) {
  if (!request.stats.place) return;
  const auto left = std::make_shared<const Conversation>(std::move(conversation));
  MutexLock lock(mutex_);
  if (!request.job.ahead) {
    places_[*request.stats.place].conversation = left;
    return;
  }
  for (Place& place : places_) {
    if (place.conversation == nullptr || place.conversation->tenant != left->tenant) continue;
    const TokenSpan before = place.conversation->tokens;
    if (common_prefix(before, left->tokens) == before.size()) place.conversation = left;
  }
}

Result<std::shared_ptr<const Conversation>> Places::conversation(std::size_t place) const {
  MutexLock lock(mutex_);
  if (places_[place].running) return busy("a request runs in this slot; ask again when it has ended");
  return places_[place].conversation;
}

void Places::forget(std::size_t place) {
  MutexLock lock(mutex_);
  places_[place].conversation = nullptr;
}

void Places::forget_below(TokenSpan beginning, const TenantScope& tenants) {
  MutexLock lock(mutex_);
  for (Place& place : places_) {
    if (place.conversation == nullptr || !tenants.has(place.conversation->tenant)) continue;
    if (common_prefix(place.conversation->tokens, beginning) == beginning.size()) place.conversation = nullptr;
  }
}

SchedulerNow count_now(std::span<const std::unique_ptr<Request>> admitted, const RequestQueue& queue, Places& places,
                       const CellCounts& cells) {
  SchedulerNow now{.running = places.show(admitted),
                   .waiting = queue.replies() + branches_of(admitted),
                   .waiting_for = {},
                   .cells = cells};
  now.waiting_for.add(WaitCause::kPrefix, queue.replies_awaiting());
  now.waiting_for.add(WaitCause::kPlace, now.waiting - queue.replies_awaiting());
  for (const auto& request : admitted) {
    if (request->sink == nullptr) continue;
    if (const auto cause = request->stats.waits.now()) now.waiting_for.add(*cause);
  }
  return now;
}

}  // namespace kvkeep::server
