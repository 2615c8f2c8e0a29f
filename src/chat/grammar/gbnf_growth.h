#pragma once

// In how many ways at once a grammar can go on.
//
// libllama keeps every way a text may be read so far as a stack of its own. Where two ways of reading the same letters
// both nest deeper, their number doubles with each letter, and a single token of twenty letters takes longer than
// anyone waits: nothing stops libllama within a token.

#include "chat/grammar/gbnf.h"

namespace kvkeep::chat::grammar {

// kInvalid: a text was found that can be read in more than `limits.stacks` ways at once. Texts are searched for letter
// by letter, the most ambiguous ones first, from the root and from every rule that is ambiguous at its first letter;
// the effort is bounded by `limits.growth_steps`, and a text that only a long search would find is not found.
Status check_growth(const Gbnf& grammar, const GbnfLimits& limits);

}  // namespace kvkeep::chat::grammar
