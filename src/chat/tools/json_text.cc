#include "chat/tools/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kvkeep::chat::tools {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::size_t skip_space(std::string_view text, std::size_t at) {
  const std::size_t next = text.find_first_not_of(kSpace, at);
  return next == std::string_view::npos ? text.size() : next;
}

bool is_too_deep(std::string_view text) {
  JsonScanner scanner;
  for (const char byte : text) {
    scanner.feed(byte);
    if (scanner.depth() > kDeepestJson) return true;
  }
  return false;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

void JsonScanner::feed(char byte) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (byte == '\\') {
      escaped_ = true;
    } else if (byte == '"') {
      in_string_ = false;
    }
    return;
  }
  if (byte == '"') in_string_ = true;
  if (byte == '{' || byte == '[') ++depth_;
  if ((byte == '}' || byte == ']') && depth_ > 0) --depth_;
}

std::optional<std::size_t> value_end(std::string_view text, std::size_t begin) {
  if (begin >= text.size()) return std::nullopt;
  if (text[begin] != '{' && text[begin] != '[' && text[begin] != '"') {
    const std::size_t end = text.find_first_of(",]} \t\r\n", begin);
    if (end == begin) return std::nullopt;
    return end == std::string_view::npos ? text.size() : end;
  }
  JsonScanner scanner;
  for (std::size_t at = begin; at < text.size(); ++at) {
    scanner.feed(text[at]);
    if (scanner.depth() == 0 && !scanner.in_string()) return at + 1;
  }
  return std::nullopt;
}

std::optional<std::vector<JsonMember>> members_of(std::string_view object) {
  object = trimmed(object);
  if (object.size() < 2 || object.front() != '{' || object.back() != '}') return std::nullopt;
  std::vector<JsonMember> members;
  std::size_t at = skip_space(object, 1);
  if (object[at] == '}') return at + 1 == object.size() ? std::optional(members) : std::nullopt;
  for (;;) {
    const auto key_end = value_end(object, at);
    if (!key_end) return std::nullopt;
    auto key = string_of(object.substr(at, *key_end - at));
    at = skip_space(object, *key_end);
    if (!key || at == object.size() || object[at] != ':') return std::nullopt;
    at = skip_space(object, at + 1);
    const auto end = value_end(object, at);
    if (!end) return std::nullopt;
    members.push_back({std::move(*key), object.substr(at, *end - at)});
    at = skip_space(object, *end);
    if (at == object.size()) return std::nullopt;
    if (object[at] == '}') break;
    if (object[at] != ',') return std::nullopt;
    at = skip_space(object, at + 1);
  }
  return at + 1 == object.size() ? std::optional(std::move(members)) : std::nullopt;
}

std::optional<std::string> string_of(std::string_view literal) {
  if (literal.size() < 2 || literal.front() != '"') return std::nullopt;
  const auto value = nlohmann::json::parse(literal, nullptr, /*allow_exceptions=*/false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The library takes a zero for the end of the text.
bool is_json(std::string_view text) {
  return !is_too_deep(text) && !text.contains('\0') && nlohmann::json::accept(text);
}

std::optional<std::string> object_text(std::string_view text) {
  JsonObjectStream object;
  return object.feed(text) == JsonObjectStream::State::kWhole ? std::optional(object.take()) : std::nullopt;
}

namespace {

bool is_control(char byte) { return static_cast<unsigned char>(byte) < 0x20; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_of_number(char byte) {
  return is_digit(byte) || byte == '-' || byte == '+' || byte == '.' || byte == 'e' || byte == 'E';
}

int hex_value(char byte) {
  if (is_digit(byte)) return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

std::string control_escape(char byte) { return fmt::format("\\u{:04x}", static_cast<unsigned>(byte)); }

}  // namespace

JsonObjectStream::State JsonObjectStream::feed(char byte) {
  if (state_ == State::kBroken) return state_;
  const std::size_t certain = passed_.size();
  if (accept(byte)) return state_;
  passed_.resize(certain);
  return state_ = State::kBroken;
}

JsonObjectStream::State JsonObjectStream::feed(std::string_view text) {
  for (const char byte : text) feed(byte);
  return state_;
}

bool JsonObjectStream::accept(char byte) {
  switch (expected_) {
    case Expected::kString: return read_string(byte);
    case Expected::kEscape: return read_escape(byte);
    case Expected::kHex: return read_hex(byte);
    case Expected::kLowEscape:
      expected_ = Expected::kLowEscapeU;
      pass(byte);
      return byte == '\\';
    case Expected::kLowEscapeU: return byte == 'u' && read_escape(byte);
    case Expected::kNumber: return read_number(byte);
    case Expected::kWord: return read_word(byte);
    default: break;
  }
  if (is_white(byte)) {
    if (expected_ != Expected::kNothing && expected_ != Expected::kObject) pass(byte);
    return true;
  }
  switch (expected_) {
    case Expected::kObject: return byte == '{' && begin_value(byte);
    case Expected::kKeyOrEnd:
    case Expected::kKey:
      if (byte == '}') return expected_ == Expected::kKeyOrEnd && end_container(byte);
      open_string(true);
      return byte == '"';
    case Expected::kColon:
      expected_ = Expected::kValue;
      pass(byte);
      return byte == ':';
    case Expected::kValueOrEnd: return byte == ']' ? end_container(byte) : begin_value(byte);
    case Expected::kValue: return begin_value(byte);
    case Expected::kCommaOrEnd:
      if (byte != ',') return end_container(byte);
      expected_ = open_.back() == '{' ? Expected::kKey : Expected::kValue;
      pass(byte);
      return true;
    default: return false;  // after the object
  }
}

bool JsonObjectStream::begin_value(char byte) {
  if (byte == '{' || byte == '[') {
    if (open_.size() == kDeepestJson) return false;
    open_ += byte;
    expected_ = byte == '{' ? Expected::kKeyOrEnd : Expected::kValueOrEnd;
    pass(byte);
    return true;
  }
  if (byte == '"') {
    open_string(false);
    return true;
  }
  if (byte == '-' || is_digit(byte)) {
    number_.assign(1, byte);
    expected_ = Expected::kNumber;
    return true;
  }
  for (const std::string_view word : {"true", "false", "null"}) {
    if (word.front() == byte) word_ = word;
  }
  expected_ = Expected::kWord;
  return !word_.empty() && read_word(byte);
}

void JsonObjectStream::open_string(bool is_key) {
  is_key_ = is_key;
  expected_ = Expected::kString;
  pass('"');
}

void JsonObjectStream::value_ended() { expected_ = Expected::kCommaOrEnd; }

bool JsonObjectStream::end_container(char byte) {
  if (byte != (open_.back() == '{' ? '}' : ']')) return false;
  open_.pop_back();
  pass(byte);
  if (!open_.empty()) {
    value_ended();
    return true;
  }
  expected_ = Expected::kNothing;
  state_ = State::kWhole;
  return true;
}

bool JsonObjectStream::read_string(char byte) {
  if (is_control(byte)) {
    passed_ += control_escape(byte);
    return true;
  }
  pass(byte);
  if (byte == '\\') expected_ = Expected::kEscape;
  if (byte == '"') expected_ = is_key_ ? Expected::kColon : Expected::kCommaOrEnd;
  return true;
}

bool JsonObjectStream::read_escape(char byte) {
  if (is_control(byte)) {
    // A backslash at a line's end, as programs have it: neither was escaped.
    passed_.append("\\").append(control_escape(byte));
    expected_ = Expected::kString;
    return true;
  }
  pass(byte);
  if (byte == 'u') {
    expected_ = Expected::kHex;
    hex_ = 0;
    hex_digits_ = 0;
    return true;
  }
  expected_ = Expected::kString;
  return std::string_view("\"\\/bfnrt").find(byte) != std::string_view::npos;
}

bool JsonObjectStream::read_hex(char byte) {
  const int value = hex_value(byte);
  if (value < 0) return false;
  pass(byte);
  hex_ = hex_ * 16 + static_cast<std::uint32_t>(value);
  if (++hex_digits_ < 4) return true;
  const bool is_high = hex_ >= 0xD800 && hex_ < 0xDC00;
  const bool is_low = hex_ >= 0xDC00 && hex_ < 0xE000;
  if (is_low != wants_low_) return false;
  wants_low_ = is_high;
  expected_ = is_high ? Expected::kLowEscape : Expected::kString;
  return true;
}

bool JsonObjectStream::read_word(char byte) {
  if (byte != word_.front()) return false;
  pass(byte);
  word_.remove_prefix(1);
  if (word_.empty()) value_ended();
  return true;
}

bool JsonObjectStream::read_number(char byte) {
  if (is_of_number(byte)) {
    number_ += byte;
    return true;
  }
  if (!nlohmann::json::accept(number_)) return false;
  passed_ += number_;
  value_ended();
  return accept(byte);
}

}  // namespace kvkeep::chat::tools
