#pragma once

// Scores of replies, for tests of their writers.

#include <utility>
#include <vector>

#include "server/api/reply.h"

namespace kvkeep::server::api {

inline ScoreList score_list(std::vector<TokenScore> scores) {
  const std::size_t size = scores.size();
  return {size, [scores = std::move(scores)](std::size_t number) { return scores.at(number); }};
}

}  // namespace kvkeep::server::api
