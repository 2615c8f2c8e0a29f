#pragma once

// The next token of a request: sampled, and scored if its job wants to know how likely the model found it, and which
// others it found likelier or nearly as likely.
//
// The logarithm of a probability is that of the softmax: logit(i) - log(sum over j of exp(logit(j))). The largest logit
// is subtracted before exp(), which leaves the result as it is and keeps every term at 1 or less.

#include <cstddef>
#include <span>
#include <vector>

#include "base/types.h"

namespace kvkeep::engine {
class Engine;
struct Candidate;
}  // namespace kvkeep::engine

namespace kvkeep::server {

struct Request;

struct ScoredToken {
  TokenId id = 0;
  float logprob = 0;  // natural logarithm of its probability
  bool operator==(const ScoredToken&) const = default;
};

// Probabilities are those of the model itself: before penalties, biases, a grammar and the temperature. (drawn_scores()
// has others.)
struct TokenScores {
  ScoredToken chosen;
  std::vector<ScoredToken> likeliest = {};  // the likeliest first; of equals the lowest id
};

// Scores `chosen` and the `count` likeliest tokens, or all if there are fewer. `logits`: one per id of the vocabulary,
// as the model gave them; -infinity for a token that cannot come. Pure. Cost: O(logits).
// Precondition: `chosen` is an id of the vocabulary.
TokenScores score_token(std::span<const float> logits, TokenId chosen, std::size_t count);

// The same for the probabilities with which the token was drawn: after penalties, biases, cuts and the temperature.
// `candidates`: the likeliest first; a chosen token that is not among them was certain. Pure.
TokenScores drawn_scores(std::span<const engine::Candidate> candidates, TokenId chosen, std::size_t count);

// Tells the request's sink the scores of the prompt's tokens that follow those of the last batch, which were `decoded`,
// if its job wants them. On the engine thread.
void score_prompt(Request& request, engine::Engine& engine, TokenRange decoded);

// Samples after entry `index` of the last batch, and tells the request's sink the scores if its job wants them. On the
// engine thread.
TokenId sample_next(Request& request, engine::Engine& engine, std::size_t index);

}  // namespace kvkeep::server
