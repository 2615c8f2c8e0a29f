#pragma once

// For tests: prefixes of a list of tokens, and their names under one made-up fingerprint.

#include <cstddef>
#include <vector>

#include "base/hash.h"
#include "base/types.h"

namespace kvkeep::index {

using Tokens = std::vector<TokenId>;

inline constexpr FingerprintHash kKey{{7}};

inline Tokens first(const Tokens& tokens, std::size_t count) { return {tokens.begin(), tokens.begin() + count}; }

inline PrefixHash name(const Tokens& prefix) {
  PrefixHasher hasher(kKey);
  hasher.append(prefix);
  return hasher.current();
}

}  // namespace kvkeep::index
