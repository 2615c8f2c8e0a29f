#pragma once

// How the files of one fingerprint hang together: a tree of straight runs. Pure.
//
// A run is what the prompts below it share: segments that follow each other without a branch, and the points and
// windows that hang in them. It ends where prompts part, and where nothing goes on.

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "store/directory_scan.h"

namespace kvkeep::inspect {

inline constexpr std::size_t kNone = SIZE_MAX;

struct Run {
  std::size_t parent = kNone;  // a run; kNone: it begins at 0
  std::size_t depth = 0;       // runs above it
  TokenRange range;            // begins within its parent, or at its end
  PrefixHash end_hash;
  // Places in the list of files, ascending by position.
  std::vector<std::size_t> rows;
  std::vector<std::size_t> leaves;  // points, whole states, window rows
  // Files in no run that hold ids of this one: redundant ones and leaves without a place that end here, misnamed ones
  // that would begin here.
  std::vector<std::size_t> unshown;
  std::vector<std::size_t> children;
};

struct PrefixTree {
  std::vector<Run> runs;  // parents before children
  std::vector<std::size_t> roots;
  std::vector<std::size_t> run_of;  // by place in the list of files; kNone: in no run
  // Files that hang in no run: what they continue is not there; their tokens have another hash than their name; others
  // give all they have.
  std::vector<std::size_t> orphans;
  std::vector<std::size_t> misnamed;
  std::vector<std::size_t> redundant;
};

// Files in ascending order of this come behind what they continue, hang in and are built on: rows begin within what
// they continue, and a leaf ends within the rows it hangs in. `file` tells apart what is in no order.
std::tuple<Position, std::size_t> order_of(const format::SegmentHeader& header, std::size_t file);

// Cost: O(all tokens) hashing.
PrefixTree build_tree(const FingerprintHash& fingerprint, std::span<const store::FoundSegment> files);

// The ids of [0, end) of a run, from the files of its path.
std::vector<TokenId> path_tokens(const PrefixTree& tree, std::span<const store::FoundSegment> files, std::size_t run);
// At most `count` ids of the run itself, from its beginning: where a branch differs from its siblings.
std::vector<TokenId> first_tokens(const PrefixTree& tree, std::span<const store::FoundSegment> files, std::size_t run,
                                  std::size_t count);
// The run and all below it, children before parents.
std::vector<std::size_t> subtree(const PrefixTree& tree, std::size_t run);

}  // namespace kvkeep::inspect
