#pragma once

// How the next token is chosen, as requests say it. Plain values; the engine clamps nothing.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/types.h"

namespace kvkeep::engine {

// Where a lazy grammar begins: where `text` stands in the reply for the first time, `text` included.
struct GrammarTrigger {
  std::string text;         // not empty
  bool only_first = false;  // only if nothing but white space stands before it
};

// A marker that a grammar asks for, and the token that stands for it there.
struct TagLetter {
  TokenId tag = 0;
  TokenId letter = 0;
};

// What a reply must look like. It holds for what is generated alone, never for the prompt.
struct GrammarParams {
  std::string text = {};  // GBNF with the start symbol "root"; "": anything goes
  // The grammar begins with the reply, or, if there are any, with the first of these to appear. Before that anything
  // goes; a reply without a trigger is not constrained.
  std::vector<GrammarTrigger> triggers = {};
  // Not empty: a reply begins behind this text, triggers are looked for there ("</think>").
  std::string after = {};
  // Not sampled while the grammar holds: a grammar matches the text of tokens, so that a marker would pass for text.
  std::vector<TokenId> forbidden = {};
  // The grammar's text asks for a marker by a letter that no text under it may have. The marker goes on where that
  // letter would, and nowhere else: it cannot pass for text. The letters' own tokens are not sampled.
  std::vector<TagLetter> tags = {};
};

// How long the thought may be that a reply begins with.
struct ThinkingParams {
  std::optional<std::size_t> most_tokens = {};  // between the tags; none: no limit
  bool is_open = false;                         // the prompt ends within the thought
  std::string open = {};                        // its tags
  std::string close = {};
  std::vector<TokenId> close_tokens = {};  // the closing tag as it is put in where the limit is reached; {}: no limit
};

struct SamplingParams {
  float temperature = 0.8F;                // <= 0: always the likeliest token
  std::int32_t top_k = 40;                 // keep the k likeliest; <= 0: all
  float top_p = 0.95F;                     // keep the likeliest whose sum reaches p; 1: all
  float min_p = 0.05F;                     // keep those at least min_p times as likely as the likeliest; 0: all
  float repeat_penalty = 1.0F;             // divides logits of recent tokens; 1: off
  float presence_penalty = 0.0F;           // subtracted once from logits of recent tokens; 0: off
  float frequency_penalty = 0.0F;          // subtracted per occurrence; 0: off
  std::int32_t repeat_last_n = 64;         // tokens that count as recent; 0: penalties off, -1: the context
  std::optional<std::uint32_t> seed = {};  // empty: a new one each time
  bool ignore_eos = false;                 // never end by itself
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to logits; -infinity forbids a token
  GrammarParams grammar = {};                         // with one, a reply ends where the grammar may, ignore_eos or not
  ThinkingParams thinking = {};
};

}  // namespace kvkeep::engine
