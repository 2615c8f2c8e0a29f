#include "cache/segment_table.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/media_ids.h"
#include "os/file_system.h"

namespace kvkeep::cache {

bool Entry::below_ram() const {
  return std::any_of(copies.begin() + 1, copies.end(), [](CopyState state) { return state == CopyState::kHere; });
}

bool Entry::available() const { return live && !forgotten && (in_ram() || below_ram()); }

bool Entry::in_use() const {
  const CopyState disk = in(kDiskTier);
  return pins > 0 || disk == CopyState::kComing || disk == CopyState::kLeaving || in(kRamTier) == CopyState::kLeaving;
}

SegmentTable::SegmentTable(const FingerprintHash& fingerprint, const StateShape& shape, std::size_t vocabulary_size)
    : fingerprint_(fingerprint), vocabulary_size_(vocabulary_size), shape_(shape), entries_(1) {}

// ---- what there is ----

const Entry& SegmentTable::entry(SegmentId segment) const {
  KVKEEP_ASSERT(segment.value() < entries_.size(), "a segment without an entry");
  return entries_[segment.value()];
}

Entry& SegmentTable::change(SegmentId segment) {
  KVKEEP_ASSERT(segment != kRootSegment && segment.value() < entries_.size(), "a segment without an entry");
  return entries_[segment.value()];
}

// Only live segments: while files are adopted the index knows some that are not live yet.
std::optional<SegmentId> SegmentTable::named(const format::SegmentName& name) const {
  for (const SegmentId segment : index_.ending_with(name.end_hash)) {
    const Entry& held = entry(segment);
    const index::SegmentInfo& info = index_.info(segment);
    const bool same = held.stored_begin == name.begin && held.stored_begin_hash == name.begin_hash;
    if (held.live && same && info.range.end == name.end && info.kind == name.kind) return segment;
  }
  return std::nullopt;
}

format::SegmentName SegmentTable::name_of(SegmentId segment) const {
  const Entry& known = entry(segment);
  const index::SegmentInfo& info = index_.info(segment);
  return {known.stored_begin, info.range.end, known.stored_begin_hash, info.end_hash, info.kind};
}

TierItem SegmentTable::item(SegmentId segment) const {
  const Entry& known = entry(segment);
  const index::SegmentInfo& info = index_.info(segment);
  TierItem item = named_item(segment);
  format::SegmentHeader& header = item.header;
  header.parts = {known.part};
  header.origin = info.origin;
  header.tenant = index_.tenant(segment);
  if (known.stored_begin == info.range.begin) {
    const TokenSpan tokens = index_.tokens(segment);
    header.tokens.assign(tokens.begin(), tokens.end());
  } else {  // the file overlaps its neighbours: its first ids are theirs
    const std::vector<TokenId> path = index_.path_tokens({segment, info.range.end});
    header.tokens.assign(path.begin() + known.stored_begin.value(), path.end());
  }
  return item;
}

TierItem SegmentTable::named_item(SegmentId segment) const {
  TierItem item{segment, {}};
  item.header.fingerprint = fingerprint_;
  item.header.name = name_of(segment);
  return item;
}

ByteCount SegmentTable::file_size(SegmentId segment) const {
  const Entry& known = entry(segment);
  const std::size_t tokens = index_.info(segment).range.end - known.stored_begin;
  return os::physical_size(ByteCount{format::encoded_header_size(1, tokens) + known.part.size_bytes});
}

ByteCount SegmentTable::size_in(TierId tier, SegmentId segment) const {
  if (tier != kRamTier) return file_size(segment);
  const Entry& known = entry(segment);
  return known.in(kRamTier) != CopyState::kAbsent ? known.charged : ByteCount{known.part.size_bytes};
}

ByteCount SegmentTable::memory() const { return index_.memory() + ByteCount{entries_.capacity() * sizeof(Entry)}; }

// ---- parents, children and bases ----

std::vector<SegmentId> SegmentTable::built_on(SegmentId base) const {
  const auto found = built_on_.find(base);
  return found == built_on_.end() ? std::vector<SegmentId>{} : found->second;
}

bool SegmentTable::nothing_below(SegmentId segment) const {
  return index_.info(segment).children == 0 && !built_on_.contains(segment);
}

std::vector<SegmentId> SegmentTable::below(SegmentId segment) const {
  std::vector<SegmentId> found = index_.children(segment);
  const std::vector<SegmentId> built = built_on(segment);
  found.insert(found.end(), built.begin(), built.end());
  return found;
}

// A path may be as deep as there are segments, so nothing here calls itself for each of them.
std::vector<SegmentId> SegmentTable::subtree(SegmentId root) const {
  std::vector<SegmentId> found{root};
  for (std::size_t next = 0; next < found.size(); ++next) {
    const std::vector<SegmentId> more = below(found[next]);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

bool SegmentTable::any_in_subtree(SegmentId root, bool (*holds)(const Entry&)) const {
  std::vector<SegmentId> pending{root};
  while (!pending.empty()) {
    const SegmentId next = pending.back();
    pending.pop_back();
    if (holds(entry(next))) return true;
    const std::vector<SegmentId> more = below(next);
    pending.insert(pending.end(), more.begin(), more.end());
  }
  return false;
}

// ---- coming and going ----

Entry& SegmentTable::begin(SegmentId segment, StoredSums::Number tenant) {
  if (segment.value() >= entries_.size()) entries_.resize(segment.value() + 1);
  Entry& begun = entries_[segment.value()];
  begun = Entry{};
  begun.live = true;
  begun.serial = ++lives_;
  begun.tenant = tenant;
  return begun;
}

SegmentId SegmentTable::begin_fresh(SegmentId segment, const Fresh& fresh) {
  const index::SegmentInfo& info = index_.info(segment);
  const Entry& parent = entry(info.parent);
  Entry& begun = begin(segment, parent.live ? sums_.enter(parent.tenant) : sums_.enter(index_.tenant(segment)));
  begun.part.kind = info.kind;
  begun.part.size_bytes = fresh.size_bytes;
  begun.stored_begin = info.range.begin;
  begun.stored_begin_hash = info.begin_hash;
  begun.last_used_ns = fresh.now_ns;
  begun.keeping = fresh.keeping;
  note_changed(segment);
  return segment;
}

SegmentId SegmentTable::insert(index::Cursor at, TokenSpan tokens, const PrefixHash& begin_hash,
                               const PrefixHash& end_hash, format::Origin origin, const Fresh& fresh) {
  return begin_fresh(index_.insert(at, tokens, begin_hash, end_hash, origin), fresh);
}

SegmentId SegmentTable::insert_leaf(index::Cursor at, format::PartKind kind, Position begin,
                                    const PrefixHash& begin_hash, const PrefixHash& end_hash, const Fresh& fresh) {
  return begin_fresh(index_.insert_leaf(at, kind, begin, begin_hash, end_hash), fresh);
}

std::vector<index::Placement> SegmentTable::rebuild(std::vector<index::NamedSegment> named) {
  // Hashes say nothing of ids after those that a prompt used, and explanations and logs make text of them.
  for (index::NamedSegment& segment : named) {
    if (!are_segment_ids(segment.tokens, vocabulary_size_)) segment.tokens = {};
  }
  std::vector<index::Placement> placements = index::rebuild(index_, fingerprint_, named);
  entries_.resize(std::max(entries_.size(), index_.id_bound()));
  return placements;
}

void SegmentTable::begin_life(SegmentId placed, const format::SegmentHeader& stored, SegmentId base) {
  Entry& begun = begin(placed, sums_.enter(index_.tenant(placed)));  // its parent may not be live yet
  begun.part = stored.parts.front();
  begun.stored_begin = stored.name.begin;
  begun.stored_begin_hash = stored.name.begin_hash;
  set_base(placed, base);
  note_changed(placed);
}

void SegmentTable::erase(SegmentId segment) {
  Entry& leaving = change(segment);
  KVKEEP_ASSERT(leaving.in(kRamTier) == CopyState::kAbsent, "a segment left while RAM has it");
  KVKEEP_ASSERT(!built_on_.contains(segment), "a state left before what is built on it");
  for (std::size_t tier = 1; tier < kMostTiers; ++tier) {
    if (leaving.copies[tier] != CopyState::kAbsent)
      set_copy(segment, TierId{static_cast<std::uint8_t>(tier)}, CopyState::kAbsent);
  }
  set_base(segment, kRootSegment);
  set_hole(segment, false);
  if (leaving.live) sums_.leave(leaving.tenant);
  leaving = Entry{};
  note_changed(segment);
  index_.erase(segment);
}

void SegmentTable::set_forgotten(SegmentId segment, std::optional<explain::LossCause> loss) {
  Entry& leaving = change(segment);
  leaving.forgotten = true;
  leaving.loss = loss;
}

// ---- holds and uses ----

void SegmentTable::pin(SegmentId segment) {
  if (segment != kRootSegment) ++change(segment).pins;
}

void SegmentTable::unpin(SegmentId segment) {
  if (segment == kRootSegment) return;
  Entry& held = change(segment);
  KVKEEP_ASSERT(held.pins > 0, "a segment was released more often than held");
  --held.pins;
  ++changes_;
}

void SegmentTable::use(SegmentId segment, std::int64_t now_ns) {
  Entry& used = change(segment);
  used.last_used_ns = now_ns;
  ++used.hits;
  note_changed(segment);
}

void SegmentTable::note_file_time(SegmentId segment, std::int64_t modified_ns, std::int64_t now_ns) {
  Entry& told = change(segment);
  told.last_used_ns = std::max(told.last_used_ns, std::min(modified_ns, now_ns));
  if (modified_ns > now_ns) told.kept_until_ns = std::max(told.kept_until_ns, modified_ns);
  note_changed(segment);
}

void SegmentTable::keep_until(SegmentId segment, std::int64_t until_ns) {
  Entry& kept = change(segment);
  kept.kept_until_ns = std::max(kept.kept_until_ns, until_ns);
  note_changed(segment);
}

void SegmentTable::set_outlook(SegmentId leaf, policy::Outlook outlook, std::optional<std::int64_t> used_ns) {
  Entry& known = change(leaf);
  const policy::Outlook before = std::exchange(known.outlook, outlook);
  if (used_ns) known.last_used_ns = *used_ns;
  if (used_ns || before != outlook) note_changed(leaf);
}

std::uint8_t SegmentTable::note_read_refused(SegmentId segment) { return ++change(segment).refusals; }

// ---- copies ----

void SegmentTable::note_changed(SegmentId segment) {
  ++changes_;
  for (TableWatcher* watcher : watchers_) watcher->changed(segment);
}

void SegmentTable::set_copy(SegmentId segment, TierId tier, CopyState state) {
  const auto there = [](CopyState copy) { return copy == CopyState::kHere || copy == CopyState::kLeaving; };
  Entry& known = change(segment);
  CopyState& copy = known.copies[tier.value()];
  const bool comes = !there(copy) && there(state);
  const bool goes = there(copy) && !there(state);
  const ByteCount gone = goes ? size_in(tier, segment) : ByteCount{};
  copy = state;
  const ByteCount come = comes ? size_in(tier, segment) : ByteCount{};
  if (comes) sums_.add(known.tenant, tier, come);
  if (goes) sums_.subtract(known.tenant, tier, gone);
  if (known.is_leaf()) sums_.move_points(tier, come, gone);
  if (tier == kDiskTier) known.waits = Waits::kNothing;
  if (tier == kDiskTier && state == CopyState::kHere) set_hole(segment, false);
  note_changed(segment);
}

void SegmentTable::set_in_ram(SegmentId segment, ByteCount charged) {
  KVKEEP_ASSERT(entry(segment).in(kRamTier) == CopyState::kAbsent, "RAM has it already");
  change(segment).charged = charged;
  set_copy(segment, kRamTier, CopyState::kHere);
}

void SegmentTable::set_unwritten(SegmentId segment, Waits waits) {
  set_copy(segment, kDiskTier, CopyState::kAbsent);
  Entry& known = change(segment);
  known.waits = waits;
  if (known.is_leaf() && known.keeping == Keeping::kOnDisk) ++leaves_unwritten_;
}

void SegmentTable::set_hole(SegmentId segment, bool hole) {
  if (std::exchange(change(segment).hole, hole) == hole) return;
  hole ? ++holes_ : --holes_;
}

void SegmentTable::set_keeping(SegmentId leaf, Keeping keeping) {
  change(leaf).keeping = keeping;
  if (keeping == Keeping::kOnDisk) ++leaves_unwritten_;  // the leaf is unwritten from now on
}

void SegmentTable::set_base(SegmentId leaf, SegmentId base) {
  const auto found = built_on_.find(std::exchange(change(leaf).base, base));
  if (found != built_on_.end()) {
    std::erase(found->second, leaf);
    if (found->second.empty()) built_on_.erase(found);
  }
  if (base != kRootSegment) built_on_[base].push_back(leaf);
}

void SegmentTable::set_built(SegmentId leaf, SegmentId base, const format::Part& part) {
  change(leaf).part = part;
  set_base(leaf, base);
  note_changed(leaf);
}

void SegmentTable::note_leaves_written(SegmentId segment) { change(segment).leaves_written = leaves_unwritten_; }

bool SegmentTable::leaves_are_written(SegmentId segment) const {
  return entry(segment).leaves_written == leaves_unwritten_;
}

}  // namespace kvkeep::cache
