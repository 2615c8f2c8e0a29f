#pragma once

// The prefix index: a trie whose edges are segments.
//
// Every known run of tokens hangs under the prefix it continues. A segment begins at its parent's end or in the middle
// of it (a branch), so nothing is stored twice and a conversation is one path. Invariant: from any position of the
// trie at most one continuation starts with a given token, so a prompt has exactly one path and matching is
// deterministic. Each tenant has a trie of its own below the one root. The index knows names, tokens and structure;
// whether a segment's rows can be had (and from which tier) is the cache's business. Pure memory: no clock, no lock, no
// I/O. Not thread safe.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "format/segment_file.h"

namespace kvkeep::index {

// A place in the trie: `at` lies in (begin, end] of `segment`, or is 0 at the root.
struct Cursor {
  SegmentId segment = kRootSegment;
  Position at;
  Tenant tenant = kNoTenant;  // at the root: whose trie; below it the segment decides, and here is none
  bool operator==(const Cursor&) const = default;
};

// One segment on a prompt's path and how far the path follows it.
struct Step {
  SegmentId segment;
  TokenRange range;  // tokens of the prompt that this segment covers on this path
  bool operator==(const Step&) const = default;
};

struct SegmentInfo {
  TokenRange range;       // what it covers in the trie; of a leaf: see insert_leaf()
  PrefixHash begin_hash;  // h(range.begin)
  PrefixHash end_hash;    // h(range.end)
  SegmentId parent;
  std::uint32_t children = 0;  // leaves included
  format::PartKind kind = format::PartKind::kRows;
  format::Origin origin = format::Origin::kPrompt;
};

class PrefixIndex {
 public:
  PrefixIndex();
  ~PrefixIndex();
  PrefixIndex(PrefixIndex&&) noexcept;
  PrefixIndex& operator=(PrefixIndex&&) noexcept;

  // The path of the prompt from the root, as far as it is known. Cost: O(matched tokens) comparisons.
  std::vector<Step> match(TokenSpan prompt, const Tenant& tenant = kNoTenant) const;

  // Follows `next` (the tokens after `from.at`) as far as known.
  Cursor advance(Cursor from, TokenSpan next) const;

  // Adds a segment of `tokens` at `at`. Preconditions: tokens not empty; the trie does not already know tokens[0] there
  // (call advance first).
  SegmentId insert(Cursor at, TokenSpan tokens, const PrefixHash& begin_hash, const PrefixHash& end_hash,
                   format::Origin origin = format::Origin::kPrompt);

  // Adds a leaf that is no segment of tokens: state of `kind` at `at` that rows cannot give. It is a child of
  // at.segment, covers [begin, at.at) (nothing if it is a point or whole state; window rows lie within their segment),
  // and nothing ever hangs below it: match() and advance() do not see it. Preconditions: `at` is not the root; kind is
  // not kRows; leaf(at, kind) is the root; the range fits the kind.
  SegmentId insert_leaf(Cursor at, format::PartKind kind, Position begin, const PrefixHash& begin_hash,
                        const PrefixHash& end_hash);
  // The leaf of that kind exactly there; the root if there is none.
  SegmentId leaf(Cursor at, format::PartKind kind) const;
  // All leaves of a segment (within its range), by ascending end, then kind. Cost: O(leaves found), however many
  // segments branch off.
  std::vector<SegmentId> leaves_of(SegmentId segment) const;

  // Ids of a prompt may be sampled later: says so of [run) on the path to `to`. Forgotten with the segment.
  void mark_sampled(Cursor to, TokenRange run);
  // The ids of a segment that were sampled, ascending, apart: all of it by its origin, or the marked runs.
  std::vector<TokenRange> sampled_ranges(SegmentId segment) const;

  // Removes a segment or a leaf. Precondition: it has no children.
  void erase(SegmentId segment);

  bool contains(SegmentId segment) const;
  // Precondition: contains(segment) and not the root.
  const SegmentInfo& info(SegmentId segment) const;
  // Token ids of its range (a point: none; a window: those of its segment). Valid until the next insert
  // or erase.
  TokenSpan tokens(SegmentId segment) const;
  // All ids from the root to the cursor.
  std::vector<TokenId> path_tokens(Cursor at) const;
  // Segments from the root to `segment`, the root left out.
  std::vector<SegmentId> path(SegmentId segment) const;
  // In whose trie it is. Cost: O(segments from the root), if there are tenants at all.
  Tenant tenant(SegmentId segment) const;
  // Leaves first. Of the root: of all tenants.
  std::vector<SegmentId> children(SegmentId segment) const;
  // Those whose first id was sampled, by ascending begin, then first token. Cost: what there is of them, however many
  // prompts branch off. Of the root: of all tenants.
  std::vector<SegmentId> sampled_children(SegmentId segment) const;
  // Segments and leaves whose range ends with the prefix of this name; in no particular order.
  std::vector<SegmentId> ending_with(const PrefixHash& end_hash) const;
  // Leaves, and segments without children; in no particular order.
  std::vector<SegmentId> childless() const;

  std::size_t segment_count() const;  // segments of rows
  std::size_t leaf_count() const;
  std::uint64_t token_count() const;
  // Bytes of memory that the index holds, token ids included.
  ByteCount memory() const;

  // Largest SegmentId ever given out plus one; ids are reused after erase, so side tables stay small.
  std::size_t id_bound() const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

// A segment as a file names it: it begins at a prefix of which only the hash is known. One of another kind than kRows
// hangs at (range.end, end_hash); its range and begin_hash are those of insert_leaf(), its tokens do not matter.
struct NamedSegment {
  TokenRange range;
  PrefixHash begin_hash;
  PrefixHash end_hash;
  TokenSpan tokens;
  format::PartKind kind = format::PartKind::kRows;
  format::Origin origin = format::Origin::kPrompt;
  Tenant tenant = kNoTenant;  // under whose key its hashes are; of a leaf it does not matter
};

// Where rebuild() placed a named segment.
struct Placement {
  SegmentId segment;      // where it was placed, as [visible_from, end); the root: nowhere
  Position visible_from;  // the trie already knew [begin, visible_from) by other segments; all of it if redundant
  enum class Outcome {
    kPlaced,
    kRedundant,  // the trie knew every token; such a leaf hangs there already
    kOrphan,     // no known prefix has the name of its beginning; of a leaf: of its end, or not within one segment
    kWrongHash,  // its tokens do not hash to its end_hash, or are not as many as its range says; no range for a leaf;
                 // it hangs in another tenant's trie than it says
  } outcome = Outcome::kPlaced;
  // The segment of rows in which its end lies, whatever became of it; of a wrong hash: in which it would begin or, as a
  // leaf, hang. The root: no known prefix has that name, or it is the empty one.
  SegmentId within = kRootSegment;
};

// Builds the trie from segments in any order. A segment hangs where its begin_hash is the hash of a known prefix at
// range.begin, also in the middle of another segment. Hashes are under prefix_key(fingerprint, tenant). The index may
// hold segments already, provided that their hashes are true: named ones may then hang below them. Which prefixes are
// known afterwards does not depend on the order; which of two overlapping segments is redundant may (and so its origin,
// which of two windows with the same end, or whether a window lies within one segment). Cost: O(total tokens) hashing,
// twice over.
std::vector<Placement> rebuild(PrefixIndex& index, const FingerprintHash& fingerprint,
                               const std::vector<NamedSegment>& segments);

}  // namespace kvkeep::index
