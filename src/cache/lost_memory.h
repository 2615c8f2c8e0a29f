#pragma once

// Remembers when and why segments and leaves left the last tier, so that the explanation of a prompt that needs them
// can name it.
//
// A bounded memory of the newest losses, in this process only: some 200 bytes for each segment. Segments are recognised
// by the name of the prefix that they continued and by sums of their tokens, beginnings of segments to the nearest
// kCheckedTokens; leaves by their names. What is lost again takes the place of its earlier loss, so that a cache that
// is too small remembers all of its conversations, not the same few again and again.
//
// Needs the cache's lock.

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
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
  LostMemory(const LostMemory&) = delete;
  LostMemory& operator=(const LostMemory&) = delete;

  // The segment or leaf is about to leave the index.
  void note(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause, std::int64_t now_ns);

  // Rows of the prompt from `known` on, up to the last ones that were lost: a lost segment that continued this prefix
  // proves that all before it was computed once, though it may have been another prompt's segment. `key`: of the
  // tenant's hashes. Cost: a look at each loss, one hash and one sum of the prompt if any may be its own
  // (server/run/break_bench.cc).
  std::optional<explain::LostState> find_rows(TokenSpan prompt, Position known, const FingerprintHash& key) const;
  // The deepest lost leaf of the prompt within (within.begin, within.end].
  std::optional<explain::LostState> find_leaf(TokenSpan prompt, TokenRange within, const FingerprintHash& key) const;

  std::size_t rows() const { return rows_.size(); }
  std::size_t leaves() const { return leaves_.size(); }

 private:
  using Slot = std::uint32_t;
  // Of each slot what every search looks at, apart from the rest: 16,384 of them fit into a processor's cache.
  struct Head {
    Position begin;
    TokenId first = 0;
    bool continues = false;  // another loss: a search that follows that one comes to it
  };
  struct Rows {
    TokenRange range;
    std::uint32_t head = 0;   // the sum of its first tokens, kHeadTokens or all
    std::uint32_t whole = 0;  // the sum of all
    explain::LossCause cause;
    std::int64_t when_ns = 0;
    PrefixHash begin_hash;
    PrefixHash end_hash;
    std::vector<std::uint32_t> checks;  // sums up to each multiple of kCheckedTokens
    std::list<Slot>::iterator age;
  };
  struct Leaf {
    Position at;
    TokenId last = 0;  // the token before it
    PrefixHash end_hash;
    explain::LossCause cause;
    std::int64_t when_ns = 0;
  };
  // Where losses of a prompt may begin, with its hash up to there if that is known without computing it.
  using Begins = std::map<Position, std::optional<PrefixHash>>;

  void note_rows(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause, std::int64_t now_ns);
  Rows* find(const PrefixHash& begin_hash, const PrefixHash& end_hash);
  Slot free_slot();
  void join(Slot slot);
  void leave(Slot slot);
  // Those that begin with this hash continue another loss, or none.
  void mark(const PrefixHash& begin_hash, bool continues);
  Begins begins_of(TokenSpan prompt) const;

  const std::size_t most_rows_;
  const std::size_t most_leaves_;
  std::vector<Rows> rows_;  // by slot
  std::vector<Head> heads_;
  std::list<Slot> ages_;  // the oldest loss first
  std::unordered_map<PrefixHash, std::vector<Slot>> by_begin_;
  std::unordered_multiset<PrefixHash> ends_;
  std::list<Leaf> leaves_;  // the oldest loss first
  std::unordered_map<PrefixHash, std::list<Leaf>::iterator> leaf_at_;
};

}  // namespace kvkeep::cache
