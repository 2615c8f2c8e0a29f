#include "server/run/request_queue.h"

#include <algorithm>
#include <utility>

namespace kvkeep::server {

namespace {

policy::QueuedRequest facts_of(const Request& request, std::size_t work, std::uint64_t key_started) {
  return {.number = request.number,
          .key = request.job.key,
          .session = request.job.session,
          .priority = request.job.priority,
          .work = work,
          .overtaken = request.overtaken,
          .passed = request.passed,
          .key_started = key_started,
          .awaits = request.awaits.has_value() || request.search != nullptr};
}

std::int64_t due_ns(const Request& request) {
  if (request.job.longest_ms <= 0) return INT64_MAX;
  return request.submitted_ns + static_cast<std::int64_t>(request.job.longest_ms * 1e6);
}

}  // namespace

void RequestQueue::insert(std::unique_ptr<Request> request, std::size_t work) {
  const auto started = key_started_.find(request->job.key);
  const policy::QueuedRequest facts = facts_of(*request, work, started != key_started_.end() ? started->second : 0);
  const auto place = std::ranges::upper_bound(facts_, facts.number, {}, &policy::QueuedRequest::number);
  branches_ += request->branches.size();
  first_due_ns_ = std::min(first_due_ns_, due_ns(*request));
  checked_to_ += static_cast<std::size_t>(place - facts_.begin()) < checked_to_ ? 1 : 0;
  requests_.insert(requests_.begin() + (place - facts_.begin()), std::move(request));
  note_awaited(*requests_[static_cast<std::size_t>(place - facts_.begin())]);
  facts_.insert(place, facts);
}

void RequestQueue::note_awaited(const Request& request) {
  searching_ += request.search != nullptr ? 1 : 0;
  if (!request.awaits) return;
  awaiting_ += 1 + request.branches.size();
  const AwaitedPrefix& awaits = *request.awaits;
  const auto same = std::ranges::find_if(awaited_, [&](const AwaitedPrompt& each) {
    return each.first.number == awaits.number && each.first.seq == awaits.seq;
  });
  if (same == awaited_.end()) return awaited_.push_back({awaits, request.job.priority});
  same->first.until = std::min(same->first.until, awaits.until);
  same->priority = std::min(same->priority, request.job.priority);
}

void RequestQueue::count_awaiting() {
  awaited_.clear();
  awaiting_ = searching_ = 0;
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    if (facts_[i].awaits) note_awaited(*requests_[i]);
  }
}

void RequestQueue::add(std::unique_ptr<Request> request) {
  request->number = ++arrived_;
  request->stats.waits.begin(WaitCause::kPlace, request->submitted_ns);
  const std::size_t work = request->effective.tokens.size();
  insert(std::move(request), work);
}

void RequestQueue::add_branch(std::unique_ptr<Request> branch) {
  branch->overtaken = policy::kMostOvertaken;
  insert(std::move(branch), 1);
}

std::unique_ptr<Request> RequestQueue::take(std::size_t at) {
  const auto place = static_cast<std::ptrdiff_t>(at);
  std::unique_ptr<Request> taken = std::move(requests_[at]);
  taken->overtaken = facts_[at].overtaken;
  taken->passed = facts_[at].passed;
  branches_ -= taken->branches.size();
  checked_to_ -= at < checked_to_ ? 1 : 0;
  requests_.erase(requests_.begin() + place);
  facts_.erase(facts_.begin() + place);
  return taken;
}

void RequestQueue::note_started(const Request& request) {
  served_last_ = request.job.session;
  key_started_[request.job.key] = ++started_;
  const policy::QueuedRequest started = facts_of(request, 0, started_);
  for (policy::QueuedRequest& other : facts_) {
    if (other.key != started.key) continue;
    other.key_started = started_;
    const bool one_session = policy::are_of_one_session(other, started);
    if (one_session) other.passed = 0;
    if (other.awaits) continue;
    other.passed += one_session ? 0 : 1;
    other.overtaken += one_session && other.number < started.number ? 1 : 0;
  }
}

void RequestQueue::put_back(std::unique_ptr<Request> request) {
  const std::size_t work = request->effective.tokens.size() - request->awaits->until.value();
  insert(std::move(request), work);
}

void RequestQueue::estimate(const PromptLookup& lookup, const PlanTerms& terms, std::size_t most) {
  auto next = std::ranges::upper_bound(facts_, estimated_to_, {}, &policy::QueuedRequest::number);
  for (; most > 0 && next != facts_.end(); ++next) {
    estimated_to_ = next->number;
    const Request& request = *requests_[static_cast<std::size_t>(next - facts_.begin())];
    if (next->awaits && request.awaits) continue;
    next->work = lookup.work(request.job, request.effective.tokens, terms, request.tiers());
    --most;
  }
}

std::size_t RequestQueue::hold_back(const std::function<bool(Request&)>& awaits) {
  std::size_t held_back = 0;
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    if (facts_[i].awaits || !awaits(*requests_[i])) continue;
    facts_[i].awaits = true;
    facts_[i].work = requests_[i]->effective.tokens.size() - requests_[i]->awaits->until.value();
    note_awaited(*requests_[i]);
    ++held_back;
  }
  return held_back;
}

bool RequestQueue::release(const std::function<bool(const AwaitedPrefix&)>& is_over, std::int64_t now_ns) {
  if (searching_ == 0 && std::ranges::none_of(awaited_, is_over, &AwaitedPrompt::first)) return false;
  bool released = false;
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    if (!facts_[i].awaits) continue;
    const std::optional<AwaitedPrefix>& awaits = requests_[i]->awaits;
    const bool searching = requests_[i]->search != nullptr && !requests_[i]->search->over();
    if (searching || (awaits && !is_over(*awaits))) continue;
    requests_[i]->awaits.reset();
    requests_[i]->stats.waits.begin(WaitCause::kPlace, now_ns);
    facts_[i].awaits = false;
    released = true;
  }
  if (released) count_awaiting();
  return released;
}

void RequestQueue::drop_some(std::int64_t now_ns, const std::function<bool(Request&)>& ends) {
  const bool all = std::exchange(checks_all_, false) || now_ns > first_due_ns_;
  const std::size_t from = !all && checked_to_ < requests_.size() ? checked_to_ : 0;
  const std::size_t to = all ? requests_.size() : std::min(requests_.size(), from + kMostChecked);
  if (all) first_due_ns_ = INT64_MAX;
  std::size_t kept = from;
  bool any_awaited = false;
  for (std::size_t i = from; i < to; ++i) {
    if (ends(*requests_[i])) {
      branches_ -= requests_[i]->branches.size();
      any_awaited |= facts_[i].awaits;
      continue;
    }
    if (all) first_due_ns_ = std::min(first_due_ns_, due_ns(*requests_[i]));
    if (kept != i) requests_[kept] = std::move(requests_[i]);
    facts_[kept++] = facts_[i];
  }
  checked_to_ = kept;
  if (kept == to) return;
  const auto place = [](std::size_t at) { return static_cast<std::ptrdiff_t>(at); };
  requests_.erase(requests_.begin() + place(kept), requests_.begin() + place(to));
  facts_.erase(facts_.begin() + place(kept), facts_.begin() + place(to));
  if (any_awaited) count_awaiting();
}

void RequestQueue::clear() {
  requests_.clear();
  facts_.clear();
  awaited_.clear();
  awaiting_ = searching_ = branches_ = checked_to_ = 0;
  first_due_ns_ = INT64_MAX;
}

}  // namespace kvkeep::server
