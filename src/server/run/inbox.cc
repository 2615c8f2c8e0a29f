#include "server/run/inbox.h"

#include <algorithm>
#include <utility>

#include "server/run/found_break.h"
#include "server/run/queue_room.h"
#include "server/run/request.h"
#include "server/run/scheduler_stats.h"
#include "server/run/served_rate.h"

namespace kvkeep::server {

namespace {

constexpr std::size_t kMostQuestions = 64;

OpenReplies replies_of(std::span<const std::unique_ptr<Request>> requests) {
  OpenReplies all;
  for (const auto& request : requests) {
    all = all + OpenReplies{1 + request->branches.size(), request->stats.sent_tokens};
  }
  return all;
}

}  // namespace

Inbox::Inbox(const QueueLimits& limits)
    : room_(std::make_unique<QueueRoom>(limits)),
      served_(std::make_unique<ServedRate>()),
      stats_(std::make_unique<SchedulerStats>()) {}
Inbox::~Inbox() = default;

Status Inbox::submit(std::vector<std::unique_ptr<Request>> requests) {
  if (requests.empty()) return {};
  const OpenReplies more = replies_of(requests);
  const bool ahead = std::ranges::any_of(requests, [](const auto& request) { return request->job.ahead; });
  const Job& job = requests.front()->job;
  MutexLock lock(mutex_);
  if (closed_ || stopping_) return busy("the server is shutting down");
  TRY(room_->check(more, job, stats_->waiting));
  const bool is_first = room_->open().replies == 0;
  if (ahead && !is_first) return busy("a prefill ahead waits for other requests");
  if (is_first) served_->begin(requests.front()->submitted_ns);
  stats_->requests += requests.size();
  stats_->waiting += more.replies;
  stats_->waiting_for.add(WaitCause::kPlace, more.replies);
  room_->add(more, job.owner, ahead);
  for (auto& request : requests) {
    if (request->trace != nullptr) request->trace->in_flight = room_->open().replies;
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
  return room_->open().replies == 0;
}

SchedulerStats Inbox::stats(std::int64_t now_ns) const {
  MutexLock lock(mutex_);
  SchedulerStats stats = *stats_;
  stats.retry_after_s = served_->seconds_for(stats.waiting, now_ns);
  stats.open_tokens = room_->open().tokens;
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
  room_->remove({1, ended.stats.sent_tokens}, ended.owner, ended.ahead);
  if (room_->open().replies == 0) served_->pause(ended.now_ns);
}

}  // namespace kvkeep::server
