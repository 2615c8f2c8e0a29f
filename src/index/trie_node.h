#pragma once

// What the trie of prefix_index.cc is made of: nodes, and the keys by which they are found.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "index/prefix_index.h"

namespace kvkeep::index {

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

// Where a leaf is attached: at most one of a kind.
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

// A segment or an attached leaf. Children are doubly linked lists through the nodes (the root's id ends them: nobody's
// sibling), so that a node costs the same however bushy the trie is; finding a child goes through the tables. Leaves
// and segments that begin sampled have lists of their own: thousands of branches may hang where there are a few of
// these to find.
struct Node {
  SegmentInfo info;
  std::unique_ptr<TokenId[]> tokens;  // null: an attached leaf, or (kind kRows) this id is free or the root
  SegmentId first_child;
  SegmentId first_sampled;
  SegmentId first_attached;
  SegmentId next;
  SegmentId previous;
  bool begins_sampled = false;
};

// Nodes by the prefix that they end with; a pointer to them, for ids tell nothing.
template <typename Nodes>
struct EndHash {
  using is_transparent = void;
  const Nodes* nodes = nullptr;
  const PrefixHash& of(SegmentId id) const { return (*nodes)[id.value()].info.end_hash; }
  static const PrefixHash& of(const PrefixHash& hash) { return hash; }
  std::size_t operator()(const auto& key) const noexcept { return std::hash<PrefixHash>{}(of(key)); }
  bool operator()(const auto& a, const auto& b) const noexcept { return of(a) == of(b); }
};

}  // namespace kvkeep::index
