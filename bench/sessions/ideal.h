#pragma once

// What a perfect cache would have had to compute for requests whose prompts only the server knows.
//
// What of a conversation was never decoded is told by its canonical text (canonical.h), which has no template around
// it. What the server counted for earlier prompts and replies are anchors: places in the text whose tokens are known. A
// conversation that goes on begins at an anchor, and all behind it is new, to the token. One that leaves the known text
// between anchors is interpolated:
//   ideal = (prompt tokens - tokens of the last anchor) * new canonical tokens / canonical tokens behind the anchor
// With tools in front of the system text or behind it, and with earlier reasoning or without: whichever leaves less
// that is new. A template may do either, and a server must not look better than perfect because of it.

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "bench/sessions/dialect.h"
#include "bench/sessions/prefixes.h"

namespace kvkeep::bench {

// Of a piece of text, whatever stands around it.
using Tokenize = std::function<std::vector<TokenId>(std::string_view piece)>;

// Four bytes a token, where the server tells nothing of its own.
std::vector<TokenId> pseudo_tokens(std::string_view text);

// A conversation's canonical text in each CanonicalOrder.
using CanonicalTexts = std::array<std::string, 2>;
CanonicalTexts canonical_texts(Dialect dialect, const nlohmann::ordered_json& body);
// The same up to the reply's first word. Empty where there is no conversation.
CanonicalTexts canonical_prompts(Dialect dialect, const nlohmann::ordered_json& body);

struct IdealEstimate {
  std::uint64_t tokens = 0;
  // By how much it may be off either way: a bound as good as the density difference below. 0: exact.
  std::uint64_t uncertainty = 0;
  // Tokens from the first turn with reasoning on, at most: a template may write such turns anew, without it, and then
  // all behind them is new although no client changed a word.
  std::uint64_t rewritable = 0;
};

// Not thread safe.
class IdealCounter {
 public:
  // `density_difference`: how much more prompt tokens a token of some text may stand for than one of another. A
  // quarter, where they are of the same vocabulary.
  explicit IdealCounter(double density_difference = 0.25) : density_difference_(density_difference) {}

  // The ideal of a request with that canonical text; all of it counts as decoded from now on. `prompt_tokens`: as the
  // server counted; 0: it does not say, and the ideal is 0.
  IdealEstimate take_prompt(const CanonicalTexts& prompts, std::uint64_t prompt_tokens, const Tokenize& tokenize);
  // What else was decoded: a conversation with the reply that was generated for it, `decoded_tokens` in all; 0:
  // unknown.
  void take_decoded(const CanonicalTexts& texts, std::uint64_t decoded_tokens, const Tokenize& tokenize);

 private:
  using Orders = std::array<AnchoredPrefixes, 2>;  // a text of one order is no prefix in the other

  IdealEstimate take(Orders& decoded, const CanonicalTexts& prompts, std::uint64_t prompt_tokens,
                     const Tokenize& tokenize) const;
  IdealEstimate estimate(const AnchoredPrefixes::Known& known, std::size_t all, std::uint64_t prompt_tokens) const;
  std::uint64_t rewritable(std::string_view prompt, std::uint64_t prompt_tokens, const Tokenize& tokenize) const;

  const double density_difference_;
  Orders with_reasoning_;
  Orders without_reasoning_;
};

}  // namespace kvkeep::bench
