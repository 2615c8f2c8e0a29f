#include "bench/sessions/json_fields.h"

#include <algorithm>
#include <vector>

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMaxDepth = 256;
constexpr std::size_t kMaxKeysPerObject = 4096;

// Runs before the parser, because its callback, the only way to stop it, takes quadratic time for long arrays. Text
// that is not JSON passes: the parser reports it.
Status check_limits(std::string_view text) {
  std::vector<std::size_t> keys;  // of each object or array around
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      if (c == '\\') ++i;
    } else if (c == '{' || c == '[') {
      if (keys.size() == kMaxDepth) return invalid("JSON nested too deeply");
      keys.push_back(0);
    } else if (c == '}' || c == ']') {
      if (!keys.empty()) keys.pop_back();
    } else if (c == ':' && !keys.empty()) {
      if (++keys.back() > kMaxKeysPerObject) return invalid("a JSON object with too many keys");
    }
  }
  return {};
}

// nlohmann-json's messages begin with "[json.exception.parse_error.101] ".
std::string plain(std::string_view message) {
  if (message.starts_with('[')) message.remove_prefix(std::min(message.find(' ') + 1, message.size()));
  return shortened(message);
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

Result<Json> parse_json(std::string_view text) {
  TRY(check_limits(text));
  try {
    return Json::parse(text);
  } catch (const Json::exception& failure) {
    return invalid("not JSON: " + plain(failure.what()));
  }
}

const Json* field(const Json& object, std::string_view name) {
  const auto place = object.find(name);
  return place == object.end() || place->is_null() ? nullptr : &*place;
}

std::string text_field(const Json& object, std::string_view name) {
  const Json* value = field(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<std::uint64_t> count_field(const Json& object, std::string_view name) {
  const Json* value = field(object, name);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  if (!value->is_number_unsigned() && value->get<std::int64_t>() < 0) return std::nullopt;
  return value->get<std::uint64_t>();
}

std::string to_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string shortened(std::string_view text, std::size_t bytes) {
  std::size_t length = std::min(text.size(), bytes);
  while (length > 0 && length < text.size() && continues_character(text[length])) --length;
  std::string line(text.substr(0, length));
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  if (length < text.size()) line += "...";
  return line;
}

}  // namespace kvkeep::bench
