#include "index/prefix_index.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/assert.h"
#include "index/tenant_roots.h"
#include "index/trie_node.h"

namespace kvkeep::index {

namespace {

// Keeps the ranges ascending and apart.
void include(std::vector<TokenRange>& ranges, TokenRange run) {
  std::erase_if(ranges, [&run](const TokenRange& known) {
    if (known.end < run.begin || known.begin > run.end) return false;
    run = {std::min(known.begin, run.begin), std::max(known.end, run.end)};
    return true;
  });
  ranges.insert(std::ranges::upper_bound(ranges, run.begin, {}, &TokenRange::begin), run);
}

}  // namespace

class PrefixIndex::Impl {
 public:
  Impl() : nodes_(1), by_end_(0, ByEnd{&nodes_}, ByEnd{&nodes_}) {}

  const Node& node(SegmentId id) const {
    KVKEEP_ASSERT(contains(id), "segment is in the index");
    return nodes_[id.value()];
  }
  Node& node(SegmentId id) { return const_cast<Node&>(std::as_const(*this).node(id)); }
  bool contains(SegmentId id) const {
    if (id.value() >= nodes_.size()) return false;
    const Node& held = nodes_[id.value()];
    return id == kRootSegment || held.tokens != nullptr || is_attached(held);
  }
  static bool is_attached(const Node& held) { return held.info.kind != format::PartKind::kRows; }
  TokenSpan tokens(SegmentId id) const {
    const Node& held = node(id);
    if (!is_attached(held)) return {held.tokens.get(), held.info.range.size()};
    const Node& segment = node(held.info.parent);
    return tokens(held.info.parent).subspan(held.info.range.begin - segment.info.range.begin, held.info.range.size());
  }
  static bool is_tenants_root(Cursor at) { return at.segment == kRootSegment && at.tenant != kNoTenant; }
  // The child that starts with `token` at the cursor; the root: none.
  SegmentId child(Cursor at, TokenId token) const {
    if (is_tenants_root(at)) return tenants_.find(at.tenant, token);
    const auto found = branches_.find({at.segment, at.at, token});
    return found == branches_.end() ? kRootSegment : found->second;
  }
  std::vector<SegmentId> siblings(SegmentId first) const {
    std::vector<SegmentId> found;
    for (SegmentId id = first; id != kRootSegment; id = node(id).next) found.push_back(id);
    return found;
  }
  // The rest of the cursor's own segment.
  TokenSpan rest(Cursor at) const { return tokens(at.segment).subspan(at.at - node(at.segment).info.range.begin); }

  // Follows `next` from the cursor; calls visit(segment, range) for each run of tokens that it covers.
  template <typename Visit>
  Cursor walk(Cursor at, TokenSpan next, Visit visit) const {
    while (true) {
      const std::size_t known = common_prefix(rest(at), next);
      if (known > 0) visit(at.segment, TokenRange{at.at, at.at + known});
      at.at = at.at + known;
      next = next.subspan(known);
      if (next.empty()) return at;
      const SegmentId following = child(at, next.front());
      if (following == kRootSegment) return at;
      at.segment = following;
      at.tenant = kNoTenant;
    }
  }

  SegmentId insert(Cursor at, TokenSpan tokens, const PrefixHash& begin_hash, const PrefixHash& end_hash,
                   format::Origin origin);
  SegmentId attach(const SegmentInfo& info);
  SegmentId attached(Cursor at, format::PartKind kind) const {
    const auto found = attached_.find({at.segment, at.at, kind});
    return found == attached_.end() ? kRootSegment : found->second;
  }
  void erase(SegmentId id);
  std::vector<SegmentId> ending_with(const PrefixHash& end_hash) const {
    const auto [first, last] = by_end_.equal_range(end_hash);
    return {first, last};
  }
  void mark_sampled(Cursor to, TokenRange run);
  std::vector<TokenRange> sampled_ranges(SegmentId id) const;
  Tenant tenant(SegmentId id) const {
    if (tenants_.empty()) return kNoTenant;
    while (node(id).info.parent != kRootSegment) id = node(id).info.parent;
    return tenants_.tenant(id);
  }
  ByteCount memory() const;

  std::uint64_t token_count() const { return token_count_; }
  std::size_t segment_count() const { return nodes_.size() - 1 - free_.size() - attached_.size(); }
  std::size_t attached_count() const { return attached_.size(); }
  std::size_t id_bound() const { return nodes_.size(); }

 private:
  SegmentId take_id();
  // The head of the list that a child of this kind is in.
  static SegmentId& first_sibling(Node& parent, const Node& child) {
    if (is_attached(child)) return parent.first_attached;
    return child.begins_sampled ? parent.first_sampled : parent.first_child;
  }
  void link(SegmentId id);
  void unlink(SegmentId id);
  void mark(SegmentId id, TokenRange run);

  using Nodes = std::deque<Node>;  // so that info() stays where it is while others are inserted
  using ByEnd = EndHash<Nodes>;

  Nodes nodes_;  // by id
  std::vector<SegmentId> free_;
  std::unordered_map<BranchKey, SegmentId, BranchKeyHash> branches_;
  TenantRoots tenants_;
  std::unordered_map<LeafKey, SegmentId, LeafKeyHash> attached_;
  std::unordered_multiset<SegmentId, ByEnd, ByEnd> by_end_;
  std::unordered_map<SegmentId, std::vector<TokenRange>> marked_;  // as sampled, of segments of prompts
  std::uint64_t token_count_ = 0;
};

SegmentId PrefixIndex::Impl::take_id() {
  if (free_.empty()) {
    nodes_.emplace_back();
    return SegmentId{static_cast<std::uint32_t>(nodes_.size() - 1)};
  }
  const SegmentId id = free_.back();
  free_.pop_back();
  return id;
}

void PrefixIndex::Impl::link(SegmentId id) {
  Node& created = nodes_[id.value()];
  Node& parent = node(created.info.parent);
  SegmentId& first = first_sibling(parent, created);
  created.previous = kRootSegment;
  created.next = first;
  if (created.next != kRootSegment) node(created.next).previous = id;
  first = id;
  ++parent.info.children;
}

void PrefixIndex::Impl::unlink(SegmentId id) {
  const Node& leaving = nodes_[id.value()];
  Node& parent = node(leaving.info.parent);
  if (leaving.previous == kRootSegment) {
    first_sibling(parent, leaving) = leaving.next;
  } else {
    node(leaving.previous).next = leaving.next;
  }
  if (leaving.next != kRootSegment) node(leaving.next).previous = leaving.previous;
  --parent.info.children;
}

SegmentId PrefixIndex::Impl::insert(Cursor at, TokenSpan tokens, const PrefixHash& begin_hash,
                                    const PrefixHash& end_hash, format::Origin origin) {
  KVKEEP_ASSERT(!tokens.empty(), "a segment has tokens");
  const Node& above = node(at.segment);
  KVKEEP_ASSERT(!is_attached(above), "nothing hangs below an attached leaf");
  const TokenRange parent_range = above.info.range;
  KVKEEP_ASSERT(at.at >= parent_range.begin && at.at <= parent_range.end, "the cursor is in the trie");
  KVKEEP_ASSERT(at.at > parent_range.begin || at.segment == kRootSegment, "the cursor is in the parent, not above it");
  const TokenSpan own = rest(at);
  KVKEEP_ASSERT(own.empty() || own.front() != tokens.front(), "the segment itself does not go on with this token");
  const SegmentId id = take_id();
  const bool fresh = is_tenants_root(at) ? tenants_.add(id, at.tenant, tokens.front())
                                         : branches_.emplace(BranchKey{at.segment, at.at, tokens.front()}, id).second;
  KVKEEP_ASSERT(fresh, "no other child goes on with this token");
  Node& created = nodes_[id.value()];
  created.info = {{at.at, at.at + tokens.size()}, begin_hash, end_hash, at.segment, 0, format::PartKind::kRows, origin};
  created.begins_sampled = origin == format::Origin::kSampled;
  created.tokens = std::make_unique_for_overwrite<TokenId[]>(tokens.size());
  std::ranges::copy(tokens, created.tokens.get());
  link(id);
  by_end_.insert(id);
  token_count_ += tokens.size();
  return id;
}

SegmentId PrefixIndex::Impl::attach(const SegmentInfo& info) {
  KVKEEP_ASSERT(info.kind != format::PartKind::kRows, "rows are no leaf");
  KVKEEP_ASSERT(info.parent != kRootSegment, "nothing is attached to the root");
  const Node& above = node(info.parent);
  KVKEEP_ASSERT(!is_attached(above), "nothing hangs below an attached leaf");
  const TokenRange segment = above.info.range;
  KVKEEP_ASSERT(info.range.end > segment.begin && info.range.end <= segment.end, "the cursor is in the trie");
  if (info.kind == format::PartKind::kWindowRows) {
    KVKEEP_ASSERT(info.range.begin >= segment.begin && info.range.begin < info.range.end,
                  "window rows lie within their segment");
  } else {
    KVKEEP_ASSERT(info.range.empty(), "a point covers nothing");
  }
  const SegmentId id = take_id();
  const bool fresh = attached_.emplace(LeafKey{info.parent, info.range.end, info.kind}, id).second;
  KVKEEP_ASSERT(fresh, "no leaf of this kind is attached there");
  nodes_[id.value()].info = info;
  link(id);
  by_end_.insert(id);
  return id;
}

void PrefixIndex::Impl::erase(SegmentId id) {
  KVKEEP_ASSERT(id != kRootSegment, "the root stays");
  Node& leaving = node(id);
  KVKEEP_ASSERT(leaving.info.children == 0, "a segment with children stays");
  unlink(id);
  const auto [first, last] = by_end_.equal_range(leaving.info.end_hash);
  by_end_.erase(std::find(first, last, id));
  if (is_attached(leaving)) {
    attached_.erase({leaving.info.parent, leaving.info.range.end, leaving.info.kind});
  } else {
    const bool is_root = tenants_.erase(id, leaving.tokens[0]);
    if (!is_root) branches_.erase({leaving.info.parent, leaving.info.range.begin, leaving.tokens[0]});
    token_count_ -= leaving.info.range.size();
    marked_.erase(id);
  }
  leaving = Node{};
  free_.push_back(id);
}

void PrefixIndex::Impl::mark_sampled(Cursor to, TokenRange run) {
  while (to.at > run.begin) {
    const SegmentInfo& info = node(to.segment).info;
    const TokenRange part{std::max(run.begin, info.range.begin), std::min(run.end, to.at)};
    const bool is_prompt = info.origin == format::Origin::kPrompt;
    if (is_prompt && part.begin < part.end) mark(to.segment, part);
    to = {info.parent, info.range.begin};
  }
}

void PrefixIndex::Impl::mark(SegmentId id, TokenRange run) {
  include(marked_[id], run);
  Node& marked = nodes_[id.value()];
  if (marked.begins_sampled || run.begin > marked.info.range.begin) return;
  unlink(id);
  marked.begins_sampled = true;
  link(id);
}

std::vector<TokenRange> PrefixIndex::Impl::sampled_ranges(SegmentId id) const {
  const SegmentInfo& info = node(id).info;
  if (info.origin == format::Origin::kSampled) return {info.range};
  const auto found = marked_.find(id);
  return found == marked_.end() ? std::vector<TokenRange>{} : found->second;
}

ByteCount PrefixIndex::Impl::memory() const {
  constexpr std::size_t kAllocation = 16;  // what malloc adds to a block, about
  constexpr std::size_t kChunk = 512;      // std::deque's blocks
  // unordered_map: one block per entry (link, cached hash, pair) and a bucket array.
  constexpr std::size_t kBranch = sizeof(void*) + sizeof(std::size_t) + sizeof(std::pair<BranchKey, SegmentId>);
  static_assert(sizeof(LeafKey) == sizeof(BranchKey), "both tables' entries are of one size");
  const std::size_t chunks = nodes_.size() / (kChunk / sizeof(Node)) + 1;
  std::size_t bytes = sizeof(Impl) + chunks * (kChunk + kAllocation + sizeof(void*));
  bytes += segment_count() * kAllocation + static_cast<std::size_t>(token_count_) * sizeof(TokenId);
  bytes += (branches_.size() + attached_.size()) * (kBranch + kAllocation);
  bytes += (branches_.bucket_count() + attached_.bucket_count()) * sizeof(void*);
  bytes +=
      by_end_.size() * (sizeof(void*) + sizeof(std::size_t) + kAllocation) + by_end_.bucket_count() * sizeof(void*);
  bytes += free_.capacity() * sizeof(SegmentId);
  bytes += marked_.size() * (sizeof(void*) + sizeof(*marked_.begin()) + sizeof(TokenRange) + 2 * kAllocation);
  bytes += marked_.bucket_count() * sizeof(void*) + tenants_.memory_bytes();
  return ByteCount{bytes};
}

PrefixIndex::PrefixIndex() : impl_(std::make_unique<Impl>()) {}
PrefixIndex::~PrefixIndex() = default;
PrefixIndex::PrefixIndex(PrefixIndex&&) noexcept = default;
PrefixIndex& PrefixIndex::operator=(PrefixIndex&&) noexcept = default;

std::vector<Step> PrefixIndex::match(TokenSpan prompt, const Tenant& tenant) const {
  std::vector<Step> steps;
  const auto visit = [&](SegmentId segment, TokenRange range) { steps.push_back({segment, range}); };
  impl_->walk({kRootSegment, {}, tenant}, prompt, visit);
  return steps;
}

Cursor PrefixIndex::advance(Cursor from, TokenSpan next) const {
  return impl_->walk(from, next, [](SegmentId, TokenRange) {});
}

SegmentId PrefixIndex::insert(Cursor at, TokenSpan tokens, const PrefixHash& begin_hash, const PrefixHash& end_hash,
                              format::Origin origin) {
  return impl_->insert(at, tokens, begin_hash, end_hash, origin);
}

SegmentId PrefixIndex::attach(Cursor at, format::PartKind kind, Position begin, const PrefixHash& begin_hash,
                              const PrefixHash& end_hash) {
  return impl_->attach({{begin, at.at}, begin_hash, end_hash, at.segment, 0, kind});
}

SegmentId PrefixIndex::attached(Cursor at, format::PartKind kind) const { return impl_->attached(at, kind); }

std::vector<SegmentId> PrefixIndex::attached(SegmentId segment) const {
  std::vector<SegmentId> found = impl_->siblings(impl_->node(segment).first_attached);
  std::ranges::sort(found, {}, [this](SegmentId id) { return std::pair(info(id).range.end, info(id).kind); });
  return found;
}

void PrefixIndex::mark_sampled(Cursor to, TokenRange run) { impl_->mark_sampled(to, run); }

std::vector<TokenRange> PrefixIndex::sampled_ranges(SegmentId segment) const { return impl_->sampled_ranges(segment); }

void PrefixIndex::erase(SegmentId segment) { impl_->erase(segment); }

std::vector<SegmentId> PrefixIndex::ending_with(const PrefixHash& end_hash) const {
  return impl_->ending_with(end_hash);
}

bool PrefixIndex::contains(SegmentId segment) const { return impl_->contains(segment); }

const SegmentInfo& PrefixIndex::info(SegmentId segment) const {
  KVKEEP_ASSERT(segment != kRootSegment, "the root is no segment");
  return impl_->node(segment).info;
}

TokenSpan PrefixIndex::tokens(SegmentId segment) const { return impl_->tokens(segment); }

std::vector<TokenId> PrefixIndex::path_tokens(Cursor at) const {
  std::vector<TokenId> tokens(at.at.value());
  for (Cursor end = at; end.segment != kRootSegment;) {
    const SegmentInfo& covers = info(end.segment);
    const auto part = impl_->tokens(end.segment).first(end.at - covers.range.begin);
    std::ranges::copy(part, tokens.begin() + covers.range.begin.value());
    end = {covers.parent, covers.range.begin};
  }
  return tokens;
}

std::vector<SegmentId> PrefixIndex::path(SegmentId segment) const {
  std::vector<SegmentId> segments;
  for (; segment != kRootSegment; segment = info(segment).parent) segments.push_back(segment);
  std::ranges::reverse(segments);
  return segments;
}

Tenant PrefixIndex::tenant(SegmentId segment) const { return impl_->tenant(segment); }

std::vector<SegmentId> PrefixIndex::children(SegmentId segment) const {
  std::vector<SegmentId> found = impl_->siblings(impl_->node(segment).first_attached);
  for (const SegmentId first : {impl_->node(segment).first_sampled, impl_->node(segment).first_child}) {
    const std::vector<SegmentId> branches = impl_->siblings(first);
    found.insert(found.end(), branches.begin(), branches.end());
  }
  return found;
}

std::vector<SegmentId> PrefixIndex::sampled_children(SegmentId segment) const {
  std::vector<SegmentId> found = impl_->siblings(impl_->node(segment).first_sampled);
  std::ranges::sort(found, {}, [this](SegmentId id) { return std::pair(info(id).range.begin, tokens(id).front()); });
  return found;
}

std::vector<SegmentId> PrefixIndex::leaves() const {
  std::vector<SegmentId> found;
  for (std::uint32_t i = 1; i < id_bound(); ++i) {
    const SegmentId id{i};
    if (contains(id) && info(id).children == 0) found.push_back(id);
  }
  return found;
}

std::size_t PrefixIndex::segment_count() const { return impl_->segment_count(); }
std::size_t PrefixIndex::attached_count() const { return impl_->attached_count(); }
std::uint64_t PrefixIndex::token_count() const { return impl_->token_count(); }
ByteCount PrefixIndex::memory() const { return impl_->memory(); }
std::size_t PrefixIndex::id_bound() const { return impl_->id_bound(); }

}  // namespace kvkeep::index
