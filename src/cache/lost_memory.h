#pragma once

// Remembers when and why segments and leaves left the last tier, so that a prompt that needs them can be told.
//
// A bounded memory of the newest losses, in this process only: some 100 bytes for each segment. A prompt finds the rows
// that it lost by the place where its known part ends; names of prefixes make sure that they were its own. Whole
// segments are recognised by their names, and beginnings of segments to the nearest kCheckedTokens.
//
// Needs the cache's lock.

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "explain/loss.h"
#include "index/prefix_index.h"

namespace kvkeep::cache {

class LostMemory {
 public:
  static constexpr std::size_t kMostRows = 1 << 14;
  static constexpr std::size_t kMostLeaves = 1 << 12;
  static constexpr std::size_t kCheckedTokens = 128;

  explicit LostMemory(std::size_t most_rows = kMostRows, std::size_t most_leaves = kMostLeaves)
      : most_rows_(most_rows), most_leaves_(most_leaves) {}

  // The segment or leaf is about to leave the index.
  void note(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause, std::int64_t now_ns);

  // Rows of the prompt from `known` on, as far as they were lost one after the other. `key`: of the tenant's hashes.
  std::optional<explain::LostState> find_rows(TokenSpan prompt, Position known, const FingerprintHash& key) const;
  // The deepest lost leaf of the prompt within (within.begin, within.end].
  std::optional<explain::LostState> find_leaf(TokenSpan prompt, TokenRange within, const FingerprintHash& key) const;

  std::size_t rows() const { return rows_.size(); }
  std::size_t leaves() const { return leaves_.size(); }

 private:
  struct Rows {
    TokenRange range;
    PrefixHash begin_hash;
    PrefixHash end_hash;
    std::vector<std::uint32_t> checks;  // of its tokens up to each multiple of kCheckedTokens
    std::uint64_t number = 0;           // by loss
    explain::LossCause cause;
    std::int64_t when_ns = 0;
  };
  struct Leaf {
    Position at;
    TokenId last = 0;  // the token before it
    PrefixHash end_hash;
    explain::LossCause cause;
    std::int64_t when_ns = 0;
  };

  void note_rows(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause, std::int64_t now_ns);
  const Rows* newest(Position at, TokenId first, const PrefixHash& begin_hash) const;

  const std::size_t most_rows_;
  const std::size_t most_leaves_;
  std::uint64_t losses_ = 0;
  // By where they begin and their first token.
  std::unordered_multimap<std::uint64_t, Rows> rows_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> oldest_rows_;  // key and number, in order of loss
  std::deque<Leaf> leaves_;
};

}  // namespace kvkeep::cache
