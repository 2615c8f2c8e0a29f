#include "chat/grammar/schema.h"

#include <algorithm>
#include <array>
#include <charconv>
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

// Flattens a schema: references, allOf, and the choices of anyOf and oneOf.

namespace {

constexpr std::size_t kDeepestPart = 64;
constexpr std::size_t kMostChoices = 32;

// "~1" is '/', "~0" is '~', "%20" a space: JSON pointers in a URI.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const bool percent =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3;
    plain += percent ? static_cast<char>(value) : text[i];
    if (percent) i += 2;
  }
  for (const auto& [code, character] : {std::pair("~1", "/"), std::pair("~0", "~")}) {
    for (std::size_t at = 0; (at = plain.find(code, at)) != std::string::npos; ++at) plain.replace(at, 2, character);
  }
  return plain;
}

const Json* step(const Json& from, const std::string& name) {
  if (from.is_object()) return find(from, name);
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool is_index = error == std::errc() && end == name.data() + name.size();
  return from.is_array() && is_index && index < from.size() ? &from[index] : nullptr;
}

Json types_or_all(const Json& schema) {
  static const Json kAll = {"object", "array", "string", "number", "integer", "boolean", "null"};
  const Json* types = find(schema, "type");
  return types == nullptr ? kAll : *types;
}

bool share_a_type(const Json& a, const Json& b) {
  const auto same = [](const Json& left, const Json& right) {
    const bool numbers = (left == "integer" && right == "number") || (left == "number" && right == "integer");
    return left == right || numbers;
  };
  return std::ranges::any_of(types_or_all(a), [&](const Json& left) {
    return std::ranges::any_of(types_or_all(b), [&](const Json& right) { return same(left, right); });
  });
}

bool share_a_value(const Json& a, const Json& b) {
  return std::ranges::any_of(a, [&](const Json& value) { return std::ranges::find(b, value) != b.end(); });
}

// The only values of a schema, if it lists them; null otherwise.
Json listed_values(const Json& schema) {
  if (!schema.is_object()) return nullptr;
  if (const Json* value = find(schema, "const")) return Json::array({*value});
  if (const Json* values = find(schema, "enum")) return *values;
  if (const Json* parts = find(schema, "allOf")) {
    for (const Json& part : *parts) {
      if (Json values = listed_values(part); !values.is_null()) return values;
    }
  }
  return nullptr;
}

Json values_of(const Json& schema, const std::string& property) {
  const Json* properties = find(schema, "properties");
  const Json* declared = properties == nullptr ? nullptr : find(*properties, property);
  return declared == nullptr ? Json() : listed_values(*declared);
}

bool declares(const Json& schema, const std::string& property) {
  const Json* properties = find(schema, "properties");
  return properties != nullptr && properties->contains(property);
}

// A schema's writer puts no other keys into such an object.
bool is_closed(const Json& schema) {
  const Json* others = find(schema, "additionalProperties");
  return others == nullptr ? schema.contains("properties") && !schema.contains("patternProperties") : *others == false;
}

bool only_objects(const Json& schema) { return types_or_all(schema) == Json::array({"object"}); }

// Objects of `a` never fit `b`: `b` demands a key that they never have, or a value that they never have there.
bool objects_never_fit(const Json& a, const Json& b) {
  const Json* demanded = find(b, "required");
  if (demanded == nullptr) return false;
  return std::ranges::any_of(*demanded, [&](const Json& key) {
    const auto& name = key.get_ref<const std::string&>();
    if (!declares(a, name)) return is_closed(a);
    const Json mine = values_of(a, name);
    const Json theirs = values_of(b, name);
    return !mine.is_null() && !theirs.is_null() && !share_a_value(mine, theirs);
  });
}

}  // namespace

bool never_both(const Json& a, const Json& b) {
  if (a == false || b == false || !share_a_type(a, b)) return true;
  const Json* mine = find(a, "enum");
  const Json* theirs = find(b, "enum");
  if (mine != nullptr && theirs != nullptr) return !share_a_value(*mine, *theirs);
  return only_objects(a) && only_objects(b) && objects_never_fit(a, b);
}

Result<const Json*> SchemaWriter::resolve(const std::string& reference, const std::string& path) const {
  const auto refuse = [&] {
    return error_at(path, "'$ref' must lead to a part of the schema itself, as '#/$defs/name'");
  };
  if (!reference.starts_with('#')) return refuse();
  std::string_view rest = std::string_view(reference).substr(1);
  const Json* place = &root_;
  while (!rest.empty()) {
    if (rest.front() != '/') return refuse();
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    place = step(*place, unescape(rest.substr(0, end)));
    if (place == nullptr) return error_at(path, "'$ref' leads nowhere: " + reference);
    rest.remove_prefix(end);
  }
  if (!place->is_object() && !place->is_boolean())
    return error_at(path, "'$ref' does not lead to a schema: " + reference);
  return place;
}

Result<std::string> SchemaWriter::visit_reference(const Json& schema, const std::string& path,
                                                  const std::string& hint) {
  if (!schema["$ref"].is_string()) return error_at(path, "'$ref' must be a string");
  const auto& reference = schema["$ref"].get_ref<const std::string&>();
  TRY_ASSIGN(const Json* const target, resolve(reference, path));
  if (open_references_.contains(reference)) {
    return error_at(path, "the schema refers to itself with nothing in between");
  }
  if (const auto known = by_reference_.find(reference); known != by_reference_.end()) return known->second;
  const std::string last = unescape(reference.substr(reference.find_last_of("#/") + 1));
  const std::string name = grammar_.reserve(last.empty() ? hint : last);
  by_reference_.emplace(reference, name);
  open_references_.insert(reference);
  auto body = visit(*target, path, name);
  open_references_.erase(reference);
  if (!body) return std::move(body).error();
  // If nothing is valid, a rule that is already referred to matches no text: there is no such token.
  if (body->empty()) by_reference_[reference] = "";
  grammar_.define(name, body->empty() ? "[\\x00]" : *body);
  return by_reference_[reference];
}

Result<FlatSchema> SchemaWriter::flatten(const Json& schema, const std::string& path) {
  FlatSchema flat;
  TRY(add_part(schema, path, flat));
  if (flat.choices.size() > kMostChoices) return error_at(path, "too many 'anyOf' and 'oneOf' are combined");
  return flat;
}

Status SchemaWriter::add_part(const Json& part, const std::string& path, FlatSchema& flat) {
  TRY(count_schema(path));
  if (depth_ >= kDeepestPart) return error_at(path, "the schema is nested too deep, or refers to itself");
  if (part.is_boolean()) {
    if (part == false) flat.base = false;
    return {};
  }
  if (!part.is_object()) return error_at(path, "a schema is an object or a boolean");
  auto plain = normalise(part);
  if (!plain) return error_at(path, plain.error().message);
  ++depth_;
  const auto done = [this](Status status) {
    --depth_;
    return status;
  };
  std::vector<const Json*> more;
  if (plain->is_object() && plain->contains("$ref")) {
    auto target = resolve((*plain)["$ref"].get_ref<const std::string&>(), path);
    if (!target) return done(std::move(target).error());
    more.push_back(*target);
    plain->erase("$ref");
  }
  Json all = Json::array();
  if (plain->is_object() && plain->contains("allOf")) {
    all = (*plain)["allOf"];
    plain->erase("allOf");
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!plain->is_object() || !plain->contains(keyword)) continue;
    FlatSchema::Choice choice{keyword == std::string_view("oneOf"), (*plain)[keyword]};
    if (std::ranges::find(flat.choices, choice) == flat.choices.end()) flat.choices.push_back(std::move(choice));
    plain->erase(keyword);
  }
  auto merged = flat.base.empty() ? Result<Json>(*plain) : merge(flat.base, *plain);
  if (!merged) {
    if (const Status skipped = cannot(path, merged.error().message); !skipped) return done(skipped);
  } else {
    flat.base = std::move(*merged);
  }
  for (const Json& one : all) more.push_back(&one);
  for (const Json* one : more) {
    if (const Status added = add_part(*one, path, flat); !added) return done(added);
  }
  return done({});
}

// Only one alternative may hold. If the alternatives clearly exclude each other, oneOf is anyOf.
Status SchemaWriter::check_exclusive(const FlatSchema& flat, const FlatSchema::Choice& choice,
                                     const std::string& path) {
  std::vector<Json> alternatives;
  for (const Json& alternative : choice.alternatives) {
    FlatSchema together;
    together.base = flat.base;
    TRY(add_part(alternative, path, together));
    alternatives.push_back(std::move(together.base));
  }
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    for (std::size_t j = 0; j < alternatives.size(); ++j) {
      if (i == j || never_both(alternatives[i], alternatives[j])) continue;
      // Keys that one never has exclude the other in one direction only.
      return cannot(path, "'oneOf' cannot be enforced: alternatives " + std::to_string(i) + " and " +
                              std::to_string(j) + " may hold at once; use 'anyOf' if that is right");
    }
  }
  return {};
}

}  // namespace kvkeep::chat::grammar
