#pragma once

// Queries about paths of the table, which change nothing: the part of a prompt that can be leased, the place where it
// leaves the known text, the runs without window rows, whether other leaves need one. Call them with the cache's lock.

#include <cstdint>
#include <optional>
#include <vector>

#include "cache/cache_options.h"
#include "cache/lease.h"
#include "cache/segment_table.h"
#include "cache/state_chains.h"

namespace kvkeep::cache {

// The longest path of a prompt whose rows some tier has.
std::vector<LeasedStep> steps_of(const SegmentTable& table, const RamTier& ram, TokenSpan prompt, const Tenant& tenant)
    REQUIRES(kCacheLock);
// The available leaves of such a path, by ascending end of the part that the prompt shares.
std::vector<LeasedPoint> points_of(const SegmentTable& table, const RamTier& ram, const StateChains& chains,
                                   const std::vector<LeasedStep>& steps) REQUIRES(kCacheLock);
// Gives such a path the ids of what it stores, of which the prompt shares the first of each step.
void name_media(const SegmentTable& table, TokenSpan prompt, std::vector<LeasedStep>& steps,
                std::vector<LeasedPoint>& points) REQUIRES(kCacheLock);

// See Cache::branch and random_path.
Branch branch_of(const SegmentTable& table, TokenSpan prompt, std::size_t count, const Tenant& tenant)
    REQUIRES(kCacheLock);
std::optional<StoredPath> random_path(const SegmentTable& table, const RamTier& ram, std::uint64_t random)
    REQUIRES(kCacheLock);

// Runs of [from, end.at) on the path to `end` that have no window rows, ascending, each within one segment.
std::vector<TokenRange> window_gaps(const SegmentTable& table, index::Cursor end, Position from) REQUIRES(kCacheLock);
// The end of a run that lies within one segment of the path to `end`.
index::Cursor cursor_of(const SegmentTable& table, index::Cursor end, TokenRange range) REQUIRES(kCacheLock);

// Returns true if others, on whatever branch, can restore less without this leaf: states that are built on it, or
// windows that go on where its rows end.
// The first segment of the part of a path, which ends at `end`, from which nothing else goes on and which nobody holds;
// nullopt if there is no such part.
std::optional<SegmentId> own_part(const SegmentTable& table, const index::Cursor& end) REQUIRES(kCacheLock);

bool others_need(const SegmentTable& table, SegmentId leaf) REQUIRES(kCacheLock);
// The outlook of a point, or of window rows, on a path that goes on to `end` and whose awaited point is at `awaited`.
policy::Outlook outlook_of(TokenRange range, std::optional<Position> awaited, Position end);

}  // namespace kvkeep::cache
