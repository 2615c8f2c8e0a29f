#pragma once

// Reading a request's JSON: one parser with limits (json_builder.h), and one reader per type, so that every dialect
// complains in the same words. A field that is absent or null leaves its target as it is: clients send null for fields
// that they do not use.
//
// Errors are kInvalid and name the field, what it must be and what it is. Thread safe: nothing is shared.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/json_builder.h"

namespace kvkeep::server::api {

// Returns the body as a JSON object, within the limits of json_builder.h. The call frees the body's bytes: a body may
// be large, and its values are made into other things right after.
Result<Json> parse_body(std::string body);

// Returns the field, or nullptr if it is absent or null. Precondition: object.is_object().
const Json* field(const Json& object, std::string_view name);

Status read_bool(const Json& object, std::string_view name, bool& target);
Status read_string(const Json& object, std::string_view name, std::string& target);
// Reads a number in [low, high].
Status read_number(const Json& object, std::string_view name, float& target, double low, double high);
// Reads a whole number in [low, high]; 3.0 counts as one.
Status read_integer(const Json& object, std::string_view name, std::int64_t& target, std::int64_t low,
                    std::int64_t high);

// Returns "'name' must be <expected>, not <what it is>".
Error wrong_type(std::string_view name, std::string_view expected, const Json& value);

// Returns one line of JSON; invalid UTF-8 is replaced.
std::string to_line(const Json& value);

}  // namespace kvkeep::server::api
