#pragma once

// Checks what a grammar costs libllama: in how many ways at once it can go on, and how its rules begin with each other.
//
// libllama keeps a stack for every way in which the text so far may be read. If two ways of reading the same letters
// both nest deeper, their number doubles with each letter, and a single token of twenty letters takes it very long:
// nothing stops libllama within a token. It also follows each way to a stack separately until a token ends, and
// compares each stack with all others it found: thousands of letters, each of which may be left out, take it minutes.

#include "chat/grammar/gbnf.h"

namespace kvkeep::chat::grammar {

// Fails with kInvalid if there is a text that can be read in more than `limits.stacks` ways at once, whose next letter
// is compared with more than `limits.ranges` ranges, or a letter that costs libllama more than `limits.work`. The
// search goes letter by letter, the most ambiguous texts first, from the root and from every rule that is ambiguous at
// its first letter; it misses a text that only a long search would find. Returns the steps it took, at most
// `limits.growth_steps`: one for each place and each range looked at.
Result<std::size_t> check_growth(const Gbnf& grammar, const GbnfLimits& limits);

// Fails with kInvalid if a rule begins with itself, or begins in more than `ways` ways. libllama follows each of them,
// at the start and after every character. Takes time in proportion to the grammar.
Status check_walks(const Gbnf& grammar, std::size_t ways);

}  // namespace kvkeep::chat::grammar
