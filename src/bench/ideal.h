#pragma once

// What a perfect cache would have had to compute for requests whose prompts only the server knows.
//
// The share of a conversation that was never decoded is taken from its canonical text (canonical.h), which has no
// template around it, and scaled to the prompt that the server counted:
//   ideal = round(prompt tokens * new tokens of the canonical text / all of them)

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "bench/prefixes.h"

namespace kvkeep::bench {

using Tokenize = std::function<std::vector<TokenId>(std::string_view text)>;

// Four bytes a token, where the server tells nothing of its own.
std::vector<TokenId> pseudo_tokens(std::string_view text);

// Not thread safe.
class IdealCounter {
 public:
  // The ideal of a request with that canonical text; all of it counts as decoded from now on.
  std::uint64_t take_prompt(std::string_view text, std::uint64_t prompt_tokens, const Tokenize& tokenize);
  // What else was decoded: a conversation with the reply that was generated for it.
  void take_decoded(std::string_view text, const Tokenize& tokenize);

 private:
  DecodedPrefixes decoded_;
};

}  // namespace kvkeep::bench
