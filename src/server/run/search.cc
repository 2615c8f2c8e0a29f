#include "server/run/search.h"

#include <algorithm>
#include <utility>

#include "cache/cache.h"
#include "policy/share.h"

namespace kvkeep::server {

// ---- one search ----

bool Search::begin() {
  begun_ns_ = std::max<std::int64_t>(clock_.monotonic_ns(), 1);
  return wanted_;
}

// A round trip that began in time may end later, and the thread that searches may be held up.
bool Search::over() const {
  if (answered_) return true;
  const std::int64_t begun_ns = begun_ns_;
  if (begun_ns == 0) return ms() > longest_turn_ms_;
  return os::elapsed_ms(begun_ns, clock_.monotonic_ns()) > policy::kLongestSearchMs;
}

std::optional<cache::SeekResult> Search::result() const {
  if (!answered_) return std::nullopt;
  return result_;
}

void Search::answer(const cache::SeekResult& result) {
  result_ = result;
  answered_ = true;
}

// ---- searches ----

struct Searches::Bell {
  Mutex mutex;
  std::function<void()> wake GUARDED_BY(mutex);

  void ring() {
    const MutexLock lock(mutex);
    if (wake) wake();
  }
};

Searches::Searches(cache::Cache& cache, os::Clock& clock, std::function<void()> wake)
    : cache_(cache), clock_(clock), bell_(std::make_shared<Bell>()) {
  const MutexLock lock(bell_->mutex);
  bell_->wake = std::move(wake);
}

Searches::~Searches() {
  const MutexLock lock(bell_->mutex);
  bell_->wake = nullptr;
}

std::shared_ptr<Search> Searches::begin(const Job& job) {
  const bool may_reuse = job.cache_prompt && !job.scored_prompt && !job.ahead;
  if (!may_reuse || !policy::worth_searching(job.prompt.size(), Position{}) || !cache_.can_seek()) return nullptr;
  const std::optional<double> patience_ms = cache_.search_patience_ms(job.prompt, job.tenant);
  if (!patience_ms) return nullptr;
  const auto search = std::make_shared<Search>(clock_, *patience_ms);
  cache_.seek({.prompt = job.prompt,
               .markers = job.markers,
               .tenant = job.tenant,
               .begins = [search] { return search->begin(); }},
              [search, bell = bell_](const cache::SeekResult& result) {
                search->answer(result);
                bell->ring();
              });
  return search;
}

}  // namespace kvkeep::server
