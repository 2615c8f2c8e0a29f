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
    places_[*request->place].stats = request->stats;
  }
  for (const auto& request : admitted) {
    if (!request->place && request->sink != nullptr) take(*request);
  }
  return static_cast<std::size_t>(std::ranges::count(places_, true, &Place::running));
}

void Places::take(Request& request) {
  const auto free = std::ranges::find(places_, false, &Place::running);
  KVKEEP_ASSERT(free != places_.end(), "more requests than places");
  request.place = static_cast<std::size_t>(free - places_.begin());
  *free = {.running = true,
           .task = ++tasks_,
           .stats = request.stats,
           .max_tokens = request.job.max_tokens,
           .sampling = request.job.sampling};
  free->sampling.grammar = {};
  free->sampling.logit_bias = {};
  free->sampling.dry_breakers = {};
  free->sampling.thinking = {};
}

std::vector<Place> Places::all() const {
  MutexLock lock(mutex_);
  return places_;
}

}  // namespace kvkeep::server
