// Where a prompt leaves what is known, for people who ask why no more was reused.

#include <algorithm>

#include "cache/cache.h"

namespace kvkeep::cache {

namespace {

void append(std::vector<TokenId>& to, TokenSpan tokens, std::size_t limit) {
  const TokenSpan wanted = tokens.first(std::min(tokens.size(), limit - to.size()));
  to.insert(to.end(), wanted.begin(), wanted.end());
}

}  // namespace

Parting Cache::parting(TokenSpan prompt, std::size_t count, const Tenant& tenant) const {
  MutexLock lock(mutex_);
  index::Cursor cursor = index_.advance({kRootSegment, {}, tenant}, prompt);
  Parting found{.at = cursor.at, .next = {}};
  if (cursor.segment != kRootSegment) {
    const TokenSpan tokens = index_.tokens(cursor.segment);
    append(found.next, tokens.subspan(cursor.at - index_.info(cursor.segment).range.begin), count);
  }
  while (found.next.size() < count) {
    const std::optional<SegmentId> next = used_last_below(cursor);
    if (!next) break;
    append(found.next, index_.tokens(*next), count);
    cursor.segment = *next;
  }
  return found;
}

// Of the segments that begin where the cursor's ends.
std::optional<SegmentId> Cache::used_last_below(index::Cursor at) const {
  const bool root = at.segment == kRootSegment;
  const Position end = root ? Position{} : index_.info(at.segment).range.end;
  std::optional<SegmentId> newest;
  for (const SegmentId child : index_.children(at.segment)) {
    const index::SegmentInfo& info = index_.info(child);
    if (info.kind != format::PartKind::kRows || info.range.begin != end) continue;
    if (root && index_.tenant(child) != at.tenant) continue;
    if (!newest || entry(child).last_used_ns > entry(*newest).last_used_ns) newest = child;
  }
  return newest;
}

}  // namespace kvkeep::cache
