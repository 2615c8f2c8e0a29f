#include "chat/tools/json_text.h"

#include <nlohmann/json.hpp>

#include "chat/tools/json_stream.h"

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

}  // namespace kvkeep::chat::tools
