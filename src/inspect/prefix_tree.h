#pragma once

// The tree of one fingerprint's files, and the short names of its prefixes. Pure.

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"
#include "store/directory_scan.h"

namespace kvkeep::inspect {

inline constexpr std::size_t kShortestShownId = 8;
inline constexpr std::size_t kShortestTypedId = 4;

// The run that a name stands for.
struct IdTarget {
  std::size_t model = 0;
  std::size_t run = 0;
  bool operator==(const IdTarget&) const = default;
};
// The runs among `targets` that are of one model.
std::vector<std::size_t> runs_of_model(const std::vector<IdTarget>& targets, std::size_t model);

// Short names of prefixes for people, like git's: the beginning of h(end) in hexadecimal, as long as it takes to tell
// all of them apart.
class PrefixIds {
 public:
  // Every end of a segment of rows is a name of the run in which it lies, so that a name stays valid when the run has
  // grown meanwhile. Two equal hashes (they are keyed by the fingerprint) do not happen.
  void add(const PrefixHash& end_hash, IdTarget target) { entries_.push_back({end_hash.hex(), target}); }
  // Call it once, after the last add().
  void sort();

  // At least kShortestShownId digits, as many as make all names different.
  std::size_t shown_length() const { return shown_length_; }
  std::string shown(const PrefixHash& end_hash) const { return end_hash.hex().substr(0, shown_length_); }

  // Fails with kInvalid if the id is not hexadecimal, too short, or ambiguous (the message has the candidates); with
  // kNotFound if there is no such run.
  Result<IdTarget> find(std::string_view typed) const;

 private:
  struct Entry {
    std::string hex;
    IdTarget target;
  };
  std::vector<Entry> entries_;
  std::size_t shown_length_ = kShortestShownId;
};

inline constexpr std::size_t kNone = SIZE_MAX;

// A run is shared by all prompts below it: segments that follow each other without a branch, and the points and windows
// that hang in them. It ends where prompts part, or where none continues.
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
  // Files that hang in no run: the files that they continue are missing; their tokens have another hash than their
  // name; other files hold the same.
  std::vector<std::size_t> orphans;
  std::vector<std::size_t> misnamed;
  std::vector<std::size_t> redundant;
};

// In ascending order of this, files come after those that they continue, hang in and are built on: rows begin within
// them, and a leaf ends within the rows in which it hangs. `file` makes the order total.
std::tuple<Position, std::size_t> order_of(const format::SegmentHeader& header, std::size_t file);

// Cost: O(all tokens) hashing.
PrefixTree build_tree(const FingerprintHash& fingerprint, std::span<const store::FoundSegment> files);

// The ids of [0, end) of a run, from the files of its path.
std::vector<TokenId> path_tokens(const PrefixTree& tree, std::span<const store::FoundSegment> files, std::size_t run);
// The ids of the run itself, from where a branch differs from its siblings.
std::vector<TokenId> own_tokens(const PrefixTree& tree, std::span<const store::FoundSegment> files, std::size_t run);
// The run and all below it, children before parents.
std::vector<std::size_t> subtree(const PrefixTree& tree, std::size_t run);

// Runs that were named, with all runs below them.
struct NamedRuns {
  std::set<std::size_t> asked;  // the named ones, and those that continue them
  // Runs that leave a named one before its end, and those below: other conversations, whose beginnings lie in the named
  // run's files. Files cannot be split here, because only the engine knows how the bytes of rows lie.
  std::set<std::size_t> others;
};
NamedRuns named_runs(const PrefixTree& tree, const std::vector<std::size_t>& named);
// Returns how many conversations the runs hold: those that no other run continues.
std::size_t count_conversations(const PrefixTree& tree, const std::set<std::size_t>& runs);

}  // namespace kvkeep::inspect
