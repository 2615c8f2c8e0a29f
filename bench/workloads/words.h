#pragma once

// Text with a given number of tokens that depends only on a label, the same on every machine. It was written for the
// purpose, and contains no one's text. The first word is a name made from the label, so that texts of different labels
// share no prefix.

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvkeep::bench {

// Returns how many tokens a text has for the model under test (without begin-of-sequence and markers).
using CountTokens = std::function<Result<std::size_t>(std::string_view text)>;

// Returns a beginning of the label's words, cut between words, that has at most `tokens` tokens and with its next word
// would have more; the longest one if longer texts never have fewer tokens. Empty if the first word (some five tokens)
// is too long already. Calls `count` O(log tokens) times, with texts of at most `tokens` + 1 words if each word has at
// least one token. Errors are those of `count`; kInvalid if by its count 64 words and more have one token.
Result<std::string> text_of_tokens(std::string_view label, std::size_t tokens, const CountTokens& count);

}  // namespace kvkeep::bench
