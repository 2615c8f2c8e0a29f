// Points along a reply that streams, so that whoever leaves in its middle (Esc) finds one near what was seen of it.
//
// They are taken where the rows of the reply are captured anyway, and lie in RAM alone. A copy of a large hybrid's
// state (150 MiB) takes some 15 ms, once in capture_every_tokens; a reply holds at most kMostStreamed of them, fewer
// where they are more than a share of --cache-ram, and leaves at most two behind.

#include <algorithm>

#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

constexpr std::size_t kMostStreamed = 4;
// Of --cache-ram, for each reply: four points of 150 MiB fit into an eighth of 8 GiB.
constexpr std::size_t kStreamedShare = 8;

}  // namespace

// Windows lie side by side along a reply. Whole states grow with the conversation: too much to copy at a stride.
bool Scheduler::streams_points() const {
  const cache::StateShape shape = engine_.memory().shape();
  return shape.points && !shape.whole_points && options_.cuts.most_points > 0;
}

void Scheduler::capture_streamed(SeqId seq) {
  Sequence& held = sequence(seq);
  const ByteCount ram_budget = cache_.stats().ram_budget;
  const std::size_t most =
      policy::points_that_fit(ram_budget, kStreamedShare, ByteCount{engine_.memory().point_bytes(seq)},
                              std::min(kMostStreamed, options_.cuts.most_points));
  const Position end = Position{} + held.tokens.size();
  if (most == 0 || held.track->position() != end || end.value() < options_.cuts.min_tokens) return;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const cache::PointResult captured =
      cache::capture_point(cache_, engine_.memory(), seq, held.tokens, *held.track, cache::Keeping::kInRamUntilUsed);
  if (captured.bytes == ByteCount{}) return;  // refused, or it is there
  cache_.forget_points(held.tokens, held.streamed.add(end, most), held.tenant);
  trace_cut(seq, {.at = end,
                  .reason = policy::CutReason::kStreamed,
                  .kind = cache::point_kind(engine_.memory().shape()),
                  .bytes = captured.bytes,
                  .ms = ms_since(begin_ns)});
}

// Before the end of the sequence is captured: a point that lies there stays.
void Scheduler::end_streamed(SeqId seq, bool client_left) {
  Sequence& held = sequence(seq);
  if (held.streamed.held().empty()) return;
  std::vector<Position> leave = held.streamed.end(client_left);
  std::erase(leave, Position{} + held.tokens.size());
  cache_.forget_points(held.tokens, leave, held.tenant);
}

}  // namespace kvkeep::server
