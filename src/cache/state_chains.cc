#include "cache/state_chains.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "format/built_state.h"

namespace kvkeep::cache {

namespace {

// Differences that are more than this share of the state are not worth what reading them costs.
constexpr double kWorthwhileShare = 0.9;

}  // namespace

// ---- decoding ----

std::vector<StateChains::Link> StateChains::chain_to(SegmentId segment) const {
  std::vector<Link> chain;
  for (SegmentId next = segment; next != kRootSegment; next = table_.entry(next).base) {
    const Entry& known = table_.entry(next);
    const bool built = known.base != kRootSegment;
    const Bytes stored = ram_.find(next);
    chain.push_back({table_.item(next), stored, built ? ram_.decoded(next) : stored});
    if (chain.back().state != nullptr) break;
  }
  std::ranges::reverse(chain);
  return chain;
}

Status StateChains::decode(const Link* before, Link& link) {
  const format::Part& part = link.item.header.parts.front();
  if (!part.built()) {
    link.state = link.stored;
    return {};
  }
  store::PayloadBuffer state = store::PayloadBuffer::allocate(part.state_bytes);
  TRY(format::decode_built_state(before->item.header.name.end_hash, before->state->bytes(), part.differences,
                                 link.stored->bytes(), state.span()));
  link.state = std::move(state).freeze();
  return {};
}

bool StateChains::in_ram(SegmentId leaf) const {
  for (; leaf != kRootSegment; leaf = table_.entry(leaf).base) {
    if (ram_.decoded(leaf) != nullptr) return true;
    if (ram_.find(leaf) == nullptr) return false;
  }
  return true;
}

// A state in a staging buffer is copied.
void StateChains::hold_state(SegmentId leaf, Bytes state) {
  {
    CacheLock lock(mutex_);
    if (!room_.spare(ByteCount{state->size()})) return;
  }
  if (state->staged()) state = store::compact(*state);
  CacheLock lock(mutex_);
  const Entry& held = table_.entry(leaf);
  if (held.forgotten || ram_.find(leaf) == nullptr) return;
  ram_.hold_decoded(leaf, std::move(state));
}

std::optional<SegmentId> StateChains::recovered_base(SegmentId leaf, Position base) const {
  if (base == Position{}) return kRootSegment;
  SegmentId within = table_.info(leaf).parent;
  while (table_.info(within).range.begin >= base) within = table_.info(within).parent;
  const SegmentId found = table_.index().leaf({within, base}, format::PartKind::kWhole);
  if (found == kRootSegment || !table_.entry(found).available()) return std::nullopt;
  return found;
}

// ---- encoding ----

// The nearest earlier whole state on the path, if others may be built on it: what leaves with the tier that the new one
// goes to would take that along.
SegmentId StateChains::base_for(SegmentId leaf) const {
  Position before = table_.info(leaf).range.end;
  for (SegmentId within = table_.info(leaf).parent; within != kRootSegment; within = table_.info(within).parent) {
    const std::vector<SegmentId> leaves = table_.index().leaves_of(within);
    for (auto earlier = leaves.rbegin(); earlier != leaves.rend(); ++earlier) {
      const Entry& known = table_.entry(*earlier);
      if (known.part.kind != format::PartKind::kWhole || table_.info(*earlier).range.end >= before) continue;
      const bool stays = has_disk_ ? known.on_disk() : known.in_ram();
      if (!known.available() || !stays) continue;
      return carries_more(*earlier) ? *earlier : kRootSegment;
    }
    before = std::min(before, table_.info(within).range.begin + 1);
  }
  return kRootSegment;
}

bool StateChains::carries_more(SegmentId base) const {
  std::size_t built = 1;
  for (SegmentId below = table_.entry(base).base; below != kRootSegment; below = table_.entry(below).base) ++built;
  return built < kMaxBuiltStates;
}

std::optional<StateChains::Build> StateChains::begin_build(SegmentId leaf) {
  CacheLock lock(mutex_);
  const Entry& known = table_.entry(leaf);
  if (!known.live || known.forgotten || known.part.kind != format::PartKind::kWhole) return std::nullopt;
  Bytes state = ram_.find(leaf);
  // Only new states lie in a staging buffer.
  if (state == nullptr || !state->staged()) return std::nullopt;
  const SegmentId base = base_for(leaf);
  if (base == kRootSegment || state->size() > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  table_.pin(base);
  table_.pin(leaf);
  return Build{leaf, base, table_.info(base).end_hash, std::move(state)};
}

void StateChains::finish_build(const Build& build, const Bytes& base_state) {
  std::optional<std::vector<std::byte>> stored;
  if (base_state != nullptr) {
    const auto limit = static_cast<std::size_t>(static_cast<double>(build.state->size()) * kWorthwhileShare);
    stored = format::encode_built_state(build.base_hash, base_state->bytes(), build.state->bytes(), limit);
  }
  bool adopted = false;
  {
    CacheLock lock(mutex_);
    adopted = stored && !table_.entry(build.leaf).forgotten && table_.entry(build.base).available();
    if (adopted) adopt(build, *stored);
  }
  // The next turn begins with this state, and is built on it.
  if (adopted) hold_state(build.leaf, build.state);
  forgetting_.release(std::vector{build.leaf, build.base});
}

void StateChains::adopt(const Build& build, ByteSpan stored) {
  store::PayloadBuffer buffer = store::PayloadBuffer::allocate(stored.size());
  std::ranges::copy(stored, buffer.span().begin());
  ram_.let_go(build.leaf);
  format::Part part = table_.entry(build.leaf).part;
  part.size_bytes = stored.size();
  part.state_bytes = static_cast<std::uint32_t>(build.state->size());
  part.base = table_.info(build.base).range.end;
  table_.set_built(build.leaf, build.base, part);
  ram_.hold(build.leaf, std::move(buffer).freeze());
  ++built_;
  saved_ += ByteCount{build.state->size() - stored.size()};
}

}  // namespace kvkeep::cache
