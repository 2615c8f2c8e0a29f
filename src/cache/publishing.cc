#include "cache/publishing.h"

#include <algorithm>
#include <utility>

#include "base/media_ids.h"
#include "policy/share.h"

namespace kvkeep::cache {

namespace {

// Where the state before a leaf's ends on its path: the tokens after it are what the leaf saves.
Position end_before(const SegmentTable& table, const Published& published, SegmentId leaf) REQUIRES(kCacheLock) {
  const index::SegmentInfo& own = table.info(leaf);
  for (SegmentId within = own.parent; within != kRootSegment; within = table.info(within).parent) {
    Position last;
    for (const SegmentId other : table.index().leaves_of(within)) {
      const index::SegmentInfo& info = table.info(other);
      const bool before = info.kind == own.kind && info.range.end < own.range.end && published.has(other);
      if (before) last = std::max(last, info.range.end);
    }
    if (last > Position{}) return last;
  }
  return {};
}

}  // namespace

// A segment that branches off begins before its parent's object ends.
std::vector<format::PathStep> shared_path(const SegmentTable& table, SegmentId segment) {
  std::vector<format::PathStep> path;
  const index::SegmentInfo& own = table.info(segment);
  const bool is_leaf = own.kind != format::PartKind::kRows;
  Position end = own.range.end;
  PrefixHash hash = own.end_hash;
  bool has_media = false;
  for (SegmentId on_path = is_leaf ? own.parent : segment; on_path != kRootSegment;) {
    const index::SegmentInfo& info = table.info(on_path);
    has_media = has_media || std::ranges::any_of(table.index().tokens(on_path), is_media_id);
    path.push_back({.end = end,
                    .place = end,
                    .hash = format::short_hash(hash),
                    .object_end = info.range.end,
                    .object_hash = format::short_hash(info.end_hash)});
    end = info.range.begin;
    hash = info.begin_hash;
    on_path = info.parent;
  }
  std::ranges::reverse(path);
  // Ids are copied only where they matter: long prompts are published in hundreds of segments.
  if (has_media) {
    format::count_places(path, table.index().path_tokens({is_leaf ? own.parent : segment, own.range.end}));
  }
  return path;
}

// From the root; empty if neither RAM nor the disk has any of it, or it holds more than its place on the path. A leaf
// comes last.
std::vector<SegmentId> Publishing::unpublished_path(SegmentId segment) const {
  std::vector<SegmentId> path;
  for (SegmentId next = segment; next != kRootSegment; next = table_.info(next).parent) {
    const Entry& known = table_.entry(next);
    if (published_.has(next)) break;
    const bool overlaps = known.stored_begin != table_.info(next).range.begin;
    if (known.forgotten || overlaps || !(known.in_ram() || known.on_disk())) return {};
    path.push_back(next);
  }
  std::ranges::reverse(path);
  return path;
}

bool Publishing::is_worth_it(SegmentId segment) const {
  const index::SegmentInfo& info = table_.info(segment);
  const Entry& known = table_.entry(segment);
  policy::ShareOffer offer{.end = info.range.end};
  offer.tokens = known.is_leaf() ? info.range.end - end_before(table_, published_, segment) : info.range.size();
  offer.bytes = ByteCount{known.part.built() ? known.part.state_bytes : known.part.size_bytes};
  offer.wanted_again = known.hits > 0 || info.children > 1;
  const double read = store_.read_bytes_per_s();
  return policy::worth_publishing(offer, tier_.prefill_tokens_per_s(), read > 0 ? read : store_.write_bytes_per_s());
}

void Publishing::offer(SegmentId segment) {
  if (distrust_) return;
  const share::ShareCounters counters = store_.counters();
  const std::uint64_t failures = counters.orphans + counters.publish_failures + counters.broken;
  std::vector<SegmentId> path;
  {
    CacheLock lock(mutex_);
    if (std::exchange(failures_, failures) != failures) published_.doubt();
    if (!table_.entry(segment).live) return;
    path = unpublished_path(segment);
    if (path.empty() || !is_worth_it(segment)) return;
    table_.pin(segment);  // and so its path stays
  }
  ByteCount may_read = most_read_;
  for (const SegmentId next : path) {
    if (!publish(next, may_read)) break;
  }
  forgetting_.release(std::vector{segment});
}

// Returns nullopt if it left meanwhile. The payload is null if RAM does not have it. The sum is left out.
std::optional<share::Publication> Publishing::describe(SegmentId segment) const {
  CacheLock lock(mutex_);
  const Entry& known = table_.entry(segment);
  TierPort::Bytes bytes = ram_.find(segment);
  if (!known.live || known.forgotten) return std::nullopt;
  share::Publication made{
      .segment = table_.item(segment).header, .path = shared_path(table_, segment), .payload = std::move(bytes)};
  return made;
}

// Fills in the payload. Returns false if it cannot be had, or not in this offer.
bool Publishing::complete(SegmentId segment, share::Publication& made, ByteCount& may_read) {
  format::Part& part = made.segment.parts.front();
  if (made.payload == nullptr || part.built()) {
    const ByteCount read{made.payload == nullptr ? part.size_bytes : 0};
    if (read > may_read && may_read < most_read_) return false;  // one segment may be larger than the bound
    may_read = may_read - std::min(read, may_read);
    const Result<TierPort::Bytes> bytes = fetcher_.fetch(segment);
    if (!bytes) return false;
    made.payload = *bytes;
    if (part.built()) part = {.kind = part.kind, .size_bytes = (*bytes)->size(), .layout = part.layout};
  }
  // Others wait for the buffer.
  if (made.payload->staged()) made.payload = store::compact(*made.payload);
  return true;
}

bool Publishing::publish(SegmentId segment, ByteCount& may_read) {
  std::optional<share::Publication> made = describe(segment);
  if (!made || !complete(segment, *made, may_read)) return false;
  format::Part& part = made->segment.parts.front();
  const format::SegmentHeader& header = made->segment;
  part.sum = format::part_checksum(header.fingerprint, header.name, part.kind, made->payload->bytes());
  const format::SegmentName name = header.name;
  if (!store_.offer(std::move(*made))) return false;
  CacheLock lock(mutex_);
  if (const auto same = table_.named(name)) published_.add(*same);
  return true;
}

}  // namespace kvkeep::cache
