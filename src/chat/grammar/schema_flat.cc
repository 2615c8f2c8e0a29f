// Flattens a schema: references, allOf, and the choices of anyOf and oneOf.

#include <algorithm>
#include <charconv>
#include <utility>

#include "chat/grammar/schema_writer.h"

namespace kvkeep::chat::grammar {
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
    return error_at(path, "'$ref' leads to what is no schema: " + reference);
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
