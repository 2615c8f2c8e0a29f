#pragma once

// What a perfect cache would have had to compute for requests whose prompts only the server knows.
//
// The share of a conversation that was never decoded is taken from its canonical text (canonical.h), which has no
// template around it, and scaled to the prompt that the server counted:
//   ideal = round(prompt tokens * new tokens of the canonical text / all of them)
// With tools in front of the system text or behind it, whichever leaves less that is new: a template may have either,
// and a server must not look better than perfect because of it.

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "bench/dialect.h"
#include "bench/prefixes.h"

namespace kvkeep::bench {

using Tokenize = std::function<std::vector<TokenId>(std::string_view text)>;

// Four bytes a token, where the server tells nothing of its own.
std::vector<TokenId> pseudo_tokens(std::string_view text);

// A conversation's canonical text in each CanonicalOrder.
using CanonicalTexts = std::array<std::string, 2>;
CanonicalTexts canonical_texts(Dialect dialect, const nlohmann::ordered_json& body);

// Not thread safe.
class IdealCounter {
 public:
  // The ideal of a request with that canonical text; all of it counts as decoded from now on.
  std::uint64_t take_prompt(const CanonicalTexts& texts, std::uint64_t prompt_tokens, const Tokenize& tokenize);
  // What else was decoded: a conversation with the reply that was generated for it.
  void take_decoded(const CanonicalTexts& texts, const Tokenize& tokenize);

 private:
  std::array<DecodedPrefixes, 2> decoded_;  // one per order: a text of one is no prefix in the other
};

}  // namespace kvkeep::bench
