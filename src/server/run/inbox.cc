#include "server/run/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/run/request.h"
#include "server/run/scheduler_stats.h"
#include "server/run/served_rate.h"

namespace kvkeep::server {

namespace {

constexpr std::size_t kMostQuestions = 64;

}  // namespace

Inbox::Inbox(std::size_t most_open, std::size_t most_of_key)
    : most_open_(most_open),
      most_of_key_(most_of_key),
      served_(std::make_unique<ServedRate>()),
      stats_(std::make_unique<SchedulerStats>()) {}
Inbox::~Inbox() = default;

Status Inbox::check_room(std::size_t replies, std::uint64_t key) const {
  if (in_flight_ - ahead_ + replies > most_open_) return busy("too many requests are waiting; try again later");
  const auto found = of_key_.find(key);
  const std::size_t open = found == of_key_.end() ? 0 : found->second;
  if (key == policy::kNoKey || open + replies <= most_of_key_) return {};
  return busy(
      fmt::format("{} requests with this API key run or wait, and {} may; try again later", open, most_of_key_));
}

Status Inbox::submit(std::vector<std::unique_ptr<Request>> requests) {
  std::size_t replies = 0;
  for (const auto& request : requests) replies += 1 + request->branches.size();
  const bool ahead = std::ranges::any_of(requests, [](const auto& request) { return request->job.ahead; });
  const std::uint64_t key = requests.empty() ? policy::kNoKey : requests.front()->job.key;
  const std::size_t most = key == policy::kNoKey ? most_open_ : std::min(most_open_, most_of_key_);
  if (replies > most) {
    return invalid(fmt::format(
        "{} replies are more than this server may hold at a time{}: ask for at most {}, or start "
        "it with a larger --{}",
        replies, most < most_open_ ? " for one API key" : "", most, most < most_open_ ? "key-limit" : "queue-limit"));
  }
  MutexLock lock(mutex_);
  if (closed_ || stopping_) return busy("the server is shutting down");
  TRY(check_room(replies, key));
  if (ahead && in_flight_ > 0) return busy("a prefill ahead waits for other requests");
  if (in_flight_ == 0 && replies > 0) served_->begin(requests.front()->submitted_ns);
  stats_->requests += requests.size();
  stats_->waiting += replies;
  in_flight_ += replies;
  if (key != policy::kNoKey) of_key_[key] += replies;
  if (ahead) ahead_ += replies;
  for (auto& request : requests) {
    if (request->trace != nullptr) request->trace->in_flight = in_flight_;
    requests_.push_back(std::move(request));
  }
  wake_.notify_one();
  return {};
}

Status Inbox::ask(Question question) {
  MutexLock lock(mutex_);
  if (stopping_) return busy("the server is shutting down");
  if (questions_.size() >= kMostQuestions) return busy("too many lookups are waiting; try again later");
  questions_.push_back(std::move(question));
  wake_.notify_one();
  return {};
}

void Inbox::deliver(LoadedState loaded) {
  MutexLock lock(mutex_);
  loaded_.push_back(std::move(loaded));
  wake_.notify_one();
}

void Inbox::wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  wake_.notify_one();
}

void Inbox::close() { closed_ = true; }

void Inbox::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  wake_.notify_one();
}

bool Inbox::idle() const {
  MutexLock lock(mutex_);
  return in_flight_ == 0;
}

SchedulerStats Inbox::stats(std::int64_t now_ns) const {
  MutexLock lock(mutex_);
  SchedulerStats stats = *stats_;
  stats.retry_after_s = served_->seconds_for(stats.waiting, now_ns);
  stats.closed = closed_ || stopping_;
  return stats;
}

Inbox::Arrived Inbox::collect(std::chrono::milliseconds wait) {
  MutexLock lock(mutex_);
  const bool nothing = requests_.empty() && loaded_.empty() && questions_.empty() && !woken_ && !stopping_;
  if (nothing && wait.count() > 0) wake_.wait_for(mutex_, wait);
  woken_ = false;
  Arrived arrived;
  arrived.requests.swap(requests_);
  arrived.loaded.swap(loaded_);
  return arrived;
}

void Inbox::note_now(const Now& now) {
  MutexLock lock(mutex_);
  stats_->running = now.running;
  stats_->waiting = now.waiting;
  stats_->cells = now.cells;
  for (const auto& request : requests_) stats_->waiting += 1 + request->branches.size();
}

void Inbox::await_loaded(std::chrono::milliseconds wait) {
  MutexLock lock(mutex_);
  if (loaded_.empty()) wake_.wait_for(mutex_, wait);
}

std::vector<Question> Inbox::take_questions(std::size_t most) {
  MutexLock lock(mutex_);
  std::vector<Question> taken;
  while (!questions_.empty() && taken.size() < most) {
    taken.push_back(std::move(questions_.front()));
    questions_.pop_front();
  }
  return taken;
}

void Inbox::note_ended(const Ended& ended) {
  MutexLock lock(mutex_);
  stats_->note_end(ended.how, ended.stats);
  // Those that leave the queue, and prefills ahead, are no sign of how fast others are served.
  if (ended.stats.place && !ended.ahead) served_->note_served(ended.now_ns);
  if (--in_flight_ == 0) served_->pause(ended.now_ns);
  if (ended.ahead) --ahead_;
  const auto found = of_key_.find(ended.key);
  if (found != of_key_.end() && --found->second == 0) of_key_.erase(found);
}

}  // namespace kvkeep::server
