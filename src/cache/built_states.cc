// Whole states that are stored as differences from an earlier one on their path: a state that grew by a turn is mostly
// what it was, moved apart. Found out and encoded on the writer executor, decoded where loading is done.
//
// A base is told by its position alone: on one path there is one whole state at a position. That it is the right one,
// and that what comes out are the bytes that went in, is verified whenever a state is decoded.

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "cache/cache.h"
#include "cache/mutations.h"
#include "format/delta.h"

namespace kvkeep::cache {

namespace {

// Differences that are more than this share of the state are not worth what reading them costs.
constexpr double kWorthwhileShare = 0.9;

}  // namespace

// ---- who is built on whom ----

std::vector<SegmentId> Cache::built_on(SegmentId base) const {
  const auto found = built_on_.find(base);
  return found == built_on_.end() ? std::vector<SegmentId>{} : found->second;
}

void Cache::set_base(SegmentId leaf, SegmentId base) {
  entry(leaf).base = base;
  if (base != kRootSegment) built_on_[base].push_back(leaf);
}

void Cache::forget_base(SegmentId leaf) {
  KVKEEP_ASSERT(built_on(leaf).empty(), "a state left before what is built on it");
  const auto found = built_on_.find(std::exchange(entry(leaf).base, kRootSegment));
  if (found == built_on_.end()) return;
  std::erase(found->second, leaf);
  if (found->second.empty()) built_on_.erase(found);
}

// The state that a recovered one is built on, the root if on none; nullopt: it was lost. Bases are recovered first.
std::optional<SegmentId> Cache::recovered_base(SegmentId leaf, Position base) const {
  if (base == Position{}) return kRootSegment;
  SegmentId within = index_.info(leaf).parent;
  while (index_.info(within).range.begin >= base) within = index_.info(within).parent;
  const SegmentId found = index_.attached({within, base}, format::PartKind::kWhole);
  if (found == kRootSegment || found.value() >= entries_.size() || !available(entry(found))) return std::nullopt;
  return found;
}

// The nearest earlier whole state on the path, if others may be built on it: what leaves with the tier that the new one
// goes to would take that along.
SegmentId Cache::base_for(SegmentId leaf) const {
  Position before = index_.info(leaf).range.end;
  for (SegmentId within = index_.info(leaf).parent; within != kRootSegment; within = index_.info(within).parent) {
    const std::vector<SegmentId> leaves = index_.attached(within);
    for (auto earlier = leaves.rbegin(); earlier != leaves.rend(); ++earlier) {
      const Entry& known = entry(*earlier);
      if (known.part.kind != format::PartKind::kWhole || index_.info(*earlier).range.end >= before) continue;
      const bool stays = disk_ != nullptr && !mutations().build_on_absent ? known.disk == DiskState::kOnDisk
                                                                          : known.payload != nullptr;
      if (!available(known) || !stays) continue;
      std::size_t built = 1;
      for (SegmentId below = known.base; below != kRootSegment; below = entry(below).base) ++built;
      return built < kMaxBuiltStates ? *earlier : kRootSegment;
    }
    before = std::min(before, index_.info(within).range.begin + 1);
  }
  return kRootSegment;
}

// ---- encoding ----

void Cache::build_state(SegmentId leaf) {
  std::shared_ptr<const store::Payload> state;
  std::shared_ptr<const store::Payload> base_state;
  SegmentId base;
  PrefixHash base_hash;
  {
    MutexLock lock(mutex_);
    const Entry& known = entry(leaf);
    // What lies in a staging buffer is new.
    if (!known.live || known.dead || known.part.kind != format::PartKind::kWhole) return;
    if (known.payload == nullptr || !known.payload->staged()) return;
    base = base_for(leaf);
    if (base == kRootSegment || known.payload->size() > std::numeric_limits<std::uint32_t>::max()) return;
    state = known.payload;
    base_hash = index_.info(base).end_hash;
    pin(base);
    pin(leaf);
  }
  LoadResult unused;
  std::optional<std::vector<std::byte>> stored;
  if (load_into(base, base_state, unused)) {
    const auto limit = static_cast<std::size_t>(static_cast<double>(state->size()) * kWorthwhileShare);
    stored = format::encode_built_state(base_hash, base_state->bytes(), state->bytes(), limit);
  }
  bool adopted = false;
  {
    MutexLock lock(mutex_);
    adopted = stored && !entry(leaf).dead && available(entry(base));
    if (adopted) adopt_built(leaf, base, *stored, state->size());
  }
  // The next turn begins with this state, and is built on it.
  if (adopted) hold_state(leaf, state);
  unpin(leaf);
  unpin(base);
}

void Cache::adopt_built(SegmentId leaf, SegmentId base, ByteSpan stored, std::size_t state_bytes) {
  store::PayloadBuffer buffer = store::PayloadBuffer::allocate(stored.size());
  std::ranges::copy(stored, buffer.span().begin());
  drop_payload(leaf);
  hold_payload(leaf, std::move(buffer).freeze());
  Entry& built = entry(leaf);
  built.part.size_bytes = stored.size();
  built.part.state_bytes = static_cast<std::uint32_t>(state_bytes);
  built.part.base = index_.info(base).range.end;
  set_base(leaf, base);
  note_changed(leaf);
  ++counters_.built;
  counters_.built_saved += ByteCount{state_bytes - stored.size()};
}

// ---- decoded states in RAM ----

// Kept while there is room that nobody else wants. What lies in a staging buffer is copied. The leaf is held.
void Cache::hold_state(SegmentId leaf, std::shared_ptr<const store::Payload> state) {
  const ByteCount size{state->size()};
  {
    MutexLock lock(mutex_);
    if (size > options_.ram_budget) return;
    if (ram_used_ + size > options_.ram_budget) drop_states(options_.ram_budget - size);
    if (ram_used_ + size > options_.ram_budget) return;
  }
  if (state->staged()) state = store::compact(*state);
  MutexLock lock(mutex_);
  Entry& held = entry(leaf);
  if (held.dead || held.payload == nullptr || held.state != nullptr) return;
  held.state = std::move(state);
  held_states_.push_back(leaf);
  ram_used_ += size;
  counters_.points_ram += size;
}

void Cache::drop_state(SegmentId leaf) {
  Entry& held = entry(leaf);
  if (held.state == nullptr) return;
  ram_used_ -= ByteCount{held.state->size()};
  counters_.points_ram -= ByteCount{held.state->size()};
  held.state.reset();
  const auto listed = std::ranges::find(held_states_, leaf);
  KVKEEP_ASSERT(listed != held_states_.end(), "a decoded state that is not listed");
  *listed = held_states_.back();
  held_states_.pop_back();
}

// The longest unused first, until no more than `limit` is used or none is left.
void Cache::drop_states(ByteCount limit) {
  while (ram_used_ > limit && !held_states_.empty()) {
    const auto used = [this](SegmentId leaf) REQUIRES(mutex_) { return entry(leaf).last_used_ns; };
    drop_state(*std::ranges::min_element(held_states_, {}, used));
  }
}

// ---- decoding ----

// What must be known to have a segment's bytes: itself last, before it what it is built on, from one that is there.
std::vector<Cache::Link> Cache::chain_to(SegmentId segment) {
  std::vector<Link> chain;
  for (SegmentId next = segment; next != kRootSegment; next = entry(next).base) {
    const Entry& known = entry(next);
    const bool built = known.base != kRootSegment;
    chain.push_back({next, header_of(next), known.payload, built ? known.state : known.payload});
    if (chain.back().state != nullptr) break;
  }
  std::ranges::reverse(chain);
  return chain;
}

bool Cache::in_ram(SegmentId leaf) const {
  for (; leaf != kRootSegment; leaf = entry(leaf).base) {
    if (entry(leaf).state != nullptr) return true;
    if (entry(leaf).payload == nullptr) return false;
  }
  return true;
}

}  // namespace kvkeep::cache
