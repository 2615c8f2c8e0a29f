#include "bench/run/replay_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "bench/sessions/overlap.h"
#include "os/clock.h"

namespace kvkeep::bench {
namespace {

// While play() waits, it looks at the interrupt and shows progress this often.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

ReplayRun::ReplayRun(const Session& session, const ReplayRunOptions& options, Interrupt& interrupt)
    : session_(session),
      options_(options),
      interrupt_(interrupt),
      ended_before_(ended_before(session)),
      exchanges_(session.requests.size()),
      ended_(session.requests.size()) {}

ReplayRun::~ReplayRun() = default;

void ReplayRun::play() {
  begin_ns_ = os::real_clock().monotonic_ns();
  for (std::size_t place = 0; place < session_.requests.size() && wait_for_turn(place); ++place) {
    Worker* worker = take_worker();
    if (worker == nullptr) break;
    worker->thread->post([this, worker, place, body = take_body(place)] { exchange(*worker, place, body); });
  }
  wait_for_all();
}

bool ReplayRun::may_send(std::size_t place) const {
  if (in_flight_ >= options_.in_flight_max) return false;
  for (const std::size_t earlier : ended_before_[place]) {
    if (!ended_[earlier]) return false;
  }
  return true;
}

bool ReplayRun::wait_for_turn(std::size_t place) {
  const double due_s = options_.fast ? 0 : session_.requests[place].sent_s;
  const std::int64_t due_ns = begin_ns_ + static_cast<std::int64_t>(due_s * 1e9);
  const MutexLock lock(mutex_);
  while (!is_over()) {
    const std::int64_t early_ns = due_ns - os::real_clock().monotonic_ns();
    if (early_ns <= 0 && may_send(place)) {
      ++in_flight_;
      return true;
    }
    options_.on_progress(session_, ended_count_);
    const std::chrono::nanoseconds wait = early_ns > 0 ? std::chrono::nanoseconds(early_ns) : kLook;
    changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(wait, kLook));
  }
  return false;
}

ReplayRun::Worker* ReplayRun::take_worker() {
  const MutexLock lock(mutex_);
  if (!idle_.empty()) {
    Worker* worker = idle_.back();
    idle_.pop_back();
    return worker;
  }
  auto client = ServerClient::make(options_.target, interrupt_);
  if (!client) {  // the URL was checked before
    --in_flight_;
    return nullptr;
  }
  workers_.push_back(std::make_unique<Worker>(std::move(client).value(), os::make_thread_executor("replay")));
  return workers_.back().get();
}

Json ReplayRun::take_body(std::size_t place) {
  const RecordedRequest& request = session_.requests[place];
  if (!options_.echo_generated) return request.body;
  const MutexLock lock(mutex_);
  return echo_.body_for(request);
}

void ReplayRun::exchange(Worker& worker, std::size_t place, const Json& body) {
  const RecordedRequest& request = session_.requests[place];
  Exchange exchange = worker.client->send(request, body);
  const bool gone = !exchange.broken.empty() && !interrupt_.raised() && !worker.client->health();
  const MutexLock lock(mutex_);
  if (gone && !is_over()) killed_by_ = request.label;
  if (options_.echo_generated && exchange.answered()) echo_.remember(request, exchange.facts.message);
  exchanges_[place] = std::move(exchange);
  ended_[place] = true;
  ++ended_count_;
  --in_flight_;
  idle_.push_back(&worker);
  changed_.notify_all();  // under the lock: after it play() may return and destroy this
}

void ReplayRun::wait_for_all() {
  const MutexLock lock(mutex_);
  while (in_flight_ > 0) {
    options_.on_progress(session_, ended_count_);
    changed_.wait_for(mutex_, kLook);
  }
  options_.on_progress(session_, ended_count_);
}

}  // namespace kvkeep::bench
