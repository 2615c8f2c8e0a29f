#include "bench/ideal.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/canonical.h"

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

CanonicalTexts canonical_texts(Dialect dialect, const nlohmann::ordered_json& body) {
  return {canonical_text(dialect, body, CanonicalOrder::kToolsFirst),
          canonical_text(dialect, body, CanonicalOrder::kSystemFirst)};
}

std::uint64_t IdealCounter::take_prompt(const CanonicalTexts& texts, std::uint64_t prompt_tokens,
                                        const Tokenize& tokenize) {
  double share = 1;
  for (std::size_t order = 0; order < texts.size(); ++order) {
    const std::vector<TokenId> tokens = tokenize(texts[order]);
    if (tokens.empty()) return 0;
    const auto new_tokens = static_cast<double>(decoded_[order].add(tokens));
    share = std::min(share, new_tokens / static_cast<double>(tokens.size()));
  }
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(prompt_tokens) * share));
}

void IdealCounter::take_decoded(const CanonicalTexts& texts, const Tokenize& tokenize) {
  for (std::size_t order = 0; order < texts.size(); ++order) decoded_[order].add(tokenize(texts[order]));
}

}  // namespace kvkeep::bench
