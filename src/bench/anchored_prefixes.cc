#include "bench/anchored_prefixes.h"

#include "bench/prefixes.h"

namespace kvkeep::bench {

AnchoredPrefixes::Known AnchoredPrefixes::find(TokenSpan ids) const {
  Known known;
  std::uint64_t prefix = kEmptyPrefix;
  for (const TokenId id : ids) {
    const auto found = seen_.find(prefix = extended_prefix(prefix, id));
    if (found == seen_.end()) break;
    ++known.length;
    if (!found->second) continue;
    known.anchor_length = known.length;
    known.anchor_tokens = *found->second;
  }
  return known;
}

void AnchoredPrefixes::add(TokenSpan ids, std::optional<std::uint64_t> server_tokens) {
  std::uint64_t prefix = kEmptyPrefix;
  for (const TokenId id : ids) seen_.try_emplace(prefix = extended_prefix(prefix, id));
  if (server_tokens && !ids.empty()) seen_[prefix] = server_tokens;
}

}  // namespace kvkeep::bench
