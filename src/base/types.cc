#include "base/types.h"

#include <algorithm>
#include <cstring>

namespace kvkeep {

std::size_t common_prefix(TokenSpan a, TokenSpan b) {
  const std::size_t limit = std::min(a.size(), b.size());
  // Whole blocks by memcmp (vectorised) and then the block that differs token by token: a 100k-token prompt is
  // compared with every resident sequence on each request.
  constexpr std::size_t kBlock = 256;
  std::size_t at = 0;
  while (at + kBlock <= limit && std::memcmp(a.data() + at, b.data() + at, kBlock * sizeof(TokenId)) == 0) at += kBlock;
  while (at < limit && a[at] == b[at]) ++at;
  return at;
}

}  // namespace kvkeep
