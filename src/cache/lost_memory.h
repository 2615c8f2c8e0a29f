#pragma once

// Remembers when and why segments and leaves left the last tier, so that the explanation of a prompt that needs them
// can name it.
//
// A bounded memory of the newest losses, in this process only: some 100 bytes for each segment. Segments are recognised
// by the name of the prefix that they continued and by sums of their tokens, beginnings of segments to the nearest
// kCheckedTokens; leaves by their names.
//
// Needs the cache's lock.

#include <cstdint>
#include <deque>
#include <optional>
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

  // Rows of the prompt from `known` on, up to the last ones that were lost: a lost segment that continued this prefix
  // proves that all before it was computed once, though it may have been another prompt's segment. `key`: of the
  // tenant's hashes. Cost: a look at each loss, and one hash of the prompt if any may be its own.
  std::optional<explain::LostState> find_rows(TokenSpan prompt, Position known, const FingerprintHash& key) const;
  // The deepest lost leaf of the prompt within (within.begin, within.end].
  std::optional<explain::LostState> find_leaf(TokenSpan prompt, TokenRange within, const FingerprintHash& key) const;

  std::size_t rows() const { return rows_.size(); }
  std::size_t leaves() const { return leaves_.size(); }

 private:
  struct Rows {
    TokenRange range;
    TokenId first = 0;
    std::uint32_t head = 0;   // the sum of its first tokens, kHeadTokens or all
    std::uint32_t whole = 0;  // the sum of all
    explain::LossCause cause;
    std::int64_t when_ns = 0;
    PrefixHash begin_hash;
    std::vector<std::uint32_t> checks;  // sums up to each multiple of kCheckedTokens
  };
  struct Leaf {
    Position at;
    TokenId last = 0;  // the token before it
    PrefixHash end_hash;
    explain::LossCause cause;
    std::int64_t when_ns = 0;
  };
  // A part of a prompt that such rows held.
  struct Held {
    const Rows* rows;
    Position end;
  };

  void note_rows(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause, std::int64_t now_ns);
  std::vector<Held> held_of(TokenSpan prompt, Position known) const;

  const std::size_t most_rows_;
  const std::size_t most_leaves_;
  std::deque<Rows> rows_;  // the oldest loss first
  std::deque<Leaf> leaves_;
};

}  // namespace kvkeep::cache
