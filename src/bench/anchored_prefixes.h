#pragma once

// Decoded prefixes of canonical text (prefixes.h), some of them with what a server counted for them.

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/types.h"

namespace kvkeep::bench {

// Not thread safe.
class AnchoredPrefixes {
 public:
  // The longest prefix of `ids` that was added, and the longest anchor in it: one whose tokens on the server are known.
  struct Known {
    std::size_t length = 0;
    std::size_t anchor_length = 0;
    std::uint64_t anchor_tokens = 0;
  };
  Known find(TokenSpan ids) const;
  // All prefixes of `ids` count as decoded from now on; all of it is an anchor where the server's count is given.
  void add(TokenSpan ids, std::optional<std::uint64_t> server_tokens);

 private:
  std::unordered_map<std::uint64_t, std::optional<std::uint64_t>> seen_;  // hash of a prefix, its tokens
};

}  // namespace kvkeep::bench
