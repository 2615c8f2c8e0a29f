#include "bench/sessions/ideal.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "bench/sessions/canonical.h"

namespace kvkeep::bench {

// Splitmix64's step and finaliser. For one id it is a bijection of the previous hash, so that different prefixes never
// become equal by the same continuation.
std::uint64_t extended_prefix(std::uint64_t prefix, TokenId id) {
  std::uint64_t mixed = prefix + 0x9e37'79b9'7f4a'7c15 + static_cast<std::uint32_t>(id);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58'476d'1ce4'e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d0'49bb'1331'11eb;
  return mixed ^ (mixed >> 31);
}

std::size_t DecodedPrefixes::never_decoded(TokenSpan prompt) const {
  std::uint64_t prefix = kEmptyPrefix;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    prefix = extended_prefix(prefix, prompt[i]);
    if (!seen_.contains(prefix)) return prompt.size() - i;
  }
  return 0;
}

std::size_t DecodedPrefixes::add(TokenSpan ids) {
  const std::size_t before = seen_.size();
  std::uint64_t prefix = kEmptyPrefix;
  for (const TokenId id : ids) seen_.insert(prefix = extended_prefix(prefix, id));
  return seen_.size() - before;
}

AnchoredPrefixes::Known AnchoredPrefixes::find(TokenSpan ids) const {
  Known known;
  std::uint64_t prefix = kEmptyPrefix;
  for (const TokenId id : ids) {
    const auto found = seen_.find(prefix = extended_prefix(prefix, id));
    if (found == seen_.end()) break;
    ++known.length;
    if (!found->second) continue;
    known.anchor_length = known.length;
    known.anchor_tokens = *found->second;
  }
  return known;
}

void AnchoredPrefixes::add(TokenSpan ids, std::optional<std::uint64_t> server_tokens) {
  std::uint64_t prefix = kEmptyPrefix;
  for (const TokenId id : ids) seen_.try_emplace(prefix = extended_prefix(prefix, id));
  if (server_tokens && !ids.empty()) seen_[prefix] = server_tokens;
}

namespace {

// Tokens that a template puts between turns, or that a tokenizer joins there.
constexpr double kBoundaryTokens = 8;

std::vector<TokenId> tokens_of(std::string_view text, const Tokenize& tokenize) {
  std::vector<TokenId> ids;
  for (const std::string_view piece : canonical_pieces(text)) {
    const std::vector<TokenId> more = tokenize(piece);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

CanonicalTexts without_reasoning(const CanonicalTexts& texts) {
  CanonicalTexts rest;
  for (std::size_t order = 0; order < texts.size(); ++order) {
    for (const std::string_view piece : canonical_pieces(texts[order])) {
      if (!piece.starts_with("%reasoning\n")) rest[order] += piece;
    }
  }
  return rest;
}

bool last_turn_reasons(std::string_view text) {
  return text.find("\n%reasoning\n", std::min(text.rfind("%message "), text.size())) != std::string_view::npos;
}

std::optional<std::uint64_t> if_known(std::uint64_t tokens) {
  return tokens == 0 ? std::nullopt : std::optional(tokens);
}

}  // namespace

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

CanonicalTexts canonical_prompts(Dialect dialect, const nlohmann::ordered_json& body) {
  CanonicalTexts prompts = canonical_texts(dialect, body);
  for (std::string& prompt : prompts) {
    if (!prompt.empty()) prompt += canonical_reply_begin(dialect);
  }
  return prompts;
}

IdealEstimate IdealCounter::estimate(const AnchoredPrefixes::Known& known, std::size_t all,
                                     std::uint64_t prompt_tokens) const {
  if (known.length == all || prompt_tokens == 0) return {};
  // The prompt is shorter than its known beginning: the template leaves out a part of earlier turns.
  if (known.anchor_tokens >= prompt_tokens) return {.tokens = 0, .uncertainty = all - known.length};
  const auto shared = static_cast<double>(known.length - known.anchor_length);
  const auto fresh = static_cast<double>(all - known.length);
  const auto behind_anchor = static_cast<double>(prompt_tokens - known.anchor_tokens);
  const double density = behind_anchor / (shared + fresh);
  // Two lengths of different densities whose sum is known: each is wrong by at most their harmonic sum.
  const double off = density_difference_ * density * shared * fresh / (shared + fresh);
  const bool is_all = known.length == 0;
  return {.tokens = static_cast<std::uint64_t>(std::llround(density * fresh)),
          .uncertainty = is_all ? 0 : static_cast<std::uint64_t>(std::llround(off + kBoundaryTokens))};
}

IdealEstimate IdealCounter::take(Orders& decoded, const CanonicalTexts& prompts, std::uint64_t prompt_tokens,
                                 const Tokenize& tokenize) const {
  IdealEstimate least{.tokens = std::numeric_limits<std::uint64_t>::max()};
  for (std::size_t order = 0; order < prompts.size(); ++order) {
    const std::vector<TokenId> ids = tokens_of(prompts[order], tokenize);
    const IdealEstimate one = estimate(decoded[order].find(ids), ids.size(), prompt_tokens);
    decoded[order].add(ids, if_known(prompt_tokens));
    if (one.tokens < least.tokens) least = one;
  }
  return least;
}

std::uint64_t IdealCounter::rewritable(std::string_view prompt, std::uint64_t prompt_tokens,
                                       const Tokenize& tokenize) const {
  double all = 0;
  double behind = 0;
  for (const std::string_view piece : canonical_pieces(prompt)) {
    const auto tokens = static_cast<double>(tokenize(piece).size());
    all += tokens;
    if (behind > 0 || piece.starts_with("%reasoning\n")) behind += tokens;
  }
  if (behind == 0) return 0;
  const double share = (1 + density_difference_) * behind / all;
  return static_cast<std::uint64_t>(std::llround(share * static_cast<double>(prompt_tokens) + kBoundaryTokens));
}

IdealEstimate IdealCounter::take_prompt(const CanonicalTexts& prompts, std::uint64_t prompt_tokens,
                                        const Tokenize& tokenize) {
  const IdealEstimate kept = take(with_reasoning_, prompts, prompt_tokens, tokenize);
  const IdealEstimate dropped = take(without_reasoning_, without_reasoning(prompts), prompt_tokens, tokenize);
  const auto [low, high] = std::minmax(kept.tokens, dropped.tokens);
  IdealEstimate ideal = kept;
  // Both estimate the same unless the template decides it: the higher one is taken.
  if (high - low > std::max(kept.uncertainty, dropped.uncertainty)) {
    ideal = {.tokens = low, .uncertainty = std::max({kept.uncertainty, dropped.uncertainty, high - low})};
  }
  ideal.rewritable = rewritable(prompts.front(), prompt_tokens, tokenize);
  return ideal;
}

void IdealCounter::take_decoded(const CanonicalTexts& texts, std::uint64_t decoded_tokens, const Tokenize& tokenize) {
  const CanonicalTexts bare = without_reasoning(texts);
  for (std::size_t order = 0; order < texts.size(); ++order) {
    with_reasoning_[order].add(tokens_of(texts[order], tokenize), if_known(decoded_tokens));
    // If the template drops reasoning, a reply that began with it cannot be reused.
    if (!last_turn_reasons(texts[order])) {
      without_reasoning_[order].add(tokens_of(bare[order], tokenize), if_known(decoded_tokens));
    }
  }
}

}  // namespace kvkeep::bench
