#include "server/api/json_body.h"

#include <fmt/format.h>

#include <cmath>

namespace kvkeep::server::api {
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

Result<Json> parse_body(std::string body) {
  JsonBuilder builder;
  if (!Json::sax_parse(body, &builder)) return invalid(builder.error());
  Json value = builder.take();
  if (!value.is_object()) return invalid("the request body must be a JSON object, not " + std::string(type_of(value)));
  return value;
}

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

Error wrong_type(std::string_view name, std::string_view expected, const Json& value) {
  return invalid(fmt::format("'{}' must be {}, not {}", name, expected, type_of(value)));
}

std::string to_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace kvkeep::server::api
