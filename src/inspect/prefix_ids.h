#pragma once

// Short names of prefixes for people, like git's: the beginning of h(end) in hexadecimal, as long as it takes to tell
// all of them apart. Pure.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"

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

  // kInvalid: not hexadecimal, too short, or ambiguous, with the candidates. kNotFound: there is none.
  Result<IdTarget> find(std::string_view typed) const;

 private:
  struct Entry {
    std::string hex;
    IdTarget target;
  };
  std::vector<Entry> entries_;
  std::size_t shown_length_ = kShortestShownId;
};

}  // namespace kvkeep::inspect
