#include "cache/evictor.h"

#include <algorithm>
#include <utility>

namespace kvkeep::cache {

namespace {

// Kept segments leave last, as far as they fill at most this share of a tier.
constexpr std::uint64_t kKeptShare = 2;
// Victims at once: requests want the lock as well.
constexpr std::size_t kVictimsAtOnce = 128;

}  // namespace

Evictor::Evictor(CacheMutex& mutex, SegmentTable& table, Forgetting& forgetting, TierPort& port, TierId tier,
                 std::vector<LowerTier> lower, os::Clock& clock)
    : mutex_(mutex),
      table_(table),
      forgetting_(forgetting),
      port_(port),
      tier_(tier),
      lower_(std::move(lower)),
      clock_(clock),
      order_({table.shape().needs_points(), table.shape().window_tokens}) {
  CacheLock lock(mutex_);
  table_.watch(*this);
}

// ---- the order ----

policy::EvictCandidate Evictor::candidate(SegmentId segment) const {
  const Entry& known = table_.entry(segment);
  const index::SegmentInfo& info = table_.info(segment);
  policy::EvictCandidate candidate;
  candidate.segment = segment;
  candidate.parent = candidate.above = info.parent;
  candidate.tokens = static_cast<std::uint32_t>(info.range.size());
  candidate.begin = info.range.begin;
  candidate.last_used_ns = known.last_used_ns;
  candidate.kept_until_ns = known.kept_until_ns;
  candidate.base = known.base;
  candidate.outlook = known.outlook;
  candidate.bytes = table_.size_in(tier_, segment);
  candidate.absent = known.in(tier_) != CopyState::kHere;
  const bool has_copy = !durable() && elsewhere(known, Promise::kNone);
  if (has_copy) {
    candidate.parent = candidate.base = kRootSegment;
    candidate.kept_until_ns = 0;
  }
  if (known.is_leaf()) describe_leaf(segment, candidate);
  return candidate;
}

void Evictor::describe_leaf(SegmentId leaf, policy::EvictCandidate& candidate) const {
  const StateShape& shape = table_.shape();
  const format::PartKind kind = table_.info(leaf).kind;
  if (!shape.needs_points() || kind != point_kind(shape)) {
    candidate.tokens = 0;  // nothing is restored from it
  } else {
    const bool window = kind == format::PartKind::kWindowRows;
    candidate.kind = window ? policy::CandidateKind::kWindow : policy::CandidateKind::kPoint;
  }
}

// If candidates need each other, a tier's order must also know the segments of other tiers.
void Evictor::changed(SegmentId segment) {
  const Entry& known = table_.entry(segment);
  const bool here = known.live && known.in(tier_) == CopyState::kHere;
  if (here || (known.live && table_.shape().needs_points())) {
    order_.put(candidate(segment));
  } else {
    order_.erase(segment);
  }
}

// ---- who may leave ----

// Returns true if another tier that promises as much has it.
bool Evictor::elsewhere(const Entry& entry, Promise least) const {
  if (tier_ != kRamTier && entry.in_ram() && least <= Promise::kProcess) return true;
  return std::ranges::any_of(lower_, [&](const LowerTier& tier) {
    return tier.id != tier_ && entry.in(tier.id) == CopyState::kHere && tier.port->promise() >= least;
  });
}

bool Evictor::stays(SegmentId segment) const {
  const Entry& known = table_.entry(segment);
  if (durable()) {
    // It, or anything below it, in whatever tier, is in use or waits for the writer.
    return table_.any_in_subtree(segment, [](const Entry& entry) { return entry.needs_its_path(); }) ||
           completes_unwritten_window(segment);
  }
  if (elsewhere(known, Promise::kProcess)) return false;
  if (known.needs_its_path()) return true;
  if (elsewhere(known, Promise::kNone)) return false;
  // Victims are chosen one at a time, so everything below it must have left before.
  return table_.shape().needs_points() && !table_.nothing_below(segment);
}

// The first of several leaves that count together as a window must not leave to make room for the last.
bool Evictor::completes_unwritten_window(SegmentId leaf) const {
  const index::SegmentInfo& own = table_.info(leaf);
  if (own.kind != format::PartKind::kWindowRows) return false;
  const Position reach = own.range.end + table_.shape().window_tokens;
  const auto needs_it = [&](SegmentId other) REQUIRES(kCacheLock) {
    const Entry& known = table_.entry(other);
    const TokenRange range = table_.info(other).range;
    const bool unwritten = known.needs_its_path() && !known.on_disk();
    return unwritten && table_.info(other).kind == own.kind && range.end < reach && range.end > own.range.begin;
  };
  std::vector<SegmentId> pending{own.parent};
  while (!pending.empty()) {
    const SegmentId within = pending.back();
    pending.pop_back();
    if (std::ranges::any_of(table_.index().leaves_of(within), needs_it)) return true;
    for (const SegmentId child : table_.index().children(within)) {
      const index::SegmentInfo& info = table_.info(child);
      if (info.kind == format::PartKind::kRows && info.range.begin < reach) pending.push_back(child);
    }
  }
  return false;
}

bool Evictor::may_leave(SegmentId segment) const {
  const Entry& known = table_.entry(segment);
  if (!known.live || known.in(tier_) != CopyState::kHere || stays(segment)) return false;
  if (!durable()) return elsewhere(known, Promise::kNone) || table_.nothing_below(segment);
  return std::ranges::none_of(table_.below(segment), [&](SegmentId below) REQUIRES(kCacheLock) {
    return table_.entry(below).in(tier_) == CopyState::kHere;
  });
}

// ---- leaving ----

// Some of those that must leave to free `needed` bytes, or all; empty if nothing may leave.
std::vector<SegmentId> Evictor::victims(ByteCount needed, bool points_only) {
  const policy::EvictOrder::Request request{needed, kVictimsAtOnce, clock_.wall_ns(),
                                            ByteCount{port_.budget().value() / kKeptShare}, points_only};
  CacheLock lock(mutex_);
  std::optional<std::uint64_t>& nothing_left = nothing_left_[points_only ? 1 : 0];
  if (nothing_left == table_.changes()) return {};
  const auto chosen = order_.choose(request, [this](SegmentId segment) REQUIRES(kCacheLock) { return stays(segment); });
  nothing_left = chosen.empty() ? std::optional(table_.changes()) : std::nullopt;
  return chosen;
}

Evictor::Freed Evictor::make_room(const Need& need) {
  Freed freed;
  const EvictCause cause = need.points_only ? EvictCause::kPointsShare : EvictCause::kRoom;
  std::size_t in_vain = 0;  // victims that were used since they were chosen
  for (bool goes_on = true; goes_on && freed.bytes < need.bytes && in_vain < kVictimsAtOnce;) {
    const std::vector<SegmentId> chosen = victims(need.bytes - freed.bytes, need.points_only);
    goes_on = !chosen.empty();
    for (const SegmentId victim : chosen) {
      const Result<ByteCount> left = evict(victim, cause);
      goes_on = left.ok();
      if (!goes_on) break;  // a tier that refuses one will refuse others
      freed.bytes += *left;
      ++(*left > ByteCount{} ? freed.count : in_vain);
    }
    if (freed.bytes >= need.least && freed.count >= kVictimsAtOnce) break;
  }
  return freed;
}

explain::LossCause Evictor::loss_by(EvictCause cause) const {
  if (cause == EvictCause::kExpired) return explain::LossCause::kExpired;
  return tier_ == kRamTier ? explain::LossCause::kRamBudget : explain::LossCause::kDiskBudget;
}

Result<ByteCount> Evictor::evict(SegmentId segment, EvictCause cause) {
  TierItem item;
  ByteCount size;
  std::uint64_t serial = 0;
  std::int64_t idle_ns = 0;
  {
    CacheLock lock(mutex_);
    if (!may_leave(segment)) return ByteCount{};
    item = table_.named_item(segment);
    size = table_.size_in(tier_, segment);
    serial = table_.entry(segment).serial;
    idle_ns = clock_.wall_ns() - table_.entry(segment).last_used_ns;
    table_.set_copy(segment, tier_, CopyState::kLeaving);
  }
  const Status dropped = port_.drop(item);
  CacheLock lock(mutex_);
  if (dropped) evicted_.add(cause, idle_ns);
  const Entry& left = table_.entry(segment);
  if (left.live && left.serial == serial) {
    if (left.in(tier_) == CopyState::kLeaving)
      table_.set_copy(segment, tier_, dropped ? CopyState::kAbsent : CopyState::kHere);
    // Gone from every tier: its continuations cannot be reached either.
    if (dropped && !left.in_ram() && !left.below_ram()) {
      forgetting_.forget(segment, loss_by(cause));
      forgetting_.sweep();
    }
  }
  if (!dropped) return dropped.error();
  return size;
}

}  // namespace kvkeep::cache
