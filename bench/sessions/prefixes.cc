#include "bench/sessions/prefixes.h"

namespace kvkeep::bench {

// Splitmix64's step and finaliser. For one id it is a bijection of the previous hash, so that different prefixes never
// become equal by the same continuation.
std::uint64_t extended_prefix(std::uint64_t prefix, TokenId id) {
  std::uint64_t mixed = prefix + 0x9e37'79b9'7f4a'7c15 + static_cast<std::uint32_t>(id);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58'476d'1ce4'e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d0'49bb'1331'11eb;
  return mixed ^ (mixed >> 31);
}

std::size_t DecodedPrefixes::never_decoded(TokenSpan prompt) const {
  std::uint64_t prefix = kEmptyPrefix;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    prefix = extended_prefix(prefix, prompt[i]);
    if (!seen_.contains(prefix)) return prompt.size() - i;
  }
  return 0;
}

std::size_t DecodedPrefixes::add(TokenSpan ids) {
  const std::size_t before = seen_.size();
  std::uint64_t prefix = kEmptyPrefix;
  for (const TokenId id : ids) seen_.insert(prefix = extended_prefix(prefix, id));
  return seen_.size() - before;
}

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
