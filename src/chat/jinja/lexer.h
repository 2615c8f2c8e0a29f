#pragma once

// Turns source into tokens, without the white space around tags that trim_blocks and lstrip_blocks remove: a newline
// after a block or comment, and spaces between a line's start and a block or comment; `-` and `+` next to the brackets
// overrule both.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::chat::jinja {

enum class TokenKind : std::uint8_t {
  kData,           // text outside tags
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kText,  // a string literal, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // data, name, literal's text, or operator
  std::int64_t integer = 0;
  double number = 0;

  bool is_operator(std::string_view sign) const { return kind == TokenKind::kOperator && text == sign; }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

// Throws Failure. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace kvkeep::chat::jinja
