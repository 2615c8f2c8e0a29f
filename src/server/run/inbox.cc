#include "server/run/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/run/request.h"
#include "server/run/scheduler_stats.h"

namespace kvkeep::server {

namespace {

constexpr std::size_t kMostQuestions = 64;

}  // namespace

Inbox::Inbox(std::size_t most_open) : most_open_(most_open), stats_(std::make_unique<SchedulerStats>()) {}
Inbox::~Inbox() = default;

Status Inbox::submit(std::vector<std::unique_ptr<Request>> requests) {
  std::size_t replies = 0;
  for (const auto& request : requests) replies += 1 + request->branches.size();
  const bool ahead = std::ranges::any_of(requests, [](const auto& request) { return request->job.ahead; });
  if (replies > most_open_) {
    return invalid(
        fmt::format("{} replies are more than this server may hold at a time: ask for at most {}, or start "
                    "it with a larger --queue-limit",
                    replies, most_open_));
  }
  MutexLock lock(mutex_);
  if (closed_ || stopping_) return busy("the server is shutting down");
  if (in_flight_ - ahead_ + replies > most_open_) return busy("too many requests are waiting; try again later");
  if (ahead && in_flight_ > 0) return busy("a prefill ahead waits for other requests");
  stats_->requests += requests.size();
  stats_->waiting += replies;
  in_flight_ += replies;
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

SchedulerStats Inbox::stats() const {
  MutexLock lock(mutex_);
  return *stats_;
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

void Inbox::note_queue(std::size_t running, std::size_t waiting) {
  MutexLock lock(mutex_);
  stats_->running = running;
  stats_->waiting = waiting;
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

void Inbox::note_ended(bool ahead, Finish how, const JobStats& stats) {
  MutexLock lock(mutex_);
  stats_->figures.note_end(how, stats);
  --in_flight_;
  if (ahead) --ahead_;
}

}  // namespace kvkeep::server
