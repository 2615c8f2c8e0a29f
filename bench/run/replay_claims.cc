#include "bench/run/replay_claims.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvkeep::bench {
namespace {

struct Claims {
  std::uint64_t ids = 0;
  std::uint64_t fed_back = 0;  // of the decoded ids
  bool any_silent = false;     // a reply has no claim about computed tokens
  bool any_broken = false;     // the cost of a broken request is unknown
};

Claims claims_of(const std::vector<Exchange>& exchanges) {
  Claims claims;
  for (const Exchange& exchange : exchanges) {
    if (!exchange.sent || exchange.dialect == Dialect::kOther) continue;
    if (!exchange.answered()) {
      claims.any_broken = claims.any_broken || exchange.status < 400 || exchange.status >= 500;
      continue;
    }
    const ReplyFacts& facts = exchange.facts;
    const std::uint64_t fed_back = std::max<std::uint64_t>(facts.reply_tokens.value_or(0), 1) - 1;
    claims.any_silent = claims.any_silent || !facts.prefilled_tokens || !facts.reply_tokens;
    claims.fed_back += fed_back;
    claims.ids += facts.prefilled_tokens.value_or(0) + fed_back;
  }
  return claims;
}

}  // namespace

ClaimsCheck check_claims(const std::vector<Exchange>& exchanges, std::uint64_t decoded) {
  using enum ClaimsCheck::Verdict;
  const Claims claims = claims_of(exchanges);
  if (decoded == 0 && (claims.ids > 0 || claims.any_silent)) {
    return {kUnknown,
            "nothing was counted at the engine (a server that links libllama statically cannot be seen): what was "
            "prefilled is the server's claim alone"};
  }
  if (claims.any_silent) {
    return {kUnknown, fmt::format("{} ids were prefilled in all, counted at the engine",
                                  decoded - std::min(decoded, claims.fed_back))};
  }
  if (decoded == claims.ids) return {kHold, ""};
  if (decoded > claims.ids && claims.any_broken) return {kUnknown, ""};
  return {kDiffer, fmt::format("the replies say that {} ids were computed (prefilled, or sampled and fed back), the "
                               "engine saw {}",
                               claims.ids, decoded)};
}

}  // namespace kvkeep::bench
