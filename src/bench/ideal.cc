#include "bench/ideal.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvkeep::bench {

std::vector<TokenId> pseudo_tokens(std::string_view text) {
  std::vector<TokenId> tokens;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), sizeof(TokenId)))) {
    TokenId id = 0;
    std::memcpy(&id, text.data(), std::min(text.size(), sizeof id));
    tokens.push_back(id);
  }
  return tokens;
}

std::uint64_t IdealCounter::take_prompt(std::string_view text, std::uint64_t prompt_tokens, const Tokenize& tokenize) {
  const std::vector<TokenId> tokens = tokenize(text);
  if (tokens.empty()) return 0;
  const auto new_tokens = static_cast<double>(decoded_.add(tokens));
  const double share = new_tokens / static_cast<double>(tokens.size());
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(prompt_tokens) * share));
}

void IdealCounter::take_decoded(std::string_view text, const Tokenize& tokenize) { decoded_.add(tokenize(text)); }

}  // namespace kvkeep::bench
