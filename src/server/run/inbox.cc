#include "server/run/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/run/found_break.h"
#include "server/run/request.h"
#include "server/run/scheduler_stats.h"
#include "server/run/served_rate.h"

namespace kvkeep::server {

namespace {

constexpr std::size_t kMostQuestions = 64;

}  // namespace

std::size_t share_of_queue(const InboxLimits& limits, std::size_t others) {
  const std::size_t owners = others + 1;
  const std::size_t kept_free = limits.queue < 2 ? 0 : (limits.queue + 15) / 16;
  return limits.places + (limits.queue - kept_free + owners - 1) / owners;
}

Inbox::Inbox(const InboxLimits& limits)
    : limits_(limits), served_(std::make_unique<ServedRate>()), stats_(std::make_unique<SchedulerStats>()) {}
Inbox::~Inbox() = default;

Status Inbox::check_room(std::size_t replies, const Job& job) const {
  const std::size_t open = in_flight_ - ahead_ + replies;
  if (open > limits_.open()) return busy("too many requests are waiting; try again later");
  if (job.owner == policy::kNoKey) return {};
  const auto found = of_owner_.find(job.owner);
  const std::size_t own = found == of_owner_.end() ? 0 : found->second;
  if (job.key != policy::kNoKey && own + replies > limits_.of_key) {
    return busy(
        fmt::format("{} requests with this API key run or wait, and {} may; try again later", own, limits_.of_key));
  }
  const std::size_t share = share_of_queue(limits_, of_owner_.size() - (own > 0 ? 1 : 0));
  if (open <= limits_.places + limits_.queue / 2 || own == 0 || own + replies <= share) return {};
  return busy(
      fmt::format("{} requests of this client run or wait, and the queue has room for {} of one client: the rest is "
                  "for others; try again later",
                  own, share));
}

Status Inbox::submit(std::vector<std::unique_ptr<Request>> requests) {
  if (requests.empty()) return {};
  std::size_t replies = 0;
  for (const auto& request : requests) replies += 1 + request->branches.size();
  const bool ahead = std::ranges::any_of(requests, [](const auto& request) { return request->job.ahead; });
  const Job& job = requests.front()->job;
  const std::size_t most = job.key == policy::kNoKey ? limits_.open() : std::min(limits_.open(), limits_.of_key);
  if (replies > most) {
    return invalid(
        fmt::format("{} replies are more than this server may hold at a time{}: ask for at most {}, or start "
                    "it with a larger --{}",
                    replies, most < limits_.open() ? " for one API key" : "", most,
                    most < limits_.open() ? "key-limit" : "queue-limit"));
  }
  MutexLock lock(mutex_);
  if (closed_ || stopping_) return busy("the server is shutting down");
  TRY(check_room(replies, job));
  if (ahead && in_flight_ > 0) return busy("a prefill ahead waits for other requests");
  if (in_flight_ == 0) served_->begin(requests.front()->submitted_ns);
  stats_->requests += requests.size();
  stats_->waiting += replies;
  stats_->waiting_for.add(WaitCause::kPlace, replies);
  in_flight_ += replies;
  if (job.owner != policy::kNoKey) of_owner_[job.owner] += replies;
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

void Inbox::note_left() {
  MutexLock lock(mutex_);
  woken_ = left_ = true;
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
  arrived.left = std::exchange(left_, false);
  return arrived;
}

void Inbox::note_now(const SchedulerNow& now) {
  MutexLock lock(mutex_);
  stats_->running = now.running;
  const std::size_t uncollected = requests_.size() + branches_of(requests_);
  stats_->waiting = now.waiting + uncollected;
  stats_->waiting_for = now.waiting_for;
  stats_->waiting_for.add(WaitCause::kPlace, uncollected);
  stats_->cells = now.cells;
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
  if (ended.found != nullptr) stats_->figures.note_break(ended.found->found);
  // Those that leave the queue, and prefills ahead, are no sign of how fast others are served.
  if (ended.stats.place && !ended.ahead) served_->note_served(ended.now_ns);
  if (--in_flight_ == 0) served_->pause(ended.now_ns);
  if (ended.ahead) --ahead_;
  const auto found = of_owner_.find(ended.owner);
  if (found != of_owner_.end() && --found->second == 0) of_owner_.erase(found);
}

}  // namespace kvkeep::server
