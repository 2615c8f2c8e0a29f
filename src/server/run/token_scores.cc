#include "server/run/token_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

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
  scores.likeliest.reserve(static_cast<std::size_t>(wanted));
  for (auto id = ids.begin(); id != ids.begin() + wanted; ++id) scores.likeliest.push_back(scored(*id));
  return scores;
}

void score_prompt(Request& request, engine::Engine& engine, TokenRange decoded) {
  if (!request.wants_scores()) return;
  const TokenSpan tokens = request.effective.tokens;
  std::vector<TokenScores> scores;
  const auto add = [&](TokenScores&& one) {
    scores.push_back(std::move(one));
    ++request.scored_tokens;
  };
  if (request.scored_tokens == 0)
    add({.chosen = {tokens.front(), std::numeric_limits<float>::quiet_NaN()}, .likeliest = {}});
  for (std::size_t at = decoded.begin.value(); at < decoded.end.value() && request.wants_scores(); ++at) {
    if (at + 1 != request.scored_tokens) continue;  // told before the request gave its cells back
    add(score_token(engine.logits(at - decoded.begin.value()), tokens[at + 1], *request.job.scored_prompt));
  }
  request.sink->on_prompt_scores(std::move(scores));
}

TokenScores drawn_scores(std::span<const engine::Candidate> candidates, TokenId chosen, std::size_t count) {
  const auto scored = [](const engine::Candidate& one) { return ScoredToken{one.id, std::log(one.probability)}; };
  TokenScores scores{.chosen = {chosen, 0}};
  scores.likeliest.reserve(std::min(count, candidates.size()));
  for (const engine::Candidate& one : candidates) {
    if (one.id == chosen) scores.chosen = scored(one);
    if (scores.likeliest.size() < count) scores.likeliest.push_back(scored(one));
  }
  return scores;
}

TokenId sample_next(Request& request, engine::Engine& engine, std::size_t index) {
  const TokenId token = engine.sample(*request.sampler, index);
  const std::optional<std::size_t> count = request.job.scored_tokens;
  if (!count || request.sampler->failure()) return token;
  const bool drawn = request.job.sampling.keeps_candidates;
  request.sink->on_scores(drawn ? drawn_scores(request.sampler->candidates(), token, *count)
                                : score_token(engine.logits(index), token, *count));
  return token;
}

}  // namespace kvkeep::server
