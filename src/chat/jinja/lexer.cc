#include "chat/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "chat/jinja/failure.h"
#include "chat/jinja/text.h"

namespace kvkeep::chat::jinja {
namespace {

bool is_digit_of(char byte, int base) {
  if (byte >= '0' && byte <= '9') return byte - '0' < base;
  const char lower = static_cast<char>(byte | 0x20);
  return base == 16 && lower >= 'a' && lower <= 'f';
}
bool is_decimal_digit(char byte) { return is_digit_of(byte, 10); }
bool starts_name(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
         static_cast<std::uint8_t>(byte) >= 0x80;
}

// One kind of line end, and none after the last line.
std::string with_newlines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result.push_back(source[i]);
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(const std::string& message) const { fail_unsupported(message, " (line ", line_, ")"); }
  void add(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .line = line_, .text = std::move(text), .integer = 0, .number = 0});
  }
  bool starts_with(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::ranges::count(source_.substr(at_, bytes), '\n'));
    at_ += bytes;
  }
  void skip_space() {
    const std::size_t core = strip_space(source_.substr(at_), true, false).begin;
    advance(core);
  }

  // Text up to the next tag, then that tag.
  void read_data() {
    std::size_t open = at_;
    while (true) {
      open = source_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= source_.size()) {
        add_data(source_.substr(at_));
        return advance(source_.size() - at_);
      }
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    const std::string_view data = source_.substr(at_, open - at_);
    const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
    const bool variable = source_[open + 1] == '{';
    add_data(stripped(data, sign, variable));
    advance(open + 2 + (sign == '-' || sign == '+' ? 1 : 0) - at_);
    if (variable) {
      read_tag(TokenKind::kVariableBegin, TokenKind::kVariableEnd, "}}");
    } else if (source_[open + 1] == '#') {
      skip_comment();
    } else if (!read_raw()) {
      read_tag(TokenKind::kBlockBegin, TokenKind::kBlockEnd, "%}");
    }
  }

  void add_data(std::string_view data) {
    if (!data.empty()) add(TokenKind::kData, std::string(data));
  }

  std::string_view stripped(std::string_view data, char sign, bool variable) const {
    if (sign == '-') return data.substr(0, strip_space(data, false, true).size);
    if (sign == '+' || variable) return data;
    const std::size_t line = data.rfind('\n') + 1;  // 0 without one
    if (line == 0 && !line_starting_) return data;
    return strip_space(data.substr(line), true, false).size == 0 ? data.substr(0, line) : data;
  }

  // Consumes the end of a tag: `+%}`, `-%}` with the white space after it, or `%}` with a newline after it.
  bool read_end(std::string_view end, bool trims_newline, bool knows_plus) {
    const std::size_t before = at_;
    if (starts_with("-") && source_.substr(at_ + 1).starts_with(end)) {
      advance(1 + end.size());
      skip_space();
    } else if (knows_plus && starts_with("+") && source_.substr(at_ + 1).starts_with(end)) {
      advance(1 + end.size());
    } else if (starts_with(end)) {
      advance(end.size());
      if (trims_newline && starts_with("\n")) advance(1);
    } else {
      return false;
    }
    line_starting_ = at_ > before && source_[at_ - 1] == '\n';
    return true;
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) error("Missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end - at_ - (sign == '-' || sign == '+' ? 1 : 0));
    read_end("#}", true, true);
  }

  // {% raw %} ... {% endraw %}, after its `{%`. Returns false for another block, and consumes nothing.
  bool read_raw() {
    const std::size_t begin = at_;
    const int line = line_;
    skip_space();
    if (starts_with("raw")) {
      advance(3);
      skip_space();
      if (read_end("%}", false, false)) {
        read_raw_text();
        return true;
      }
    }
    at_ = begin;
    line_ = line;
    return false;
  }

  void read_raw_text() {
    const std::size_t begin = at_;
    for (std::size_t open = source_.find("{%", at_); open != std::string_view::npos;
         open = source_.find("{%", open + 1)) {
      const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
      advance(open + 2 + (sign == '-' || sign == '+' ? 1 : 0) - at_);
      skip_space();
      if (!starts_with("endraw")) continue;
      advance(6);
      skip_space();
      if (!read_end("%}", true, true)) continue;
      return add_data(stripped(source_.substr(begin, open - begin), sign, false));
    }
    error("Missing end of raw directive");
  }

  void read_tag(TokenKind begin, TokenKind end, std::string_view end_sign) {
    add(begin, "");
    std::string open;  // brackets
    const bool block = end == TokenKind::kBlockEnd;
    while (true) {
      if (open.empty() && read_end(end_sign, block, block)) return add(end, "");
      if (at_ >= source_.size()) error("unexpected end of template");
      const std::size_t space = strip_space(source_.substr(at_), true, false).begin;
      if (space > 0) {
        advance(space);
      } else if (is_decimal_digit(source_[at_])) {
        read_number();
      } else if (starts_name(source_[at_])) {
        read_name();
      } else if (source_[at_] == '"' || source_[at_] == '\'') {
        read_text();
      } else {
        read_operator(open);
      }
    }
  }

  void read_name() {
    std::size_t end = at_;
    while (end < source_.size() && (starts_name(source_[end]) || is_decimal_digit(source_[end]))) ++end;
    add(TokenKind::kName, std::string(source_.substr(at_, end - at_)));
    advance(end - at_);
  }

  void read_operator(std::string& open) {
    constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                             "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                             ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* found = std::ranges::find_if(kOperators, [&](std::string_view sign) { return starts_with(sign); });
    if (found == kOperators.end()) error(say("unexpected char '", std::string(source_.substr(at_, 1)), "'"));
    if (*found == "(" || *found == "[" || *found == "{") {
      open.push_back(*found == "(" ? ')' : *found == "[" ? ']' : '}');
    } else if (*found == ")" || *found == "]" || *found == "}") {
      if (open.empty() || open.back() != found->front()) error(say("unexpected '", *found, "'"));
      open.pop_back();
    }
    add(TokenKind::kOperator, std::string(*found));
    advance(found->size());
  }

  // Digits of a base with single underscores between them.
  std::string read_digits(std::size_t& at, int base) const {
    std::string digits;
    while (at < source_.size()) {
      if (is_digit_of(source_[at], base)) {
        digits.push_back(source_[at++]);
      } else if (source_[at] == '_' && at + 1 < source_.size() && is_digit_of(source_[at + 1], base)) {
        ++at;
      } else {
        break;
      }
    }
    return digits;
  }

  void read_number() {
    if (read_float()) return;
    std::size_t end = at_;
    int base = 10;
    if (source_[at_] == '0' && at_ + 2 < source_.size()) {
      const char letter = static_cast<char>(source_[at_ + 1] | 0x20);
      const int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
      std::size_t first = at_ + 2 + (source_[at_ + 2] == '_' ? 1 : 0);
      if (prefixed != 10 && first < source_.size() && is_digit_of(source_[first], prefixed)) {
        base = prefixed;
        end = first;
      }
    }
    std::string digits = read_digits(end, base);
    if (base == 10 && digits.front() == '0') {  // a zero ends where other digits begin
      end = at_;
      while (end < source_.size() && source_[end] == '0') ++end;
      digits.assign(1, '0');
    }
    Token token{.kind = TokenKind::kInteger, .line = line_, .text = digits, .integer = 0, .number = 0};
    const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
    if (code != std::errc()) error("integers have 64 bits here");
    tokens_.push_back(std::move(token));
    advance(end - at_);
  }

  bool read_float() {
    if (at_ > 0 && source_[at_ - 1] == '.') return false;
    std::size_t end = at_;
    std::string digits = read_digits(end, 10);
    const auto digit_at = [&](std::size_t at) { return at < source_.size() && is_decimal_digit(source_[at]); };
    const bool fraction = end < source_.size() && source_[end] == '.' && digit_at(end + 1);
    if (fraction) {
      ++end;
      digits.push_back('.');
      digits.append(read_digits(end, 10));
    }
    bool exponent = false;
    if (end < source_.size() && (source_[end] | 0x20) == 'e') {
      std::size_t at = end + 1;
      const bool sign = at < source_.size() && (source_[at] == '+' || source_[at] == '-');
      const bool negative = sign && source_[at] == '-';
      if (sign) ++at;
      if (digit_at(at)) {
        digits.append(negative ? "e-" : "e");
        digits.append(read_digits(at, 10));
        end = at;
        exponent = true;
      }
    }
    if (!fraction && !exponent) return false;
    Token token{.kind = TokenKind::kFloat, .line = line_, .text = digits, .integer = 0, .number = 0};
    const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), token.number);
    if (code == std::errc::result_out_of_range) token.number = std::numeric_limits<double>::infinity();
    tokens_.push_back(std::move(token));
    advance(end - at_);
    return true;
  }

  void read_text() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) error("a text without an end");
    const std::string_view literal = source_.substr(at_ + 1, end - at_ - 1);
    add(TokenKind::kText, unescaped(literal));
    advance(end + 1 - at_);
  }

  std::string unescaped(std::string_view literal) const;

  const std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

char32_t simple_escape(char letter) {
  switch (letter) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'a': return '\a';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'v': return '\v';
    default: return static_cast<char32_t>(letter);
  }
}

std::size_t hexadecimal_digits(char letter) { return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0; }

std::string Lexer::unescaped(std::string_view literal) const {
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\') {
      text.push_back(literal[i]);
      continue;
    }
    const char letter = literal[++i];
    if (const std::size_t wanted = hexadecimal_digits(letter)) {
      const std::string_view digits = literal.substr(std::min(i + 1, literal.size()), wanted);
      std::uint32_t code = 0;
      const auto [stop, status] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (digits.size() != wanted || stop != digits.data() + wanted || code > 0x10FFFF ||
          (code >= 0xD800 && code <= 0xDFFF)) {
        error("an escape that is no character");
      }
      append_character(text, code);
      i += wanted;
    } else if (is_digit_of(letter, 8)) {
      char32_t code = 0;
      std::size_t count = 0;
      for (; count < 3 && i + count < literal.size() && is_digit_of(literal[i + count], 8); ++count) {
        code = code * 8 + static_cast<char32_t>(literal[i + count] - '0');
      }
      append_character(text, code);
      i += count - 1;
    } else if (letter == '\\' || letter == '\'' || letter == '"' || std::string_view("ntrabfv").contains(letter)) {
      append_character(text, simple_escape(letter));
    } else if (letter == 'N') {
      error("escapes by name (\\N{...}) are not supported");
    } else if (letter != '\n') {  // an unknown escape stays as it is; a newline goes
      text.push_back('\\');
      text.push_back(letter);
    }
  }
  return text;
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  const std::string text = with_newlines(source);
  return Lexer(text).run();
}

}  // namespace kvkeep::chat::jinja
