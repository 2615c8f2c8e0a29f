#include "server/run/awaited_prefix.h"

#include <algorithm>
#include <utility>

namespace kvkeep::server {

namespace {

using Phase = Request::Phase;

bool is_restoring(const Request& request) {
  return request.phase == Phase::kLoading || request.phase == Phase::kRestoring;
}

bool is_prefilling(const Request& request) {
  const bool computes = request.phase == Phase::kPrefill || is_restoring(request);
  return computes && request.sink != nullptr && request.seq.has_value();
}

// Where the part of the prompt ends that was known when the request looked up; the prompt's end if that look-up left
// something out.
Position known_to(const Request& request) {
  const LookupTiers tiers = request.tiers();
  const bool complete = tiers.memory && tiers.cache && !request.job.scored_prompt;
  return complete ? request.known.end : Position{} + request.effective.tokens.size();
}

// The request shares `shared` tokens with another one. Returns the end of the part of them that the other one brings
// into the model's memory soon, if that is most of what the request would restore by itself, and takes at most twice as
// long.
std::optional<Position> restored_soon(const policy::CachedPrefix& prefix, const Request& other, Position shared,
                                      const Sequences& sequences) {
  if (!is_restoring(other) || !sequences.share_cells()) return std::nullopt;
  const Position until = std::min(shared, other.restore.to());
  if (until <= prefix.from_memory || prefix.to == prefix.from_memory) return std::nullopt;
  const std::size_t own = prefix.to - prefix.from_memory;
  const std::size_t left = other.restore.to() - sequences[*other.seq].end();
  const bool worth = (until - prefix.from_memory) * 2 >= own && left <= own * 2;
  return worth ? std::optional(until) : std::nullopt;
}

// The longest part that is longer than what can be reused now, and than what `known` says of the request that computes
// it; or that is being restored.
std::optional<AwaitedPrefix> find_longest(const Request& request, const policy::CachedPrefix& prefix,
                                          Position (*known)(const Request&),
                                          std::span<const std::unique_ptr<Request>> active,
                                          const Sequences& sequences) {
  const LookupTiers tiers = request.tiers();
  if (!request.job.cache_prompt || !tiers.memory || request.awaited >= kMostAwaited) return std::nullopt;
  const TokenSpan prompt = request.effective.tokens;
  std::optional<AwaitedPrefix> longest;
  for (const auto& other : active) {
    if (other.get() == &request || !is_prefilling(*other)) continue;
    const Sequence& held = sequences[*other->seq];
    if (!held.occupant.cached || other->job.tenant != request.job.tenant) continue;
    const std::size_t shared = std::min(common_prefix(other->effective.tokens, prompt), prompt.size() - 1);
    const Position until = Position{} + shared;
    if (longest && until <= longest->until) continue;
    const bool computes = until > held.end() && until > prefix.to && until > known(*other);
    if (computes) longest = {.number = other->number, .seq = *other->seq, .until = until};
    const auto soon = computes ? std::nullopt : restored_soon(prefix, *other, until, sequences);
    if (soon && (!longest || *soon > longest->until))
      longest = {.number = other->number, .seq = *other->seq, .until = *soon, .restored = true};
  }
  return longest;
}

bool begin_to_wait(Request& request, const std::optional<AwaitedPrefix>& awaited, os::Clock& clock) {
  request.awaits = awaited;
  if (!awaited) return false;
  ++request.awaited;
  request.stats.waits.begin(WaitCause::kPrefix, clock.monotonic_ns());
  return true;
}

}  // namespace

std::optional<AwaitedPrefix> find_awaited(const Request& request, const policy::CachedPrefix& prefix,
                                          std::span<const std::unique_ptr<Request>> active,
                                          const Sequences& sequences) {
  const auto nothing = [](const Request&) { return Position{}; };
  return find_longest(request, prefix, nothing, active, sequences);
}

bool has_ended(const AwaitedPrefix& awaited, std::span<const std::unique_ptr<Request>> active,
               const Sequences& sequences) {
  const auto found = std::ranges::find_if(
      active, [&](const auto& each) { return each->number == awaited.number && each->seq == awaited.seq; });
  if (found == active.end() || !is_prefilling(**found)) return true;
  if (awaited.restored) return !is_restoring(**found);  // no other request shares rows before all are there
  return sequences[*(*found)->seq].end() >= awaited.until;
}

bool await_prefix(Request& request, const policy::CachedPrefix& prefix,
                  std::span<const std::unique_ptr<Request>> active, const Sequences& sequences, os::Clock& clock) {
  return begin_to_wait(request, find_awaited(request, prefix, active, sequences), clock);
}

bool await_unknown(Request& request, std::span<const std::unique_ptr<Request>> active, const Sequences& sequences,
                   os::Clock& clock) {
  if (request.search != nullptr) return false;  // it may have found more
  return begin_to_wait(request, find_longest(request, {}, known_to, active, sequences), clock);
}

std::size_t leave_place(std::vector<std::unique_ptr<Request>>& active, RequestQueue& queue, const Sequences& sequences,
                        os::Clock& clock) {
  std::unique_ptr<Request> request = std::move(active.back());
  active.pop_back();
  if (!request->awaits) return 0;
  queue.put_back(std::move(request));
  return queue.hold_back([&](Request& each) { return await_unknown(each, active, sequences, clock); });
}

bool release_awaiting(RequestQueue& queue, std::span<const std::unique_ptr<Request>> active, const Sequences& sequences,
                      std::int64_t now_ns) {
  const auto is_over = [&](const AwaitedPrefix& awaited) { return has_ended(awaited, active, sequences); };
  bool released = queue.release(is_over, now_ns);
  for (const auto& request : active) {
    if (!request->awaits || !is_over(*request->awaits)) continue;
    request->awaits.reset();
    request->stats.waits.begin(WaitCause::kCells, now_ns);  // it gave its own back
    released = true;
  }
  return released;
}

}  // namespace kvkeep::server
