#pragma once

// Regular expressions, as JSON schemas use them (ECMA-262's), turned into GBNF that matches the JSON text of a string.
//
// Known: literals, '.', classes with ranges, negation and \d \D \w \W \s \S, escapes (\n \t \r \f \v \0 \xHH \uHHHH
// \u{H...} and escaped punctuation), groups (captured or not, named or not), '|', '*', '+', '?', '{m}', '{m,}', '{m,n}'
// (also lazy: the language is the same), and the anchors '^' and '$' around the whole pattern or one of its outermost
// alternatives; without them anything may stand there. Not known, and refused by name: lookaround, backreferences, \b,
// \B, \p, anchors elsewhere.
//
// A character is written in one way: escaped only where JSON demands it, and then in its shortest form. Pure.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/grammar/code_point_set.h"
#include "chat/grammar/grammar_builder.h"

namespace kvkeep::chat::grammar {

// Code points of a string; no `max`: any number.
struct LengthBounds {
  std::size_t min = 0;
  std::optional<std::size_t> max = {};
};

// Returns an expression for the text between the quotes. Fails with kInvalid if the pattern cannot be written, or
// contradicts the length. A length is obeyed if the pattern keeps to it anyway, or repeats one class of characters.
Result<std::string> pattern_expression(GrammarBuilder& grammar, std::string_view pattern, const LengthBounds& length);

// Returns true if a text matches. kInvalid as above, and for patterns that would take too long.
Result<bool> matches_pattern(std::string_view pattern, std::string_view text);

// An expression for one character of a JSON string, out of a set. Precondition: not empty.
std::string json_character(const CodePointSet& set);

}  // namespace kvkeep::chat::grammar
