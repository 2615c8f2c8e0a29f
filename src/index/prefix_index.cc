#include "index/prefix_index.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/assert.h"

namespace kvkeep::index {

namespace {

constexpr std::size_t kAllocation = 16;  // what malloc adds to a block, about

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

// Where a leaf hangs: at most one of a kind.
struct LeafKey {
  SegmentId parent;
  Position at;
  format::PartKind kind = format::PartKind::kPoint;
  bool operator==(const LeafKey&) const = default;
};

struct LeafKeyHash {
  std::size_t operator()(const LeafKey& key) const noexcept {
    return BranchKeyHash{}({key.parent, key.at, static_cast<TokenId>(key.kind)});
  }
};

// A segment or a leaf. Children are doubly linked lists through the nodes (the root's id ends them: nobody's
// sibling), so that a node costs the same however bushy the trie is; finding a child goes through the tables. Leaves
// and segments that begin sampled have lists of their own: thousands of branches may hang where there are a few of
// these to find.
struct Node {
  SegmentInfo info;
  std::unique_ptr<TokenId[]> tokens;  // null: a leaf, or (kind kRows) this id is free or the root
  SegmentId first_child;
  SegmentId first_sampled;
  SegmentId first_leaf;
  SegmentId next;
  SegmentId previous;
  bool begins_sampled = false;

  bool is_leaf() const { return info.kind != format::PartKind::kRows; }
};

// Nodes by id; ids are given out again. Lists of siblings hang together through the nodes.
class Nodes {
 public:
  bool contains(SegmentId id) const {
    if (id.value() >= nodes_.size()) return false;
    const Node& held = nodes_[id.value()];
    return id == kRootSegment || held.tokens != nullptr || held.is_leaf();
  }
  Node& at(SegmentId id) {
    KVKEEP_ASSERT(contains(id), "segment is in the index");
    return nodes_[id.value()];
  }
  // The node with this id, also if the id is free.
  const Node& operator[](SegmentId id) const { return nodes_[id.value()]; }

  SegmentId add(Node node) {
    const SegmentId id = take_id();
    nodes_[id.value()] = std::move(node);
    link(id);
    return id;
  }
  // Precondition: unlinked.
  void remove(SegmentId id) {
    nodes_[id.value()] = Node{};
    free_.push_back(id);
  }
  void link(SegmentId id) {
    Node& created = at(id);
    Node& parent = at(created.info.parent);
    SegmentId& first = first_sibling(parent, created);
    created.previous = kRootSegment;
    created.next = first;
    if (created.next != kRootSegment) at(created.next).previous = id;
    first = id;
    ++parent.info.children;
  }
  void unlink(SegmentId id) {
    const Node& leaving = at(id);
    Node& parent = at(leaving.info.parent);
    if (leaving.previous == kRootSegment) {
      first_sibling(parent, leaving) = leaving.next;
    } else {
      at(leaving.previous).next = leaving.next;
    }
    if (leaving.next != kRootSegment) at(leaving.next).previous = leaving.previous;
    --parent.info.children;
  }
  std::vector<SegmentId> siblings(SegmentId first) {
    std::vector<SegmentId> found;
    for (SegmentId id = first; id != kRootSegment; id = at(id).next) found.push_back(id);
    return found;
  }

  std::size_t id_bound() const { return nodes_.size(); }
  std::size_t count() const { return nodes_.size() - 1 - free_.size(); }  // the root left out
  std::size_t memory_bytes() const {
    constexpr std::size_t kChunk = 512;  // std::deque's blocks
    const std::size_t chunks = nodes_.size() / (kChunk / sizeof(Node)) + 1;
    return chunks * (kChunk + kAllocation + sizeof(void*)) + free_.capacity() * sizeof(SegmentId);
  }

 private:
  SegmentId take_id() {
    if (free_.empty()) {
      nodes_.emplace_back();
      return SegmentId{static_cast<std::uint32_t>(nodes_.size() - 1)};
    }
    const SegmentId id = free_.back();
    free_.pop_back();
    return id;
  }
  // The head of the list that a child of this kind is in.
  static SegmentId& first_sibling(Node& parent, const Node& child) {
    if (child.is_leaf()) return parent.first_leaf;
    return child.begins_sampled ? parent.first_sampled : parent.first_child;
  }

  std::deque<Node> nodes_ = std::deque<Node>(1);  // so that info() stays where it is while others are inserted
  std::vector<SegmentId> free_;
};

// Nodes by the prefix that they end with; a pointer to them, for ids tell nothing.
struct EndHash {
  using is_transparent = void;
  const Nodes* nodes = nullptr;
  const PrefixHash& of(SegmentId id) const { return (*nodes)[id].info.end_hash; }
  static const PrefixHash& of(const PrefixHash& hash) { return hash; }
  std::size_t operator()(const auto& key) const noexcept { return std::hash<PrefixHash>{}(of(key)); }
  bool operator()(const auto& a, const auto& b) const noexcept { return of(a) == of(b); }
};

// Where tenants' tries begin: the segments at position 0, by tenant and first token. The paths below them are found
// only through them, so nothing else of the index knows of tenants. Requests without a tenant are not here. Costs
// memory for segments that are there, never for tenants that were.
class TenantRoots {
 public:
  bool empty() const { return tenants_.empty(); }
  // Returns kRootSegment if there is none.
  SegmentId find(const Tenant& tenant, TokenId token) const {
    const auto found = segments_.find({tenant, token});
    return found == segments_.end() ? kRootSegment : found->second;
  }
  // Returns false if the tenant has one that begins with this token.
  bool add(SegmentId segment, const Tenant& tenant, TokenId token) {
    return segments_.emplace(Root{tenant, token}, segment).second && tenants_.emplace(segment, tenant).second;
  }
  // Returns the tenant whose root it is; kNoTenant if it is none.
  Tenant tenant(SegmentId segment) const {
    const auto found = tenants_.find(segment);
    return found == tenants_.end() ? kNoTenant : found->second;
  }
  // Returns false if it is none.
  bool erase(SegmentId segment, TokenId token) {
    const auto found = tenants_.find(segment);
    if (found == tenants_.end()) return false;
    segments_.erase({found->second, token});
    tenants_.erase(found);
    return true;
  }
  std::size_t memory_bytes() const {
    // One block per entry (link, cached hash, pair) and a bucket array.
    constexpr std::size_t kEntry =
        sizeof(void*) + sizeof(std::size_t) + sizeof(std::pair<Root, SegmentId>) + kAllocation;
    return segments_.size() * 2 * kEntry + (segments_.bucket_count() + tenants_.bucket_count()) * sizeof(void*);
  }

 private:
  struct Root {
    Tenant tenant;
    TokenId token = 0;
    bool operator==(const Root&) const = default;
  };
  struct RootHash {
    std::size_t operator()(const Root& root) const noexcept {
      return std::hash<Tenant>{}(root.tenant) ^ (static_cast<std::uint32_t>(root.token) * 0x9e37'79b9'7f4a'7c15ULL);
    }
  };

  std::unordered_map<Root, SegmentId, RootHash> segments_;
  std::unordered_map<SegmentId, Tenant> tenants_;
};

// Keeps the ranges ascending and apart.
void include(std::vector<TokenRange>& ranges, TokenRange run) {
  std::erase_if(ranges, [&run](const TokenRange& known) {
    if (known.end < run.begin || known.begin > run.end) return false;
    run = {std::min(known.begin, run.begin), std::max(known.end, run.end)};
    return true;
  });
  ranges.insert(std::ranges::upper_bound(ranges, run.begin, {}, &TokenRange::begin), run);
}

bool is_tenants_root(Cursor at) { return at.segment == kRootSegment && at.tenant != kNoTenant; }

}  // namespace

// The nodes, and the tables by which they are found.
struct PrefixIndex::Tables {
  Nodes nodes;
  std::unordered_map<BranchKey, SegmentId, BranchKeyHash> branches;
  TenantRoots tenants;
  std::unordered_map<LeafKey, SegmentId, LeafKeyHash> leaves;
  std::unordered_multiset<SegmentId, EndHash, EndHash> by_end{0, EndHash{&nodes}, EndHash{&nodes}};
  std::unordered_map<SegmentId, std::vector<TokenRange>> marked;  // as sampled, of segments of prompts
  std::uint64_t token_count = 0;

  TokenSpan tokens(SegmentId segment) {
    const Node& held = nodes.at(segment);
    if (!held.is_leaf()) return {held.tokens.get(), held.info.range.size()};
    const Position begin = nodes.at(held.info.parent).info.range.begin;
    return tokens(held.info.parent).subspan(held.info.range.begin - begin, held.info.range.size());
  }
  // The child that starts with `token` at the cursor, the root if there is none.
  SegmentId child(Cursor at, TokenId token) const {
    if (is_tenants_root(at)) return tenants.find(at.tenant, token);
    const auto found = branches.find({at.segment, at.at, token});
    return found == branches.end() ? kRootSegment : found->second;
  }
  // Follows `next` from the cursor; calls visit(segment, range) for each run of tokens that it covers.
  template <typename Visit>
  Cursor walk(Cursor at, TokenSpan next, Visit visit) {
    while (true) {
      const TokenSpan rest = tokens(at.segment).subspan(at.at - nodes.at(at.segment).info.range.begin);
      const std::size_t known = common_prefix(rest, next);
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
};

PrefixIndex::PrefixIndex() : tables_(std::make_unique<Tables>()) {}
PrefixIndex::~PrefixIndex() = default;
PrefixIndex::PrefixIndex(PrefixIndex&&) noexcept = default;
PrefixIndex& PrefixIndex::operator=(PrefixIndex&&) noexcept = default;

bool PrefixIndex::contains(SegmentId segment) const { return tables_->nodes.contains(segment); }

const SegmentInfo& PrefixIndex::info(SegmentId segment) const {
  KVKEEP_ASSERT(segment != kRootSegment, "the root is no segment");
  return tables_->nodes.at(segment).info;
}

TokenSpan PrefixIndex::tokens(SegmentId segment) const { return tables_->tokens(segment); }

// ---- matching ----

std::vector<Step> PrefixIndex::match(TokenSpan prompt, const Tenant& tenant) const {
  std::vector<Step> steps;
  tables_->walk({kRootSegment, {}, tenant}, prompt,
                [&](SegmentId segment, TokenRange range) { steps.push_back({segment, range}); });
  return steps;
}

Cursor PrefixIndex::advance(Cursor from, TokenSpan next) const {
  return tables_->walk(from, next, [](SegmentId, TokenRange) {});
}

// ---- what comes and goes ----

SegmentId PrefixIndex::insert(Cursor at, TokenSpan tokens, const PrefixHash& begin_hash, const PrefixHash& end_hash,
                              format::Origin origin) {
  KVKEEP_ASSERT(!tokens.empty(), "a segment has tokens");
  const Node& above = tables_->nodes.at(at.segment);
  KVKEEP_ASSERT(!above.is_leaf(), "nothing hangs below a leaf");
  const TokenRange parent_range = above.info.range;
  KVKEEP_ASSERT(at.at >= parent_range.begin && at.at <= parent_range.end, "the cursor is in the trie");
  KVKEEP_ASSERT(at.at > parent_range.begin || at.segment == kRootSegment, "the cursor is in the parent, not above it");
  const TokenId first = tokens.front();
  KVKEEP_ASSERT(at.at == parent_range.end || above.tokens[at.at - parent_range.begin] != first,
                "the segment itself does not go on with this token");
  Node created;
  created.info = {{at.at, at.at + tokens.size()}, begin_hash, end_hash, at.segment, 0, format::PartKind::kRows, origin};
  created.begins_sampled = origin == format::Origin::kSampled;
  created.tokens = std::make_unique_for_overwrite<TokenId[]>(tokens.size());
  std::ranges::copy(tokens, created.tokens.get());
  const SegmentId id = tables_->nodes.add(std::move(created));
  const bool fresh = is_tenants_root(at) ? tables_->tenants.add(id, at.tenant, first)
                                         : tables_->branches.emplace(BranchKey{at.segment, at.at, first}, id).second;
  KVKEEP_ASSERT(fresh, "no other child goes on with this token");
  tables_->by_end.insert(id);
  tables_->token_count += tokens.size();
  return id;
}

SegmentId PrefixIndex::insert_leaf(Cursor at, format::PartKind kind, Position begin, const PrefixHash& begin_hash,
                                   const PrefixHash& end_hash) {
  KVKEEP_ASSERT(kind != format::PartKind::kRows, "rows are no leaf");
  KVKEEP_ASSERT(at.segment != kRootSegment, "no leaf hangs in the root");
  const Node& above = tables_->nodes.at(at.segment);
  KVKEEP_ASSERT(!above.is_leaf(), "nothing hangs below a leaf");
  const TokenRange segment = above.info.range;
  KVKEEP_ASSERT(at.at > segment.begin && at.at <= segment.end, "the cursor is in the trie");
  if (kind == format::PartKind::kWindowRows) {
    KVKEEP_ASSERT(begin >= segment.begin && begin < at.at, "window rows lie within their segment");
  } else {
    KVKEEP_ASSERT(begin == at.at, "a point covers nothing");
  }
  Node created;
  created.info = {{begin, at.at}, begin_hash, end_hash, at.segment, 0, kind};
  const SegmentId id = tables_->nodes.add(std::move(created));
  const bool fresh = tables_->leaves.emplace(LeafKey{at.segment, at.at, kind}, id).second;
  KVKEEP_ASSERT(fresh, "no leaf of this kind hangs there");
  tables_->by_end.insert(id);
  return id;
}

void PrefixIndex::erase(SegmentId segment) {
  KVKEEP_ASSERT(segment != kRootSegment, "the root stays");
  const Node& leaving = tables_->nodes.at(segment);
  KVKEEP_ASSERT(leaving.info.children == 0, "a segment with children stays");
  tables_->nodes.unlink(segment);
  const auto [first, last] = tables_->by_end.equal_range(leaving.info.end_hash);
  tables_->by_end.erase(std::find(first, last, segment));
  if (leaving.is_leaf()) {
    tables_->leaves.erase({leaving.info.parent, leaving.info.range.end, leaving.info.kind});
  } else {
    const bool is_root = tables_->tenants.erase(segment, leaving.tokens[0]);
    if (!is_root) tables_->branches.erase({leaving.info.parent, leaving.info.range.begin, leaving.tokens[0]});
    tables_->token_count -= leaving.info.range.size();
    tables_->marked.erase(segment);
  }
  tables_->nodes.remove(segment);
}

// ---- which ids were sampled ----

void PrefixIndex::mark_sampled(Cursor to, TokenRange run) {
  while (to.at > run.begin) {
    const SegmentId id = to.segment;
    Node& marked = tables_->nodes.at(id);
    const TokenRange range = marked.info.range;
    const TokenRange part{std::max(run.begin, range.begin), std::min(run.end, to.at)};
    to = {marked.info.parent, range.begin};
    if (marked.info.origin != format::Origin::kPrompt || part.begin >= part.end) continue;
    include(tables_->marked[id], part);
    if (marked.begins_sampled || part.begin > range.begin) continue;
    tables_->nodes.unlink(id);  // it moves to another list
    marked.begins_sampled = true;
    tables_->nodes.link(id);
  }
}

std::vector<TokenRange> PrefixIndex::sampled_ranges(SegmentId segment) const {
  const SegmentInfo& info = tables_->nodes.at(segment).info;
  if (info.origin == format::Origin::kSampled) return {info.range};
  const auto found = tables_->marked.find(segment);
  return found == tables_->marked.end() ? std::vector<TokenRange>{} : found->second;
}

// ---- looking around ----

SegmentId PrefixIndex::leaf(Cursor at, format::PartKind kind) const {
  const auto found = tables_->leaves.find({at.segment, at.at, kind});
  return found == tables_->leaves.end() ? kRootSegment : found->second;
}

std::vector<SegmentId> PrefixIndex::leaves_of(SegmentId segment) const {
  std::vector<SegmentId> found = tables_->nodes.siblings(tables_->nodes.at(segment).first_leaf);
  std::ranges::sort(found, {}, [this](SegmentId id) { return std::pair(info(id).range.end, info(id).kind); });
  return found;
}

std::vector<TokenId> PrefixIndex::path_tokens(Cursor at) const {
  std::vector<TokenId> path(at.at.value());
  for (Cursor end = at; end.segment != kRootSegment;) {
    const SegmentInfo& covers = info(end.segment);
    const auto part = tokens(end.segment).first(end.at - covers.range.begin);
    std::ranges::copy(part, path.begin() + covers.range.begin.value());
    end = {covers.parent, covers.range.begin};
  }
  return path;
}

std::vector<SegmentId> PrefixIndex::path(SegmentId segment) const {
  std::vector<SegmentId> segments;
  for (; segment != kRootSegment; segment = info(segment).parent) segments.push_back(segment);
  std::ranges::reverse(segments);
  return segments;
}

Tenant PrefixIndex::tenant(SegmentId segment) const {
  if (tables_->tenants.empty()) return kNoTenant;
  while (tables_->nodes.at(segment).info.parent != kRootSegment) segment = tables_->nodes.at(segment).info.parent;
  return tables_->tenants.tenant(segment);
}

std::vector<SegmentId> PrefixIndex::children(SegmentId segment) const {
  std::vector<SegmentId> found;
  const Node& parent = tables_->nodes.at(segment);
  for (const SegmentId first : {parent.first_leaf, parent.first_sampled, parent.first_child}) {
    const std::vector<SegmentId> some = tables_->nodes.siblings(first);
    found.insert(found.end(), some.begin(), some.end());
  }
  return found;
}

std::vector<SegmentId> PrefixIndex::sampled_children(SegmentId segment) const {
  std::vector<SegmentId> found = tables_->nodes.siblings(tables_->nodes.at(segment).first_sampled);
  std::ranges::sort(found, {}, [this](SegmentId id) { return std::pair(info(id).range.begin, tokens(id).front()); });
  return found;
}

std::vector<SegmentId> PrefixIndex::ending_with(const PrefixHash& end_hash) const {
  const auto [first, last] = tables_->by_end.equal_range(end_hash);
  return {first, last};
}

std::vector<SegmentId> PrefixIndex::childless() const {
  std::vector<SegmentId> found;
  for (std::uint32_t i = 1; i < id_bound(); ++i) {
    const SegmentId id{i};
    if (contains(id) && info(id).children == 0) found.push_back(id);
  }
  return found;
}

// ---- sizes ----

std::size_t PrefixIndex::segment_count() const { return tables_->nodes.count() - leaf_count(); }
std::size_t PrefixIndex::leaf_count() const { return tables_->leaves.size(); }
std::uint64_t PrefixIndex::token_count() const { return tables_->token_count; }
std::size_t PrefixIndex::id_bound() const { return tables_->nodes.id_bound(); }

ByteCount PrefixIndex::memory() const {
  const Tables& all = *tables_;
  // unordered_map: one block per entry (link, cached hash, pair) and a bucket array.
  constexpr std::size_t kLinks = sizeof(void*) + sizeof(std::size_t) + kAllocation;
  constexpr std::size_t kBranch = kLinks + sizeof(std::pair<BranchKey, SegmentId>);
  static_assert(sizeof(LeafKey) == sizeof(BranchKey), "both tables' entries are of one size");
  std::size_t bytes = sizeof(Tables) + all.nodes.memory_bytes() + all.tenants.memory_bytes();
  bytes += segment_count() * kAllocation + static_cast<std::size_t>(token_count()) * sizeof(TokenId);
  bytes += (all.branches.size() + all.leaves.size()) * kBranch + all.by_end.size() * kLinks;
  bytes += all.marked.size() * (sizeof(void*) + sizeof(*all.marked.begin()) + sizeof(TokenRange) + 2 * kAllocation);
  bytes += sizeof(void*) * (all.branches.bucket_count() + all.leaves.bucket_count() + all.by_end.bucket_count() +
                            all.marked.bucket_count());
  return ByteCount{bytes};
}

}  // namespace kvkeep::index
