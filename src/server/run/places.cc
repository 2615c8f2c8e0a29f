#include "server/run/places.h"

#include <algorithm>

#include "base/assert.h"
#include "server/run/request.h"

namespace kvkeep::server {

std::size_t Places::show(std::span<const std::unique_ptr<Request>> admitted) {
  MutexLock lock(mutex_);
  for (Place& place : places_) place.running = false;
  for (const auto& request : admitted) {
    if (!request->place) continue;
    places_[*request->place].running = request->sink != nullptr;
    places_[*request->place].phase = request->phase;
    places_[*request->place].stats = request->stats;
  }
  for (const auto& request : admitted) {
    if (!request->place && request->sink != nullptr) take(*request);
  }
  return static_cast<std::size_t>(std::ranges::count(places_, true, &Place::running));
}

void Places::take(Request& request) {
  auto free = std::ranges::find(places_, false, &Place::running);
  if (const auto wish = request.job.place; wish && !places_[*wish % places_.size()].running) {
    free = places_.begin() + static_cast<std::ptrdiff_t>(*wish % places_.size());
  }
  KVKEEP_ASSERT(free != places_.end(), "more requests than places");
  request.place = static_cast<std::size_t>(free - places_.begin());
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

void Places::leave(const Request& request, Conversation conversation) {
  if (!request.place) return;
  const auto left = std::make_shared<const Conversation>(std::move(conversation));
  MutexLock lock(mutex_);
  if (!request.job.ahead) {
    places_[*request.place].conversation = left;
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

}  // namespace kvkeep::server
