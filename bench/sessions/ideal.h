#pragma once

// How much a perfect cache would have had to compute: which prefixes were decoded so far, and the ideal of requests
// whose prompts only the server knows.

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/types.h"
#include "bench/sessions/dialect.h"

namespace kvkeep::bench {

// A prefix is represented only by a 64-bit hash. With 10^7 different prefixes, looked up 10^7 times, the probability of
// a single wrong answer is 10^14 / 2^64, five in a million, and it would change one count by one prompt at most.
// Memory: about 40 bytes for each different prefix (a node of the hash set and its bucket).
//
// The hash of no ids, and of a prefix that is one id longer.
inline constexpr std::uint64_t kEmptyPrefix = 0x6b76'6b65'6570'0001;
std::uint64_t extended_prefix(std::uint64_t prefix, TokenId id);

// Not thread safe.
class DecodedPrefixes {
 public:
  // Counts the positions of `prompt` whose prefix (all ids up to and including it) was never added.
  std::size_t never_decoded(TokenSpan prompt) const;
  // All prefixes of `ids` count as decoded from now on. Returns how many are new.
  std::size_t add(TokenSpan ids);

 private:
  // With a prefix it has all shorter ones: the first missing one ends every search.
  std::unordered_set<std::uint64_t> seen_;
};

// Not thread safe.
class AnchoredPrefixes {
 public:
  // The longest prefix of `ids` that was added, and its longest anchor: a prefix whose tokens on the server are known.
  struct Known {
    std::size_t length = 0;
    std::size_t anchor_length = 0;
    std::uint64_t anchor_tokens = 0;
  };
  Known find(TokenSpan ids) const;
  // All prefixes of `ids` count as decoded from now on; `ids` itself is an anchor if the server's count is given.
  void add(TokenSpan ids, std::optional<std::uint64_t> server_tokens);

 private:
  std::unordered_map<std::uint64_t, std::optional<std::uint64_t>> seen_;  // hash of a prefix, its tokens
};

// ---- requests whose prompts only the server knows ----
//
// The canonical text of a conversation (canonical.h), which has no template around it, shows which part was never
// decoded. The server's counts for earlier prompts and replies are anchors: positions in the text whose tokens are
// known. A conversation that continues begins at an anchor, and all after it is new, to the token. One that leaves the
// known text between anchors is interpolated:
// ideal = (prompt tokens - tokens of the last anchor) * new canonical tokens / canonical tokens after the anchor
// With tools before the system text or after it, and with earlier reasoning or without: whichever leaves fewer new
// tokens. A template may do either, and a server must not look better than perfect because of it.

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
