#include "server/run/awaited_prefix.h"

#include <algorithm>

namespace kvkeep::server {

namespace {

bool is_prefilling(const Request& request) {
  using Phase = Request::Phase;
  const bool computes = request.phase == Phase::kPrefill || request.phase == Phase::kLoading;
  return computes && request.sink != nullptr && request.seq.has_value();
}

}  // namespace

std::optional<AwaitedPrefix> find_awaited(const Request& request, Position reused,
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
    if (until <= held.end() || until <= reused || (longest && until <= longest->until)) continue;
    longest = {.number = other->number, .seq = *other->seq, .until = until};
  }
  return longest;
}

bool has_ended(const AwaitedPrefix& awaited, std::span<const std::unique_ptr<Request>> active,
               const Sequences& sequences) {
  const auto found = std::ranges::find_if(
      active, [&](const auto& each) { return each->number == awaited.number && each->seq == awaited.seq; });
  if (found == active.end() || !is_prefilling(**found)) return true;
  return sequences[*(*found)->seq].end() >= awaited.until;
}

bool await_prefix(Request& request, Position reused, std::span<const std::unique_ptr<Request>> active,
                  const Sequences& sequences) {
  request.awaits = find_awaited(request, reused, active, sequences);
  if (!request.awaits) return false;
  ++request.awaited;
  return true;
}

bool release_awaiting(RequestQueue& queue, std::span<const std::unique_ptr<Request>> active, const Sequences& sequences,
                      std::int64_t now_ns) {
  const auto is_over = [&](const AwaitedPrefix& awaited) { return has_ended(awaited, active, sequences); };
  bool released = queue.release(is_over, now_ns);
  for (const auto& request : active) {
    if (!request->awaits || !is_over(*request->awaits)) continue;
    request->awaits.reset();
    released = true;
  }
  return released;
}

}  // namespace kvkeep::server
