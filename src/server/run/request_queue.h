#pragma once

// Requests that have no place yet, in order of arrival, and the facts by which policy/next_call.h chooses among them.
//
// The facts lie side by side and change with the queue, so that a choice among a thousand copies nothing. Engine thread
// only.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "policy/next_call.h"
#include "server/run/lookup.h"
#include "server/run/request.h"

namespace kvkeep::server {

// Requests of the queue that await parts of one prompt.
struct AwaitedPrompt {
  AwaitedPrefix first;  // the part that is computed first
  int priority = 0;     // the lowest of those that wait
};

class RequestQueue {
 public:
  std::size_t size() const { return requests_.size(); }
  bool empty() const { return requests_.empty(); }
  // How long a scheduler without work may sleep: until it notices that a client left or, earlier, that a search of the
  // shared tier takes too long.
  std::chrono::milliseconds longest_wait() const { return std::chrono::milliseconds(searching_ > 0 ? 5 : 100); }
  std::span<const std::unique_ptr<Request>> all() const { return requests_; }
  std::span<const policy::QueuedRequest> facts() const { return facts_; }
  // As many as there are requests that prefill: a round of the scheduler does not look at each that waits for them.
  std::span<const AwaitedPrompt> awaited() const { return awaited_; }
  // All that wait here, further replies to their prompts included.
  std::size_t replies() const { return requests_.size() + branches_; }
  // Of these, the replies that await a prefix which another request computes.
  std::size_t replies_awaiting() const { return awaiting_; }
  // Shows `ends` the next kMostChecked requests, in a cycle; those it returns true for have ended, and leave. Asking a
  // thousand in each round whether their clients are still there would take longer than all of its decisions: all are
  // shown only after check_all(), or when the time of one is over.
  void drop_some(std::int64_t now_ns, const std::function<bool(Request&)>& ends);
  void check_all() { checks_all_ = true; }  // a client left
  static constexpr std::size_t kMostChecked = 64;
  // The session of the request that got the last place.
  std::uint64_t served_last() const { return served_last_; }

  // A request that just came.
  void add(std::unique_ptr<Request> request);
  // Further replies to a prompt whose prefill ended: they go before all of their session that came after that prompt.
  void add_branch(std::unique_ptr<Request> branch);
  // The request at `at` leaves for a place: note_started() or put_back() follows.
  std::unique_ptr<Request> take(std::size_t at);
  // The request that was taken has its place. Of those that await no prefix, it overtook those of its session that came
  // before it, and passed those of its key's other sessions.
  void note_started(const Request& request);
  // The request that was taken turned out to await a prefix, so it needs no place until then, and overtook nobody.
  void put_back(std::unique_ptr<Request> request);

  // Lets `awaits` look at each request that awaits nothing; it returns true if the request begins to await a prefix.
  // Returns how many do.
  std::size_t hold_back(const std::function<bool(Request&)>& awaits);

  // Estimates the tokens to prefill of at most `most` requests that have no estimate: each is looked up once. Until
  // then all of its prompt counts. One that awaits a prefix has an estimate: the tokens after that prefix.
  void estimate(const PromptLookup& lookup, const PlanTerms& terms, std::size_t most);
  // Lets requests go on whose searches are over, and those for whose prefix `is_over` says so; from now on they wait
  // for a place. `is_over` holds for no part of a prompt before it holds for the first one. Returns true if there were
  // any.
  bool release(const std::function<bool(const AwaitedPrefix&)>& is_over, std::int64_t now_ns);
  void clear();

 private:
  void insert(std::unique_ptr<Request> request, std::size_t work);
  void note_awaited(const Request& request);
  void count_awaiting();

  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<policy::QueuedRequest> facts_;  // of the request at the same place
  std::uint64_t arrived_ = 0;
  std::uint64_t started_ = 0;
  std::map<std::uint64_t, std::uint64_t> key_started_;  // the number of each key's last start; as many as keys
  std::uint64_t served_last_ = policy::kNoSession;
  std::uint64_t estimated_to_ = 0;  // all numbers up to here were looked up
  std::vector<AwaitedPrompt> awaited_;
  std::size_t awaiting_ = 0;   // replies that await a prefix
  std::size_t searching_ = 0;  // requests that await a search
  std::size_t branches_ = 0;   // of all requests
  bool checks_all_ = false;
  std::int64_t first_due_ns_ = INT64_MAX;  // Job::longest_ms of none ends earlier
  std::size_t checked_to_ = 0;             // the place after the last one that drop_some() looked at
};

}  // namespace kvkeep::server
