#include "server/run/token_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/assert.h"
#include "engine/engine.h"
#include "server/run/request.h"

namespace kvkeep::server {

TokenScores score_token(std::span<const float> logits, TokenId chosen, std::size_t count) {
  KVKEEP_ASSERT(chosen >= 0 && static_cast<std::size_t>(chosen) < logits.size(), "the token is of the vocabulary");
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double norm = largest + std::log(sum);
  const auto scored = [&](TokenId id) {
    return ScoredToken{id, static_cast<float>(logits[static_cast<std::size_t>(id)] - norm)};
  };
  TokenScores scores{.chosen = scored(chosen), .likeliest = {}};
  if (count == 0) return scores;
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), TokenId{0});
  const auto wanted = static_cast<std::ptrdiff_t>(std::min(count, ids.size()));
  const auto likelier = [&](TokenId a, TokenId b) {
    const float first = logits[static_cast<std::size_t>(a)];
    const float second = logits[static_cast<std::size_t>(b)];
    return first != second ? first > second : a < b;
  };
  std::ranges::partial_sort(ids, ids.begin() + wanted, likelier);
  for (auto id = ids.begin(); id != ids.begin() + wanted; ++id) scores.likeliest.push_back(scored(*id));
  return scores;
}

TokenId sample_next(Request& request, engine::Engine& engine, std::size_t index) {
  const TokenId token = engine.sample(*request.sampler, index);
  const std::optional<std::size_t> count = request.job.scored_tokens;
  if (count && !request.sampler->failure()) {
    request.sink->on_scores(score_token(engine.logits(index), token, *count));
  }
  return token;
}

}  // namespace kvkeep::server
