#pragma once

// Text matching: where this server sampled other ids than the tokenizer would choose for the same text.
//
// A client sends a reply back as text. The tokenizer cuts text in one way, a model may have sampled another: the bytes
// agree, the ids do not, and everything after the first such place would be computed again. So known ids whose pieces
// have the same bytes as the prompt's are put in the place of the prompt's head. Laws:
//   - only ids that were sampled replace others; those of prompts match only as ids;
//   - markers, and ids without text, match only as ids, so no replacement reaches over one;
//   - the head ends where a piece ends on both sides;
//   - the result has the same bytes as the prompt, and ids that already agree win where nothing longer is found.
// The rows computed and stored then belong to the *effective prompt*, the ids that are really evaluated.
//
// Pure. Deterministic for a given index.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "base/vocabulary.h"
#include "index/prefix_index.h"

namespace kvkeep::index {

// The bytes of every id, laid out once: asking a tokenizer for each piece would take longer than matching. Immutable,
// thread safe. Memory: 4 bytes per id, and the text (about 2 MB for a vocabulary of 150,000).
class TokenTexts {
 public:
  TokenTexts(const Vocabulary& vocabulary, const std::function<bool(TokenId)>& is_marker);
  // Empty: a marker, an id without text, or none of the vocabulary. It matches only as an id.
  std::string_view text(TokenId id) const;

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;  // by id, into bytes_
};

// The known beginning of a prompt's text.
struct TextMatch {
  std::vector<TokenId> head;        // known ids with the text of the prompt's first prompt_tokens ids
  std::size_t prompt_tokens = 0;    // the longest that was found
  std::vector<TokenRange> sampled;  // which of the head were sampled: ascending, apart
};

// Looks in the tenant's trie, only through `usable` segments. Cost: the ids of all paths that agree with the
// prompt in their text, at most about four times the prompt's; beyond that limit the match may be shorter than it could
// be, but never shorter than by ids.
TextMatch match_text(const PrefixIndex& index, TokenSpan prompt, const TokenTexts& texts,
                     const std::function<bool(SegmentId)>& usable, const Tenant& tenant = kNoTenant);
// The same for one run of ids from position 0, those in `sampled` being sampled (ascending, apart; may go on beyond
// it).
TextMatch match_text(TokenSpan known, std::span<const TokenRange> sampled, TokenSpan prompt, const TokenTexts& texts);

// Ids of the prompt and the sampled ids that replace them, between two neighbouring common ends of pieces.
struct Replacement {
  TokenRange prompt;
  TokenRange effective;
  bool operator==(const Replacement&) const = default;
};

struct EffectivePrompt {
  std::vector<TokenId> tokens;            // the head, then the rest of the prompt
  std::vector<Replacement> replacements;  // ascending; none: the tokens are the prompt's own
  // Where a position of the prompt is among `tokens`; one inside a replacement is where that begins.
  Position moved(Position at) const;
};

// Precondition: the match is one of this prompt with these texts.
EffectivePrompt effective_prompt(const TextMatch& match, TokenSpan prompt, const TokenTexts& texts);

// Finds out whether `at` lies in one of the ranges (ascending, apart), and where that next changes.
struct RangeSide {
  bool inside = false;
  Position until;  // the highest position there is: never
};
RangeSide side_of(std::span<const TokenRange> ranges, Position at);

}  // namespace kvkeep::index
