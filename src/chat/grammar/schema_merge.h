#pragma once

// Merges two schemas into one that demands both, and brings a schema into a form that is easy to read.

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace kvkeep::chat::grammar {

using Json = nlohmann::ordered_json;

// Gives rules with several spellings one: nullable, boolean exclusive bounds, items as an array, const.
// Fails with kInvalid if a keyword has a value of the wrong type.
Result<Json> normalise(const Json& schema);

// For normalised schemas without $ref, allOf, anyOf and oneOf. Returns `false` if nothing satisfies both.
// Fails with kInvalid if only one of two keywords can be enforced.
Result<Json> merge(const Json& a, const Json& b);

// The value, or nullptr; schemas are objects with few keys.
const Json* find(const Json& object, std::string_view key);

// The keyword does not restrict what is valid.
bool is_annotation(std::string_view keyword);
// The schema allows everything.
bool allows_all(const Json& schema);

}  // namespace kvkeep::chat::grammar
