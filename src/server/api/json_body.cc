#include "server/api/json_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/edit_distance.h"

namespace kvkeep::server::api {
namespace {

// nlohmann-json's messages begin with "[json.exception.parse_error.101] ".
std::string plain(std::string_view message) {
  if (message.starts_with('[')) message.remove_prefix(std::min(message.find(' ') + 1, message.size()));
  constexpr std::size_t kLongest = 300;
  return std::string(message.substr(0, kLongest));
}

bool is_printable_ascii(std::string_view text) {
  // Without a branch in it, the compiler makes this loop take many bytes at once.
  bool is_other = false;
  for (const char c : text) is_other |= c < ' ' || c > '~';
  return !is_other;
}

// Returns where the JSON string ends that begins at `begin`, after its quote: at the next quote before which there is
// an even number of backslashes.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t end = text.find('"', begin);
  while (end != std::string_view::npos) {
    std::size_t escapes = 0;
    while (end - escapes > begin && text[end - escapes - 1] == '\\') ++escapes;
    if (escapes % 2 == 0) break;
    begin = end + 1;
    end = text.find('"', begin);
  }
  return end;
}

// Makes room for another member. The library's object is a std::vector of pairs with constant keys, which copies its
// pairs when it grows: with three fields after the messages of a request, all messages would be copied.
void make_room(Json::object_t& members) {
  if (members.size() < members.capacity()) return;
  Json::object_t larger;
  larger.reserve(2 * members.size() + 1);
  for (auto& [name, value] : members) larger.emplace_back(name, std::move(value));
  members = std::move(larger);
}

}  // namespace

ShortenedText::ShortenedText(std::string_view whole) : whole_(whole) {
  std::size_t copied = 0;
  std::size_t number = 0;
  for (std::size_t at = whole.find('"'); at != std::string_view::npos; at = whole.find('"', at)) {
    const std::size_t begin = at + 1;
    const std::size_t end = end_of_string(whole, begin);
    if (end == std::string_view::npos) break;
    const std::string_view text = whole.substr(begin, end - begin);
    if (text.size() >= kLongString && !text.contains('\\') && is_printable_ascii(text)) {
      strings_.push_back({number, text});
      rest_ += whole.substr(copied, begin - copied);
      copied = end;
    }
    ++number;
    at = end + 1;
  }
  if (!strings_.empty()) rest_ += whole.substr(copied);
}

std::string_view JsonBuilder::whole(std::string_view parsed) {
  if (long_strings_.empty() || long_strings_.front().number != strings_++) return parsed;
  const std::string_view text = long_strings_.front().text;
  long_strings_ = long_strings_.subspan(1);
  return text;
}

bool JsonBuilder::key(const std::string& name) {
  if (!weigh(kHeavy)) return false;
  auto& members = open_.back()->get_ref<Json::object_t&>();
  if (members.size() >= kMaxKeysPerObject) return fail("an object in the request body has too many keys");
  key_comparisons_ += members.size();
  if (key_comparisons_ > kMaxKeyComparisons) return fail("the objects in the request body have too many keys");
  make_room(members);
  member_ = &members[std::string(whole(name))];  // if a key occurs twice, its last value counts
  return true;
}

bool JsonBuilder::parse_error(std::size_t /*position*/, const std::string& /*token*/, const Json::exception& failure) {
  return fail("the request body is not valid JSON: " + plain(failure.what()));
}

bool JsonBuilder::add(std::size_t weight, Json value) {
  if (!weigh(weight)) return false;
  place(std::move(value));
  return true;
}

bool JsonBuilder::weigh(std::size_t weight) {
  weight_ += weight;
  return weight_ <= kMaxWeight || fail("the request body has too many values");
}

bool JsonBuilder::open(Json container) {
  if (open_.size() >= kMaxDepth) return fail("the request body is nested too deeply");
  if (!weigh(kHeavy)) return false;
  open_.push_back(place(std::move(container)));
  return true;
}

bool JsonBuilder::close() {
  open_.pop_back();
  return true;
}

bool JsonBuilder::fail(std::string message) {
  error_ = std::move(message);
  return false;
}

Json* JsonBuilder::place(Json value) {
  if (open_.empty()) return &(root_ = std::move(value));
  if (open_.back()->is_array()) return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
  return &(*member_ = std::move(value));
}

namespace {

std::string_view type_of(const Json& value) {
  if (value.is_number_float()) return "a number with a fraction";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a boolean";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return "null";
}

}  // namespace

namespace {

Result<Json> parse(std::string_view text, std::span<const LongString> long_strings) {
  JsonBuilder builder(long_strings);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return invalid(builder.error());
  return builder.take();
}

Result<Json> parse_body_as(Json::value_t type, std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return invalid(fmt::format("the request body is empty; send a JSON {}", Json(type).type_name()));
  }
  const ShortenedText shortened(body);
  Result<Json> value = parse(shortened.text(), shortened.strings());
  if (!value && !shortened.strings().empty()) value = parse(body, {});  // for the position in the message
  if (!value || value->type() == type) return value;
  return invalid(fmt::format("the request body must be a JSON {}, not {}", Json(type).type_name(), type_of(*value)));
}

}  // namespace

// By value, so that the body's bytes are freed here.
Result<Json> parse_body(std::string body) { return parse_body_as(Json::value_t::object, body); }
Result<Json> parse_array_body(std::string body) { return parse_body_as(Json::value_t::array, body); }

const Json* field(const Json& object, std::string_view name) {
  const auto place = object.find(name);
  return place == object.end() || place->is_null() ? nullptr : &*place;
}

Status read_bool(const Json& object, std::string_view name, bool& target) {
  const Json* value = field(object, name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) return wrong_type(name, "a boolean", *value);
  target = value->get<bool>();
  return {};
}

Status read_string(const Json& object, std::string_view name, std::string& target) {
  const Json* value = field(object, name);
  if (value == nullptr) return {};
  if (!value->is_string()) return wrong_type(name, "a string", *value);
  target = value->get<std::string>();
  return {};
}

Status read_number(const Json& object, std::string_view name, float& target, double low, double high) {
  const Json* value = field(object, name);
  if (value == nullptr) return {};
  if (!value->is_number()) return wrong_type(name, "a number", *value);
  const double number = value->get<double>();
  const bool within = number >= low && number <= high;
  if (!within) {
    return invalid(fmt::format("'{}' must be between {} and {}, not {}", name, low, high, number));
  }
  target = static_cast<float>(number);
  return {};
}

Status read_integer(const Json& object, std::string_view name, std::int64_t& target, std::int64_t low,
                    std::int64_t high) {
  const Json* value = field(object, name);
  if (value == nullptr) return {};
  if (!value->is_number()) return wrong_type(name, "a whole number", *value);
  const double number = value->get<double>();
  if (std::trunc(number) != number) return wrong_type(name, "a whole number", *value);
  if (number < static_cast<double>(low) || number > static_cast<double>(high)) {
    return invalid(fmt::format("'{}' must be between {} and {}, not {}", name, low, high, value->dump()));
  }
  // Converts through double only if it was written with a point: 2^53 + 1 keeps its value.
  target = value->is_number_float() ? static_cast<std::int64_t>(number) : value->get<std::int64_t>();
  return {};
}

Error missing_field(const Json& object, std::string_view name) {
  constexpr std::size_t kMostBytes = 64;  // longer names are no slips, and take long to compare
  constexpr std::size_t kMostMistakes = 2;
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) {
    if (key.size() <= kMostBytes && !value.is_null()) names.push_back(key);
  }
  const std::string near = nearest_within(std::min(kMostMistakes, name.size() / 3), name, names);
  const std::string question = near.empty() ? "" : fmt::format("; is '{}' meant to be it?", near);
  return invalid(fmt::format("'{}' is required{}", name, question));
}

Error wrong_type(std::string_view name, std::string_view expected, const Json& value) {
  return invalid(fmt::format("'{}' must be {}, not {}", name, expected, type_of(value)));
}

std::string to_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace kvkeep::server::api
