#include "chat/grammar/schema_merge.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

namespace kvkeep::chat::grammar {
namespace {

enum class Shape { kSchema, kSchemas, kSchemaMap, kString, kStrings, kCount, kNumber, kBoolean, kValues, kAny };

struct Keyword {
  std::string_view name;
  Shape shape;
};

// Keywords that restrict what is valid, and the form of their values. All others are annotations.
constexpr std::array kKeywords = std::to_array<Keyword>({
    {"$ref", Shape::kString},
    {"$dynamicRef", Shape::kAny},
    {"$recursiveRef", Shape::kAny},
    {"type", Shape::kStrings},
    {"enum", Shape::kValues},
    {"const", Shape::kAny},
    {"allOf", Shape::kSchemas},
    {"anyOf", Shape::kSchemas},
    {"oneOf", Shape::kSchemas},
    {"not", Shape::kSchema},
    {"if", Shape::kSchema},
    {"then", Shape::kSchema},
    {"else", Shape::kSchema},
    {"properties", Shape::kSchemaMap},
    {"patternProperties", Shape::kSchemaMap},
    {"additionalProperties", Shape::kSchema},
    {"unevaluatedProperties", Shape::kSchema},
    {"propertyNames", Shape::kSchema},
    {"required", Shape::kStrings},
    {"minProperties", Shape::kCount},
    {"maxProperties", Shape::kCount},
    {"dependentRequired", Shape::kAny},
    {"dependentSchemas", Shape::kAny},
    {"dependencies", Shape::kAny},
    {"items", Shape::kSchema},
    {"prefixItems", Shape::kSchemas},
    {"unevaluatedItems", Shape::kSchema},
    {"contains", Shape::kSchema},
    {"minContains", Shape::kCount},
    {"maxContains", Shape::kCount},
    {"minItems", Shape::kCount},
    {"maxItems", Shape::kCount},
    {"uniqueItems", Shape::kBoolean},
    {"minLength", Shape::kCount},
    {"maxLength", Shape::kCount},
    {"pattern", Shape::kString},
    {"format", Shape::kString},
    {"minimum", Shape::kNumber},
    {"maximum", Shape::kNumber},
    {"exclusiveMinimum", Shape::kNumber},
    {"exclusiveMaximum", Shape::kNumber},
    {"multipleOf", Shape::kNumber},
});

const Keyword* keyword_of(std::string_view name) {
  const auto place = std::ranges::find(kKeywords, name, &Keyword::name);
  return place == kKeywords.end() ? nullptr : &*place;
}

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

// The expected form of a value; "" if the value has it.
std::string_view missing(const Json& value, Shape shape) {
  switch (shape) {
    case Shape::kSchema: return is_schema(value) ? "" : "a schema";
    case Shape::kSchemas:
      return value.is_array() && !value.empty() && std::ranges::all_of(value, is_schema) ? "" : "an array of schemas";
    case Shape::kSchemaMap:
      return value.is_object() && std::ranges::all_of(value, is_schema) ? "" : "an object of schemas";
    case Shape::kString: return value.is_string() ? "" : "a string";
    case Shape::kStrings:
      return value.is_array() && std::ranges::all_of(value, [](const Json& one) { return one.is_string(); })
                 ? ""
                 : "an array of strings";
    case Shape::kCount: {
      const bool whole = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
      const bool float_whole =
          value.is_number_float() && value.get<double>() >= 0 && value.get<double>() < 1e15 &&
          value.get<double>() == static_cast<double>(static_cast<std::int64_t>(value.get<double>()));
      return whole || float_whole ? "" : "a whole number, not negative";
    }
    case Shape::kNumber: return value.is_number() ? "" : "a number";
    case Shape::kBoolean: return value.is_boolean() ? "" : "a boolean";
    case Shape::kValues: return value.is_array() && !value.empty() ? "" : "an array with members";
    case Shape::kAny: break;
  }
  return "";
}

void make_nullable(Json& schema) {
  const Json* nullable = find(schema, "nullable");
  const bool yes = nullable != nullptr && nullable->is_boolean() && nullable->get<bool>();
  schema.erase("nullable");
  if (!yes) return;
  for (const auto& [key, null] : {std::pair("type", Json("null")), std::pair("enum", Json())}) {
    if (!schema.contains(key)) continue;
    Json& values = schema[key];
    if (std::ranges::find(values, null) == values.end()) values.push_back(null);
  }
}

// In drafts before 6: a boolean next to the bound.
void make_exclusive(Json& schema, const char* exclusive, const char* bound) {
  const Json* value = find(schema, exclusive);
  if (value == nullptr || !value->is_boolean()) return;
  const bool yes = value->get<bool>();
  schema.erase(exclusive);
  if (!yes || !schema.contains(bound)) return;
  schema[exclusive] = schema[bound];
  schema.erase(bound);
}

// In drafts before 2020: items as an array.
void make_tuple(Json& schema) {
  const Json* items = find(schema, "items");
  if (items == nullptr || !items->is_array()) return;
  Json prefix = *items;
  schema.erase("items");
  if (schema.contains("additionalItems")) schema["items"] = schema["additionalItems"];
  if (!prefix.empty()) schema["prefixItems"] = std::move(prefix);
}

Json all_of(const Json& a, const Json& b) {
  if (a == b || allows_all(b)) return a;
  if (allows_all(a)) return b;
  return {{"allOf", Json::array({a, b})}};
}

const Json& item_at(const Json& schema, std::size_t index) {
  static const Json kAll = true;
  const Json* prefix = find(schema, "prefixItems");
  if (prefix != nullptr && index < prefix->size()) return (*prefix)[index];
  const Json* items = find(schema, "items");
  return items == nullptr ? kAll : *items;
}

void merge_items(const Json& a, const Json& b, Json& merged) {
  const auto prefix_size = [](const Json& schema) {
    const Json* prefix = find(schema, "prefixItems");
    return prefix == nullptr ? std::size_t{0} : prefix->size();
  };
  const std::size_t count = std::max(prefix_size(a), prefix_size(b));
  Json prefix = Json::array();
  for (std::size_t i = 0; i < count; ++i) prefix.push_back(all_of(item_at(a, i), item_at(b, i)));
  merged.erase("prefixItems");
  merged.erase("items");
  if (!prefix.empty()) merged["prefixItems"] = std::move(prefix);
  if (a.contains("items") || b.contains("items")) merged["items"] = all_of(item_at(a, count), item_at(b, count));
}

// A schema's rule for a property: its own, or the one for all others.
const Json& property_of(const Json& schema, const std::string& name) {
  static const Json kAll = true;
  if (const Json* properties = find(schema, "properties")) {
    if (const Json* own = find(*properties, name)) return *own;
  }
  const Json* others = find(schema, "additionalProperties");
  return others == nullptr ? kAll : *others;
}

void merge_properties(const Json& a, const Json& b, Json& merged) {
  if (!a.contains("properties") && !b.contains("properties")) return;
  Json properties = Json::object();
  for (const Json* side : {&a, &b}) {
    const Json* own = find(*side, "properties");
    if (own == nullptr) continue;
    for (const auto& [name, schema] : own->items()) {
      if (properties.contains(name)) continue;
      properties[name] = all_of(property_of(a, name), property_of(b, name));
    }
  }
  merged["properties"] = std::move(properties);
}

// Members of both, in the order of `a`.
Json in_both(const Json& a, const Json& b) {
  Json both = Json::array();
  for (const Json& one : a) {
    if (std::ranges::find(b, one) != b.end()) both.push_back(one);
  }
  return both;
}

// A number is an integer or another number.
Json types_in_both(const Json& a, const Json& b) {
  Json both = Json::array();
  const auto has = [](const Json& types, const char* type) {
    return std::ranges::find(types, Json(type)) != types.end();
  };
  for (const Json& type : a) {
    const bool integer_in_number = type == "integer" && has(b, "number");
    const bool number_to_integer = type == "number" && has(b, "integer") && !has(b, "number");
    if (number_to_integer && !has(a, "integer")) both.push_back("integer");
    if (integer_in_number || std::ranges::find(b, type) != b.end()) both.push_back(type);
  }
  return both;
}

Result<Json> common_multiple(const Json& a, const Json& b) {
  if (a == b) return a;
  if (a.is_number_integer() && b.is_number_integer()) {
    const auto left = a.get<std::int64_t>();
    const auto right = b.get<std::int64_t>();
    constexpr std::int64_t kMost = 1'000'000;
    if (left > 0 && right > 0 && left <= kMost && right <= kMost) return Json(std::lcm(left, right));
  }
  return invalid("two values of 'multipleOf' cannot be enforced together");
}

bool is_least(std::string_view keyword) { return keyword.starts_with("min") || keyword == "exclusiveMinimum"; }

// The merged value of a keyword that both schemas have.
Result<Json> merge_keyword(std::string_view keyword, const Json& a, const Json& b) {
  if (a == b) return a;
  if (keyword == "type") return types_in_both(a, b);
  if (keyword == "enum") return in_both(a, b);
  if (keyword == "multipleOf") return common_multiple(a, b);
  if (keyword == "required") {
    Json all = a;
    for (const Json& name : b) {
      if (std::ranges::find(all, name) == all.end()) all.push_back(name);
    }
    return all;
  }
  if (keyword == "uniqueItems") return Json(a.get<bool>() || b.get<bool>());
  const Keyword* known = keyword_of(keyword);
  if (known != nullptr && (known->shape == Shape::kCount || known->shape == Shape::kNumber)) {
    return is_least(keyword) ? std::max(a, b) : std::min(a, b);
  }
  if (known != nullptr && known->shape == Shape::kSchema) return all_of(a, b);
  return invalid("two values of '" + std::string(keyword) + "' cannot be enforced together");
}

}  // namespace

const Json* find(const Json& object, std::string_view key) {
  const auto place = object.find(key);
  return place == object.end() ? nullptr : &*place;
}

bool is_annotation(std::string_view keyword) { return keyword_of(keyword) == nullptr; }

bool allows_all(const Json& schema) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object()) return false;
  for (const auto& [key, value] : schema.items()) {
    if (!is_annotation(key)) return false;
  }
  return true;
}

Result<Json> normalise(const Json& schema) {
  Json plain = schema;
  if (const Json* type = find(plain, "type"); type != nullptr && type->is_string())
    plain["type"] = Json::array({*type});
  if (const Json* value = find(plain, "const")) {
    const Json values = Json::array({*value});
    const Json* older = find(plain, "enum");
    plain["enum"] = older != nullptr && older->is_array() ? in_both(*older, values) : values;
    plain.erase("const");
    if (plain["enum"].empty()) return Json(false);
  }
  make_exclusive(plain, "exclusiveMinimum", "minimum");
  make_exclusive(plain, "exclusiveMaximum", "maximum");
  make_tuple(plain);
  // Properties that neither mentions: the merged rule is the same for both.
  if (const Json* others = find(plain, "unevaluatedProperties")) {
    if (!plain.contains("additionalProperties")) plain["additionalProperties"] = *others;
    plain.erase("unevaluatedProperties");
  }
  for (const auto& [key, value] : plain.items()) {
    const Keyword* known = keyword_of(key);
    if (known == nullptr) continue;
    const std::string_view expected = missing(value, known->shape);
    if (!expected.empty()) return invalid("'" + key + "' must be " + std::string(expected));
  }
  make_nullable(plain);
  return plain;
}

namespace {

// Objects are searched from their first key on: merging takes time in proportion to the product of their names.
constexpr std::size_t kMostPairs = 1'000'000;

std::size_t properties_of(const Json& schema) {
  const Json* properties = find(schema, "properties");
  return properties == nullptr ? 0 : properties->size();
}

// A pattern may match properties that the other schema mentions.
bool patterns_meet(const Json& a, const Json& b) {
  return a.contains("patternProperties") && !b.contains("patternProperties") &&
         (b.contains("properties") || b.contains("additionalProperties"));
}

}  // namespace

Result<Json> merge(const Json& a, const Json& b) {
  if (a.is_boolean() || b.is_boolean()) return a == false || b == false ? Json(false) : a.is_boolean() ? b : a;
  if (properties_of(a) * properties_of(b) > kMostPairs)
    return invalid("objects with so many properties cannot be enforced together");
  if (patterns_meet(a, b) || patterns_meet(b, a)) {
    return invalid("'patternProperties' cannot be enforced together with another schema's properties");
  }
  Json merged = a;
  for (const auto& [key, value] : b.items()) {
    const Json* other = find(a, key);
    if (other == nullptr) {
      merged[key] = value;
    } else if (!is_annotation(key) && key != "properties" && key != "items" && key != "prefixItems") {
      TRY_ASSIGN(merged[key], merge_keyword(key, *other, value));
      if ((key == "type" || key == "enum") && merged[key].empty()) return Json(false);
    }
  }
  merge_properties(a, b, merged);
  merge_items(a, b, merged);
  return merged;
}

}  // namespace kvkeep::chat::grammar
