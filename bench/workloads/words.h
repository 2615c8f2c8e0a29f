#pragma once

// Text of a fixed number of tokens that a label alone decides, the same on every machine, made for the purpose:
// nobody's text is in it. The first word is a name made of the label, so that texts of different labels share no
// prefix.

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvkeep::bench {

// How many tokens a text has, for the model under test (without begin-of-sequence and markers).
using CountTokens = std::function<Result<std::size_t>(std::string_view text)>;

// A beginning of the label's words, cut between words, that has at most `tokens` tokens and with its next word would
// have more; the longest such where longer texts never have fewer tokens. Empty if the first word (some five tokens)
// is too long already. Calls `count` O(log tokens) times, with texts of `tokens` + 1 words at most where each word is a
// token or more. Errors are those of `count`; kInvalid if by its account 64 words and more make one token.
Result<std::string> text_of_tokens(std::string_view label, std::size_t tokens, const CountTokens& count);

}  // namespace kvkeep::bench
