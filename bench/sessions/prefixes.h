#pragma once

// Which prefixes were decoded so far: the measure for a perfect cache.
//
// A prefix is represented only by a 64-bit hash. With 10^7 different prefixes, looked up 10^7 times, the probability of
// a single wrong answer is 10^14 / 2^64, five in a million, and it would change one count by one prompt at most.
// Memory: about 40 bytes for each different prefix (a node of the hash set and its bucket).

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/types.h"

namespace kvkeep::bench {

// The hash of no ids, and of a prefix that is one id longer.
inline constexpr std::uint64_t kEmptyPrefix = 0x6b76'6b65'6570'0001;
std::uint64_t extended_prefix(std::uint64_t prefix, TokenId id);

// Not thread safe.
class DecodedPrefixes {
 public:
  // Counts the positions of `prompt` whose prefix (all ids up to and including it) was never added.
  std::size_t never_decoded(TokenSpan prompt) const;
  // All prefixes of `ids` count as decoded from now on. Returns how many are new.
  std::size_t add(TokenSpan ids);

 private:
  // With a prefix it has all shorter ones: the first missing one ends every search.
  std::unordered_set<std::uint64_t> seen_;
};

// Not thread safe.
class AnchoredPrefixes {
 public:
  // The longest prefix of `ids` that was added, and its longest anchor: a prefix whose tokens on the server are known.
  struct Known {
    std::size_t length = 0;
    std::size_t anchor_length = 0;
    std::uint64_t anchor_tokens = 0;
  };
  Known find(TokenSpan ids) const;
  // All prefixes of `ids` count as decoded from now on; `ids` itself is an anchor if the server's count is given.
  void add(TokenSpan ids, std::optional<std::uint64_t> server_tokens);

 private:
  std::unordered_map<std::uint64_t, std::optional<std::uint64_t>> seen_;  // hash of a prefix, its tokens
};

}  // namespace kvkeep::bench
