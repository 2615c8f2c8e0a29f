#include "chat/tools/literal_calls.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "base/unicode.h"
#include "chat/tools/json_text.h"

namespace kvkeep::chat::tools {
namespace {

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_' ||
         byte == '.' || byte == '-' || static_cast<unsigned char>(byte) >= 0x80;
}

// Common to both languages: lists, words and numbers. Every read_... returns JSON, or nullopt if it finds no such
// literal.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}
  virtual ~LiteralReader() = default;

 protected:
  virtual std::optional<std::string> read_string() = 0;
  // A key of an object, as a text.
  virtual std::optional<std::string> read_key() = 0;

  bool take(char byte) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != byte) return false;
    ++at_;
    return true;
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  char now() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void skip_space() {
    while (at_ < text_.size() && is_white(text_[at_])) ++at_;
  }
  std::string_view read_word() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_byte(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::optional<std::string> read_value(std::size_t depth = 0) {
    if (depth > kDeepestJson) return std::nullopt;
    if (auto text = read_string()) return json_string(*text);
    switch (now()) {
      case '[': return read_list(']', depth);
      case '(': return read_list(')', depth);
      case '{': return read_object(depth);
      default: return read_bare();
    }
  }

  // {key: value, ...}
  std::optional<std::string> read_object(std::size_t depth) {
    ++at_;
    std::string json = "{";
    while (!take('}')) {
      if (json.size() > 1 && !take(',')) return std::nullopt;
      if (json.size() > 1 && take('}')) break;  // Python's last comma
      const auto key = read_key();
      if (!key || !take(':')) return std::nullopt;
      const auto value = read_value(depth + 1);
      if (!value) return std::nullopt;
      json.append(json.size() > 1 ? "," : "").append(json_string(*key)).append(":").append(*value);
    }
    return json + "}";
  }

  const std::string_view text_;
  std::size_t at_ = 0;

 private:
  std::optional<std::string> read_list(char close, std::size_t depth) {
    ++at_;
    std::string json = "[";
    while (!take(close)) {
      if (json.size() > 1 && !take(',')) return std::nullopt;
      if (json.size() > 1 && take(close)) break;
      const auto value = read_value(depth + 1);
      if (!value) return std::nullopt;
      json.append(json.size() > 1 ? "," : "").append(*value);
    }
    return json + "]";
  }

  // A word of either language, or a number.
  std::optional<std::string> read_bare() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_name_byte(text_[at_]) || text_[at_] == '+')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "true") return "true";
    if (word == "False" || word == "false") return "false";
    if (word == "None" || word == "null") return "null";
    if (!word.empty() && is_json(word)) return std::string(word);
    return std::nullopt;
  }
};

class PythonReader final : public LiteralReader {
 public:
  using LiteralReader::LiteralReader;

  std::optional<std::vector<ParsedCall>> read_calls() {
    std::vector<ParsedCall> calls;
    if (!take('[')) return std::nullopt;
    while (!take(']')) {
      if (!calls.empty() && !take(',')) return std::nullopt;
      auto call = read_call();
      if (!call) return std::nullopt;
      calls.push_back(*std::move(call));
    }
    if (calls.empty() || !at_end()) return std::nullopt;
    return calls;
  }

 private:
  // name(key=value, ...)
  std::optional<ParsedCall> read_call() {
    const std::string name(read_word());
    if (!take('(')) return std::nullopt;
    std::string json = "{";
    while (!take(')')) {
      if (json.size() > 1 && !take(',')) return std::nullopt;
      if (json.size() > 1 && take(')')) break;
      const std::string key(read_word());
      if (key.empty() || !take('=')) return std::nullopt;
      const auto value = read_value();
      if (!value) return std::nullopt;
      json.append(json.size() > 1 ? "," : "").append(json_string(key)).append(":").append(*value);
    }
    return named_call(name, json + "}");
  }

  std::optional<std::string> read_key() override {
    if (auto text = read_string()) return text;
    const std::string_view word = read_word();  // a number
    return word.empty() ? std::nullopt : std::optional<std::string>(word);
  }

  std::optional<std::string> read_string() override {
    const char quote = now();
    if (quote != '"' && quote != '\'') return std::nullopt;
    std::string text;
    for (std::size_t at = at_ + 1; at < text_.size(); ++at) {
      if (text_[at] == quote) {
        at_ = at + 1;
        return text;
      }
      if (text_[at] != '\\' || at + 1 == text_.size()) {
        text += text_[at];
      } else if (!append_escaped(++at, text)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // Reads the escape whose letter stands at `at`, and leaves `at` at its last byte. Returns false if it is none.
  bool append_escaped(std::size_t& at, std::string& text) const {
    switch (text_[at]) {
      case 'n': text += '\n'; return true;
      case 't': text += '\t'; return true;
      case 'r': text += '\r'; return true;
      case '\n': return true;
      case 'x': return append_hex(at, 2, text);
      case 'u': return append_hex(at, 4, text);
      case 'U': return append_hex(at, 8, text);
      case '\\':
      case '\'':
      case '"': text += text_[at]; return true;
      default: text.append("\\").append(1, text_[at]); return true;  // Python leaves it as it is
    }
  }

  bool append_hex(std::size_t& at, std::size_t digits, std::string& text) const {
    std::uint32_t code = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (++at == text_.size()) return false;
      const char byte = text_[at];
      const bool is_letter = (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
      if (!is_letter && (byte < '0' || byte > '9')) return false;
      code = code * 16 + static_cast<std::uint32_t>(is_letter ? (byte | 0x20) - 'a' + 10 : byte - '0');
    }
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at + 1, 2) == "\\u") return append_pair(at, code, text);
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    append_character(text, code);
    return true;
  }

  // The second half of a pair of surrogates, as JSON writes characters above U+FFFF.
  bool append_pair(std::size_t& at, std::uint32_t first, std::string& text) const {
    std::uint32_t second = 0;
    const std::string_view digits = text_.substr(std::min(at + 3, text_.size()), 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), second, 16);
    if (error != std::errc() || end != digits.data() + 4 || second < 0xDC00 || second > 0xDFFF) return false;
    at += 6;
    append_character(text, 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
    return true;
  }
};

class GemmaReader final : public LiteralReader {
 public:
  GemmaReader(std::string_view text, std::span<const ValueSpan> strings) : LiteralReader(text), strings_(strings) {}

  std::optional<std::vector<ParsedCall>> read_call() {
    if (read_word() != "call" || !take(':')) return std::nullopt;
    const std::string name(read_word());
    if (now() != '{') return std::nullopt;
    const auto arguments = read_object(0);
    auto call = arguments && at_end() ? named_call(name, *arguments) : std::nullopt;
    if (!call) return std::nullopt;
    return std::vector<ParsedCall>{*std::move(call)};
  }

 private:
  std::optional<std::string> read_key() override {
    if (auto text = read_string()) return text;
    const std::string_view word = read_word();
    return word.empty() ? std::nullopt : std::optional<std::string>(word);
  }

  std::optional<std::string> read_string() override {
    skip_space();
    while (next_ < strings_.size() && strings_[next_].open < at_) ++next_;
    if (next_ < strings_.size() && strings_[next_].open == at_) {
      const ValueSpan& span = strings_[next_++];
      at_ = span.after;
      return std::string(text_.substr(span.begin, span.end - span.begin));
    }
    if (now() != '"') return std::nullopt;
    const auto end = value_end(text_, at_);
    if (!end) return std::nullopt;
    const std::string_view literal = text_.substr(at_, *end - at_);
    at_ = *end;
    return string_of(literal);
  }

  const std::span<const ValueSpan> strings_;
  std::size_t next_ = 0;
};

}  // namespace

std::optional<std::vector<ParsedCall>> parse_python_calls(std::string_view body) {
  body = trimmed(body);
  const std::size_t first = body.find_first_not_of("[ \t\r\n");
  if (first != std::string_view::npos && body[first] == '{') return parse_json_calls(body);
  return PythonReader(body).read_calls();
}

std::optional<std::vector<ParsedCall>> parse_gemma_call(std::string_view body, std::span<const ValueSpan> strings) {
  return GemmaReader(body, strings).read_call();
}

void PythonQuotes::feed(char byte) {
  if (escaped_) {
    escaped_ = false;
  } else if (quote_ == 0) {
    if (byte == '"' || byte == '\'') quote_ = byte;
  } else if (byte == '\\') {
    escaped_ = true;
  } else if (byte == quote_) {
    quote_ = 0;
  }
}

}  // namespace kvkeep::chat::tools
