#include "chat/grammar/schema.h"

#include <algorithm>
#include <array>
#include <utility>

#include "chat/grammar/schema_writer.h"

namespace kvkeep::chat::grammar {
namespace {

constexpr std::size_t kDeepestSchema = 64;
constexpr std::size_t kMostSteps = 10'000;  // a subschema takes two
constexpr std::size_t kMostValues = 5'000;
constexpr std::size_t kLongestMemo = 20'000;  // bytes of a combined schema that is remembered

constexpr std::array kTypes =
    std::to_array<std::string_view>({"object", "array", "string", "number", "integer", "boolean", "null"});

// Keywords that imply a type if there is no 'type'.
struct Implied {
  std::string_view keyword;
  std::string_view type;
};
constexpr std::array kImplied = std::to_array<Implied>({
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"patternProperties", "object"},
    {"propertyNames", "object"},
    {"minProperties", "object"},
    {"maxProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"uniqueItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
    {"multipleOf", "number"},
});

// Keywords that our grammars cannot enforce.
constexpr std::array kNever = std::to_array<std::string_view>(
    {"not", "if", "dependentRequired", "dependentSchemas", "dependencies", "contains", "$dynamicRef", "$recursiveRef"});

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A schema without allOf and siblings of $ref is written directly; others may come again, combined anew each time.
bool is_combined(const Json& schema) {
  return schema.contains("allOf") || schema.contains("anyOf") || schema.contains("oneOf") || schema.contains("$ref");
}

}  // namespace

Status SchemaWriter::cannot(const std::string& path, const std::string& what) const {
  if (options_.skip_unsupported) return {};
  return error_at(path, what);
}

Status SchemaWriter::count_schema(const std::string& path) {
  if (++steps_ > kMostSteps) return invalid(options_.path + ": it has too many parts");
  if (grammar_.is_over()) {
    if (const Status within = grammar_.within_limits(); !within) return error_at(path, within.error().message);
  }
  return {};
}

Result<std::string> SchemaWriter::visit(const Json& schema, const std::string& path, const std::string& hint) {
  TRY(count_schema(path));
  if (schema.is_boolean()) return schema.get<bool>() ? json_.value() : std::string();
  if (!schema.is_object()) return error_at(path, "a schema is an object or a boolean");
  if (depth_ >= kDeepestSchema) return error_at(path, "the schema is nested too deep");
  ++depth_;
  auto name = visit_object_schema(schema, path, hint);
  --depth_;
  return name;
}

Result<std::string> SchemaWriter::visit_object_schema(const Json& schema, const std::string& path,
                                                      const std::string& hint) {
  if (allows_all(schema)) return json_.value();
  if (schema.contains("$ref")) {
    const bool alone = std::ranges::all_of(
        schema.items(), [](const auto& item) { return item.key() == "$ref" || is_annotation(item.key()); });
    if (alone) return visit_reference(schema, path, hint);
  }
  return is_combined(schema) ? visit_once(schema, path, hint) : [&]() -> Result<std::string> {
    TRY_ASSIGN(const FlatSchema flat, flatten(schema, path));
    return write(flat, path, hint);
  }();
}

// Combined schemas are remembered by their text: in recursion they would be combined for ever.
Result<std::string> SchemaWriter::visit_once(const Json& schema, const std::string& path, const std::string& hint) {
  TRY_ASSIGN(const FlatSchema flat, flatten(schema, path));
  Json combined = flat.base;
  for (const FlatSchema::Choice& choice : flat.choices) {
    Json& all = combined["allOf"];
    all.push_back({{choice.exclusive ? "oneOf" : "anyOf", choice.alternatives}});
  }
  const std::string text = dump(combined);
  if (text.size() > kLongestMemo) return write(flat, path, hint);
  if (const auto known = by_text_.find(text); known != by_text_.end()) {
    if (open_references_.contains(text)) return error_at(path, "the schema refers to itself with nothing in between");
    return known->second;
  }
  const std::string name = grammar_.reserve(hint);
  by_text_.emplace(text, name);
  open_references_.insert(text);
  auto body = write(flat, path, hint);
  open_references_.erase(text);
  if (!body) return std::move(body).error();
  if (body->empty()) {
    by_text_[text] = "";
    grammar_.define(name, "\"\"");  // no rule refers to it
    return std::string();
  }
  grammar_.define(name, *body);
  return name;
}

Result<std::string> SchemaWriter::write(const FlatSchema& flat, const std::string& path, const std::string& hint) {
  if (flat.base == false) return std::string();
  TRY(refuse_keywords(flat.base, path));
  if (!flat.choices.empty()) return write_choice(flat, path, hint);
  if (flat.base.contains("enum")) return write_values(flat.base, path, hint);
  TRY_ASSIGN(const auto types, types_of(flat.base, path));
  std::string body;
  for (const std::string& type : types) {
    const std::string type_hint = types.size() == 1 ? hint : hint + "-" + type;
    TRY_ASSIGN(const std::string name, write_type(type, flat.base, path, type_hint));
    if (!name.empty()) body += (body.empty() ? "" : " | ") + name;
  }
  if (types.size() == 1 || body.empty()) return body;
  return grammar_.add(hint, std::move(body));
}

// The first choice is made here, the others inside each alternative.
Result<std::string> SchemaWriter::write_choice(const FlatSchema& flat, const std::string& path,
                                               const std::string& hint) {
  const FlatSchema::Choice& choice = flat.choices.front();
  if (choice.exclusive) TRY(check_exclusive(flat, choice, path));
  Json rest = Json::array();
  if (!allows_all(flat.base)) rest.push_back(flat.base);
  for (std::size_t i = 1; i < flat.choices.size(); ++i) {
    rest.push_back({{flat.choices[i].exclusive ? "oneOf" : "anyOf", flat.choices[i].alternatives}});
  }
  const std::string keyword = choice.exclusive ? ".oneOf" : ".anyOf";
  std::vector<std::string> names;
  for (std::size_t i = 0; i < choice.alternatives.size(); ++i) {
    const Json& alternative = choice.alternatives[i];
    Json together = alternative;
    if (!rest.empty()) {
      together = {{"allOf", rest}};
      together["allOf"].push_back(alternative);
    }
    TRY_ASSIGN(std::string name, visit(together, path + keyword + "[" + std::to_string(i) + "]", hint));
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  std::string body;
  for (const std::string& name : names) body += (body.empty() ? "" : " | ") + name;
  return names.size() <= 1 ? body : grammar_.add(hint, std::move(body));
}

Result<std::string> SchemaWriter::write_values(const Json& base, const std::string& path, const std::string& hint) {
  const Json& values = base["enum"];
  if (values.size() > kMostValues) {
    return error_at(path, "'enum' has more than " + std::to_string(kMostValues) + " members");
  }
  std::set<std::string> texts;  // equal texts are written once
  std::string body;
  for (const Json& value : values) {
    TRY_ASSIGN(const bool valid, is_valid_value(base, value, path));
    if (!valid) continue;
    std::string text = dump(value);
    if (!texts.insert(text).second) continue;
    body += (body.empty() ? "" : " | ") + GrammarBuilder::literal(text);
  }
  return body.empty() ? body : grammar_.add(hint, std::move(body));
}

Result<std::string> SchemaWriter::write_type(const std::string& type, const Json& base, const std::string& path,
                                             const std::string& hint) {
  if (type == "object") return write_object(base, path, hint);
  if (type == "array") return write_array(base, path, hint);
  if (type == "string") return write_string(base, path, hint);
  if (type == "number") return write_number(base, false, path, hint);
  if (type == "integer") return write_number(base, true, path, hint);
  return type == "boolean" ? json_.boolean() : json_.null();
}

Result<std::vector<std::string>> SchemaWriter::types_of(const Json& base, const std::string& path) const {
  std::vector<std::string> types;
  const auto add = [&](std::string_view type) {
    if (std::ranges::find(types, type) == types.end()) types.emplace_back(type);
  };
  if (const Json* named = find(base, "type")) {
    for (const Json& type : *named) {
      const auto& name = type.get_ref<const std::string&>();
      if (std::ranges::find(kTypes, name) == kTypes.end()) return error_at(path, "'" + name + "' is no type");
      add(name);
    }
    // An integer is a number.
    if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
    return types;
  }
  for (const Implied& implied : kImplied) {
    if (base.contains(implied.keyword)) add(implied.type);
  }
  if (types.empty()) types.assign(kTypes.begin(), kTypes.end() - 3);
  return types;
}

Status SchemaWriter::refuse_keywords(const Json& base, const std::string& path) const {
  for (const std::string_view keyword : kNever) {
    if (base.contains(keyword)) TRY(cannot(path, "'" + std::string(keyword) + "' cannot be enforced"));
  }
  return {};
}

Result<std::string> add_schema(GrammarBuilder& grammar, const Json& schema, const SchemaOptions& options) {
  SchemaWriter writer(grammar, schema, options);
  TRY_ASSIGN(std::string name, writer.visit(schema, options.path, "schema"));
  if (name.empty()) return invalid(options.path + ": nothing is valid under this schema");
  if (const Status within = grammar.within_limits(); !within)
    return invalid(options.path + ": " + within.error().message);
  return name;
}

}  // namespace kvkeep::chat::grammar
