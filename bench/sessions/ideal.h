#pragma once

// How much a perfect cache would have had to compute for requests whose prompts only the server knows.
//
// The canonical text of a conversation (canonical.h), which has no template around it, shows which part was never
// decoded. The server's counts for earlier prompts and replies are anchors: positions in the text whose tokens are
// known. A conversation that continues begins at an anchor, and all after it is new, to the token. One that leaves the
// known text between anchors is interpolated:
// ideal = (prompt tokens - tokens of the last anchor) * new canonical tokens / canonical tokens after the anchor
// With tools before the system text or after it, and with earlier reasoning or without: whichever leaves fewer new
// tokens. A template may do either, and a server must not look better than perfect because of it.

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

// Tokenizes a piece of text by itself.
using Tokenize = std::function<std::vector<TokenId>(std::string_view piece)>;

// Four bytes per token, if the server tokenizes nothing.
std::vector<TokenId> pseudo_tokens(std::string_view text);

// A conversation's canonical text in each CanonicalOrder.
using CanonicalTexts = std::array<std::string, 2>;
CanonicalTexts canonical_texts(Dialect dialect, const nlohmann::ordered_json& body);
// The same up to the reply's first word. Empty if there is no conversation.
CanonicalTexts canonical_prompts(Dialect dialect, const nlohmann::ordered_json& body);

struct IdealEstimate {
  std::uint64_t tokens = 0;
  // How far it may be off in either direction: a bound as good as the density difference below. 0: exact.
  std::uint64_t uncertainty = 0;
  // The most tokens from the first turn with reasoning on: a template may write such turns anew, without it, and then
  // all tokens after them are new although no client changed a word.
  std::uint64_t rewritable = 0;
};

// Not thread safe.
class IdealCounter {
 public:
  // `density_difference`: how much the number of prompt tokens per token may differ between texts. A quarter, if both
  // are tokens of the same vocabulary.
  explicit IdealCounter(double density_difference = 0.25) : density_difference_(density_difference) {}

  // Returns the ideal of a request with that canonical text, all of which counts as decoded from now on.
  // `prompt_tokens` is the server's count; 0: unknown, and the ideal is 0.
  IdealEstimate take_prompt(const CanonicalTexts& prompts, std::uint64_t prompt_tokens, const Tokenize& tokenize);
  // Takes what else was decoded: a conversation with the reply generated for it, `decoded_tokens` in all; 0: unknown.
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
