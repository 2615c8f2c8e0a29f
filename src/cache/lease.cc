#include "cache/lease.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace kvkeep::cache {

namespace {

constexpr ByteCount kMostShared = mebibytes(64);  // of a portion

TokenSpan span_of(const LeasedIds& ids) { return ids ? TokenSpan(*ids) : TokenSpan(); }

}  // namespace

// ---- Lease ----

Lease::Lease(Releaser& releaser, const StateShape& shape, SegmentId pinned, std::vector<LeasedStep> steps,
             std::vector<LeasedPoint> points)
    : releaser_(releaser), shape_(shape), pinned_(pinned), steps_(std::move(steps)), points_(std::move(points)) {}

Lease::~Lease() {
  std::vector<SegmentId> held{pinned_};
  for (const LeasedPoint& point : points_) held.push_back(point.id);
  releaser_.release(held);
}

void Lease::fill_step(std::size_t step, std::shared_ptr<const store::Payload> payload) {
  steps_[step].payload = std::move(payload);
}

void Lease::fill_point(std::size_t point, std::shared_ptr<const store::Payload> payload) {
  points_[point].payload = std::move(payload);
}

bool Lease::loaded(TokenRange range) const {
  return std::ranges::all_of(steps_, [&](const LeasedStep& step) {
    return step.range.end <= range.begin || step.range.begin >= range.end || step.payload != nullptr;
  });
}

Position Lease::loaded_until(Position from) const {
  Position end = from;
  for (const LeasedStep& step : steps_) {
    if (step.range.end <= from) continue;
    if (step.payload == nullptr) break;
    end = step.range.end;
  }
  return end;
}

Position Lease::load_end(Position from, Position limit, ByteCount most) const {
  ByteCount bytes;
  ByteCount shared;
  Position end = from;
  for (const LeasedStep& step : steps_) {
    if (step.range.end <= from) continue;
    if (step.payload == nullptr) bytes += step.bytes;
    if (step.payload == nullptr && step.tier == Tier::kShared) shared += step.bytes;
    if (end > from && (bytes > most || shared > kMostShared)) break;
    end = step.range.end;
    if (end >= limit) return limit;
  }
  return end;
}

void Lease::release_until(Position end) {
  for (LeasedStep& step : steps_) {
    if (step.range.end <= end) step.payload.reset();
  }
}

std::vector<RowPiece> Lease::pieces(TokenRange range) const {
  std::vector<RowPiece> pieces;
  for (const LeasedStep& step : steps_) {
    const TokenRange wanted{std::max(step.range.begin, range.begin), std::min(step.range.end, range.end)};
    if (wanted.begin >= wanted.end) continue;
    KVKEEP_ASSERT(step.payload != nullptr, "pieces of a lease that is not loaded");
    pieces.push_back({step.stored, wanted, step.payload->bytes(), span_of(step.ids)});
  }
  return pieces;
}

// ---- points and windows ----

std::optional<std::vector<Lease::Cover>> Lease::cover(Position at) const {
  if (at == Position{} || at > end()) return std::nullopt;
  if (!shape_.needs_points()) return std::vector<Cover>{};
  if (shape_.window_tokens > 0)
    return cover_window({Position{at.value() - std::min(at.value(), shape_.window_tokens)}, at});
  const auto here = std::ranges::lower_bound(points_, at, {}, [](const LeasedPoint& point) { return point.range.end; });
  if (here == points_.end() || here->range.end != at) return std::nullopt;
  return std::vector<Cover>{{static_cast<std::size_t>(here - points_.begin()), here->range}};
}

// Leaves of a path rarely overlap (only if a former process left them so), so the first that continues is good enough.
std::optional<std::vector<Lease::Cover>> Lease::cover_window(TokenRange window) const {
  std::vector<Cover> covers;
  auto next =
      std::ranges::upper_bound(points_, window.begin, {}, [](const LeasedPoint& point) { return point.range.end; });
  for (; next != points_.end() && window.begin < window.end; ++next) {
    const bool goes_on = next->range.begin <= window.begin && next->range.end > window.begin;
    if (!goes_on && next->range.end > window.begin + format::kMaxSegmentTokens) break;  // all later ones begin later
    if (!goes_on) continue;
    const TokenRange wanted{window.begin, std::min(next->range.end, window.end)};
    covers.push_back({static_cast<std::size_t>(next - points_.begin()), wanted});
    window.begin = wanted.end;
  }
  if (window.begin < window.end) return std::nullopt;
  return covers;
}

// The positions after which the state to restore last differs, ascending; the last one is end().
std::vector<Position> Lease::places_of_change() const {
  const std::uint32_t window = shape_.window_tokens;
  std::vector<Position> places{end()};
  const auto add = [&](std::uint64_t at) {
    if (at > 0 && at < end().value()) places.push_back(Position{static_cast<std::uint32_t>(at)});
  };
  for (const LeasedPoint& point : points_) {
    add(point.range.end.value());
    if (window == 0) {
      add(std::uint64_t{point.range.end.value()} - 1);
      continue;
    }
    add(point.range.begin.value());
    // The last position whose window begins before it.
    add(std::uint64_t{point.range.begin.value()} + window - 1);
  }
  std::ranges::sort(places);
  const auto twice = std::ranges::unique(places);
  places.erase(twice.begin(), twice.end());
  return places;
}

std::vector<policy::Restorable> Lease::restorable() const {
  std::vector<policy::Restorable> found;
  if (steps_.empty()) return found;
  Position first{1};
  for (const Position last : places_of_change()) {
    const TokenRange run{std::exchange(first, last + 1), last};
    const auto covers = cover(last);
    if (!covers) continue;
    policy::Restorable here{run.begin, run.end, Tier::kRam, ByteCount{}};
    for (const Cover& part : *covers) {
      const LeasedPoint& point = points_[part.point];
      here.bytes += point.bytes;
      if (point.payload == nullptr) here.tier = std::max(here.tier, point.tier);
    }
    if (!found.empty() && found.back().last + 1 == here.first && found.back().bytes == here.bytes &&
        found.back().tier == here.tier) {
      found.back().last = last;
    } else {
      found.push_back(here);
    }
  }
  return found;
}

bool Lease::point_loaded(Position at) const {
  const auto covers = cover(at);
  return covers &&
         std::ranges::all_of(*covers, [&](const Cover& part) { return points_[part.point].payload != nullptr; });
}

std::vector<RowPiece> Lease::point_pieces(Position at) const {
  const auto covers = cover(at);
  KVKEEP_ASSERT(covers.has_value(), "a lease cannot put a sequence there");
  std::vector<RowPiece> pieces;
  for (const Cover& part : *covers) {
    const LeasedPoint& point = points_[part.point];
    KVKEEP_ASSERT(point.payload != nullptr, "a point that is not loaded");
    pieces.push_back({point.stored, part.wanted, point.payload->bytes(), span_of(point.ids)});
  }
  return pieces;
}

// ---- Track ----

Track::Track(Releaser& releaser, index::Cursor root, const PrefixHasher& hasher)
    : releaser_(&releaser), cursor_(root), hasher_(hasher) {}

Track::Track(Track&& other) noexcept
    : releaser_(std::exchange(other.releaser_, nullptr)), cursor_(other.cursor_), hasher_(other.hasher_) {}

Track& Track::operator=(Track&& other) noexcept {
  if (this == &other) return *this;
  release();
  releaser_ = std::exchange(other.releaser_, nullptr);
  cursor_ = other.cursor_;
  hasher_ = other.hasher_;
  return *this;
}

Track::~Track() { release(); }

SegmentId Track::move_to(index::Cursor cursor, const PrefixHasher& hasher) {
  hasher_ = hasher;
  return std::exchange(cursor_, cursor).segment;
}

void Track::release() {
  if (releaser_ != nullptr && cursor_.segment != kRootSegment) releaser_->release({&cursor_.segment, 1});
  releaser_ = nullptr;
}

}  // namespace kvkeep::cache
