#include "index/prefix_index.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "base/assert.h"

namespace kvkeep::index {

namespace {

// Where a child hangs and which token it starts with: by the trie's invariant, at most one child per key.
struct BranchKey {
  SegmentId parent;
  Position at;
  TokenId token = 0;
  bool operator==(const BranchKey&) const = default;
};

struct BranchKeyHash {
  std::size_t operator()(const BranchKey& key) const noexcept {
    std::uint64_t x = (std::uint64_t{key.parent.value()} << 32 | key.at.value()) * 0x9e37'79b9'7f4a'7c15ULL;
    x = (x ^ (x >> 29) ^ static_cast<std::uint32_t>(key.token)) * 0xbf58'476d'1ce4'e5b9ULL;
    return static_cast<std::size_t>(x ^ (x >> 32));
  }
};

// A segment. Children are a doubly linked list through the nodes (the root's id ends it: nobody's sibling), so that a
// node costs the same however bushy the trie is; finding a child goes through the branch table.
struct Node {
  SegmentInfo info;
  std::unique_ptr<TokenId[]> tokens;  // null: this id is free (or the root)
  SegmentId first_child;
  SegmentId next;
  SegmentId previous;
};

}  // namespace

class PrefixIndex::Impl {
 public:
  Impl() : nodes_(1) {}

  const Node& node(SegmentId id) const {
    KVKEEP_ASSERT(contains(id), "segment is in the index");
    return nodes_[id.value()];
  }
  Node& node(SegmentId id) { return const_cast<Node&>(std::as_const(*this).node(id)); }
  bool contains(SegmentId id) const {
    return id == kRootSegment || (id.value() < nodes_.size() && nodes_[id.value()].tokens != nullptr);
  }
  TokenSpan tokens(SegmentId id) const {
    const Node& held = node(id);
    return {held.tokens.get(), held.info.range.size()};
  }
  // The child that starts with `token` at the cursor; the root: none.
  SegmentId child(Cursor at, TokenId token) const {
    const auto found = branches_.find({at.segment, at.at, token});
    return found == branches_.end() ? kRootSegment : found->second;
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
    }
  }

  SegmentId insert(Cursor at, TokenSpan tokens, const PrefixHash& begin_hash, const PrefixHash& end_hash);
  void erase(SegmentId id);
  ByteCount memory() const;

  std::uint64_t token_count() const { return token_count_; }
  std::size_t segment_count() const { return nodes_.size() - 1 - free_.size(); }
  std::size_t id_bound() const { return nodes_.size(); }

 private:
  SegmentId take_id();

  std::deque<Node> nodes_;  // by id; a deque, so that info() stays where it is while others are inserted
  std::vector<SegmentId> free_;
  std::unordered_map<BranchKey, SegmentId, BranchKeyHash> branches_;
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

SegmentId PrefixIndex::Impl::insert(Cursor at, TokenSpan tokens, const PrefixHash& begin_hash,
                                    const PrefixHash& end_hash) {
  KVKEEP_ASSERT(!tokens.empty(), "a segment has tokens");
  const TokenRange parent_range = node(at.segment).info.range;
  KVKEEP_ASSERT(at == Cursor{} || (at.at > parent_range.begin && at.at <= parent_range.end),
                "the cursor is in the trie");
  const TokenSpan own = rest(at);
  KVKEEP_ASSERT(own.empty() || own.front() != tokens.front(), "the segment itself does not go on with this token");
  const SegmentId id = take_id();
  const bool fresh = branches_.emplace(BranchKey{at.segment, at.at, tokens.front()}, id).second;
  KVKEEP_ASSERT(fresh, "no other child goes on with this token");
  Node& created = nodes_[id.value()];
  Node& parent = node(at.segment);
  created.info = {{at.at, at.at + tokens.size()}, begin_hash, end_hash, at.segment, 0};
  created.tokens = std::make_unique_for_overwrite<TokenId[]>(tokens.size());
  std::ranges::copy(tokens, created.tokens.get());
  created.next = parent.first_child;
  if (created.next != kRootSegment) node(created.next).previous = id;
  parent.first_child = id;
  ++parent.info.children;
  token_count_ += tokens.size();
  return id;
}

void PrefixIndex::Impl::erase(SegmentId id) {
  KVKEEP_ASSERT(id != kRootSegment, "the root stays");
  Node& leaving = node(id);
  KVKEEP_ASSERT(leaving.info.children == 0, "a segment with children stays");
  Node& parent = node(leaving.info.parent);
  branches_.erase({leaving.info.parent, leaving.info.range.begin, leaving.tokens[0]});
  if (leaving.previous == kRootSegment) {
    parent.first_child = leaving.next;
  } else {
    node(leaving.previous).next = leaving.next;
  }
  if (leaving.next != kRootSegment) node(leaving.next).previous = leaving.previous;
  --parent.info.children;
  token_count_ -= leaving.info.range.size();
  leaving = Node{};
  free_.push_back(id);
}

ByteCount PrefixIndex::Impl::memory() const {
  constexpr std::size_t kAllocation = 16;  // what malloc adds to a block, about
  constexpr std::size_t kChunk = 512;      // std::deque's blocks
  // unordered_map: one block per entry (link, cached hash, pair) and a bucket array.
  constexpr std::size_t kBranch = sizeof(void*) + sizeof(std::size_t) + sizeof(std::pair<BranchKey, SegmentId>);
  const std::size_t chunks = nodes_.size() / (kChunk / sizeof(Node)) + 1;
  std::size_t bytes = sizeof(Impl) + chunks * (kChunk + kAllocation + sizeof(void*));
  bytes += segment_count() * kAllocation + static_cast<std::size_t>(token_count_) * sizeof(TokenId);
  bytes += branches_.size() * (kBranch + kAllocation) + branches_.bucket_count() * sizeof(void*);
  bytes += free_.capacity() * sizeof(SegmentId);
  return ByteCount{bytes};
}

PrefixIndex::PrefixIndex() : impl_(std::make_unique<Impl>()) {}
PrefixIndex::~PrefixIndex() = default;
PrefixIndex::PrefixIndex(PrefixIndex&&) noexcept = default;
PrefixIndex& PrefixIndex::operator=(PrefixIndex&&) noexcept = default;

std::vector<Step> PrefixIndex::match(TokenSpan prompt) const {
  std::vector<Step> steps;
  impl_->walk({}, prompt, [&](SegmentId segment, TokenRange range) { steps.push_back({segment, range}); });
  return steps;
}

Cursor PrefixIndex::advance(Cursor from, TokenSpan next) const {
  return impl_->walk(from, next, [](SegmentId, TokenRange) {});
}

SegmentId PrefixIndex::insert(Cursor at, TokenSpan tokens, const PrefixHash& begin_hash, const PrefixHash& end_hash) {
  return impl_->insert(at, tokens, begin_hash, end_hash);
}

void PrefixIndex::erase(SegmentId segment) { impl_->erase(segment); }

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

std::vector<SegmentId> PrefixIndex::children(SegmentId segment) const {
  std::vector<SegmentId> found;
  for (SegmentId id = impl_->node(segment).first_child; id != kRootSegment; id = impl_->node(id).next) {
    found.push_back(id);
  }
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
std::uint64_t PrefixIndex::token_count() const { return impl_->token_count(); }
ByteCount PrefixIndex::memory() const { return impl_->memory(); }
std::size_t PrefixIndex::id_bound() const { return impl_->id_bound(); }

}  // namespace kvkeep::index
