#include "chat/jinja/from_json.h"

#include <limits>

namespace kvkeep::chat::jinja {
namespace {

using nlohmann::ordered_json;

constexpr int kDeepestInput = 400;
constexpr std::size_t kBytesOfOther = 8;

class Converter {
 public:
  Converter(Interpreter& in, const OriginRules& rules) : in_(in), rules_(rules) {}

  Value convert(const ordered_json& json, std::string_view key, int depth) {
    if (depth > kDeepestInput) fail_unsupported("input nested more than ", kDeepestInput, " deep");
    switch (json.type()) {
      case ordered_json::value_t::null: return Value::none();
      case ordered_json::value_t::boolean: return Value::boolean(json.get<bool>());
      case ordered_json::value_t::number_integer: return Value::integer(json.get<std::int64_t>());
      case ordered_json::value_t::number_unsigned: {
        const auto number = json.get<std::uint64_t>();
        constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
        return number > kLargest ? Value::number(static_cast<double>(number))
                                 : Value::integer(static_cast<std::int64_t>(number));
      }
      case ordered_json::value_t::number_float: return Value::number(json.get<double>());
      case ordered_json::value_t::string: {
        const auto& text = json.get_ref<const std::string&>();
        return Value::text(make_view(in_.arena(), text, rules_.of_value(key, text)));
      }
      case ordered_json::value_t::array: return array(json, key, depth);
      case ordered_json::value_t::object: return object(json, depth);
      default: fail("input that is no JSON");
    }
  }

 private:
  Value array(const ordered_json& json, std::string_view key, int depth) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const ordered_json& element : json) items.push_back(convert(element, key, depth + 1));
    return in_.list(items);
  }

  Value object(const ordered_json& json, int depth) {
    auto* dict = in_.arena().make<Dict>();
    for (const auto& [key, element] : json.items()) {
      const Value name = Value::text(make_constant(in_.arena(), key, rules_.of_key(key)));
      dict->set(in_.arena(), name, convert(element, key, depth + 1));
    }
    return Value::dict(dict);
  }

  Interpreter& in_;
  const OriginRules& rules_;
};

}  // namespace

Value from_json(Interpreter& in, const ordered_json& json, const OriginRules& rules) {
  return Converter(in, rules).convert(json, {}, 0);
}

std::size_t size_of(const ordered_json& json) {
  if (json.is_string()) return kBytesOfOther + json.get_ref<const std::string&>().size();
  std::size_t size = kBytesOfOther;
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) size += key.size() + size_of(value);
  } else if (json.is_array()) {
    for (const ordered_json& value : json) size += size_of(value);
  }
  return size;
}

}  // namespace kvkeep::chat::jinja
