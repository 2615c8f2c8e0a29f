#pragma once

// In how many ways at once a grammar can go on.
//
// libllama keeps every way a text may be read so far as a stack of its own. Where two ways of reading the same letters
// both nest deeper, their number doubles with each letter, and a single token of twenty letters takes longer than
// anyone waits: nothing stops libllama within a token. It also follows each way to a stack on its own until a token
// ends, and looks for each stack among all others it found: thousands of letters that may be left out, each of them,
// take it minutes.

#include "chat/grammar/gbnf.h"

namespace kvkeep::chat::grammar {

// kInvalid: a text was found that can be read in more than `limits.stacks` ways at once, whose next letter is compared
// with more than `limits.ranges` ranges, or a letter that costs libllama more than `limits.work`. Texts are searched
// for letter by letter, the most ambiguous ones first, from the root and from every rule that is ambiguous at its first
// letter; a text that only a long search would find is not found. Otherwise the steps it took: one for each place and
// each range looked at, `limits.growth_steps` at most.
Result<std::size_t> check_growth(const Gbnf& grammar, const GbnfLimits& limits);

}  // namespace kvkeep::chat::grammar
