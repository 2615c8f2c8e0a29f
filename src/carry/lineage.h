#pragma once

// The way that leads to each file of one fingerprint, as objects of a shared tier name it. Pure.

#include <optional>
#include <span>
#include <vector>

#include "format/shared_object.h"
#include "inspect/prefix_tree.h"
#include "store/directory_scan.h"

namespace kvkeep::carry {

class Lineage {
 public:
  // Both must outlive it.
  Lineage(const inspect::PrefixTree& tree, std::span<const store::FoundSegment> files);

  // Returns false for files that hang in no run: the files that they continue are missing, others hold the same, or
  // their names are wrong.
  bool placed(std::size_t file) const { return tree_.run_of[file] != inspect::kNone; }
  // The file of rows that a placed file continues, or in which a leaf lies; inspect::kNone at the root.
  std::size_t parent(std::size_t file) const { return parents_[file]; }
  // From the root; the last step is the file itself or, of a leaf, the file in which it lies. Precondition: placed().
  std::vector<format::PathStep> path(std::size_t file) const;

  // Placed files in an order in which each comes after its parent: those that were used last first, each with its way.
  std::vector<std::size_t> last_used_first() const;
  // The same by position: what many prompts begin with comes first.
  std::vector<std::size_t> beginnings_first() const;

 private:
  void find_parents(const inspect::Run& run);

  const inspect::PrefixTree& tree_;
  const std::span<const store::FoundSegment> files_;
  std::vector<std::size_t> parents_;
  std::vector<Position> places_;  // where a file is needed first: a segment's begin in the tree, a leaf's end
};

}  // namespace kvkeep::carry
