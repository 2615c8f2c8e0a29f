#pragma once

// Reading JSON from elsewhere: nothing here throws, and values that are absent or of another type are empty.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvkeep::bench {

using Json = nlohmann::ordered_json;

// kInvalid if it is not JSON (the message says where), is nested more than 256 deep (printing it recurses), or has an
// object of more than 4,096 keys (looking them up is linear).
Result<Json> parse_json(std::string_view text);

// Returns null if `object` has no such field, if the field is null, or if `object` is no object.
const Json* field(const Json& object, std::string_view name);
std::string text_field(const Json& object, std::string_view name);
std::optional<std::uint64_t> count_field(const Json& object, std::string_view name);

// Returns one line; invalid UTF-8 is replaced.
std::string to_line(const Json& value);

// For messages: returns one line of at most `bytes` bytes, cut between characters.
std::string shortened(std::string_view text, std::size_t bytes = 300);

}  // namespace kvkeep::bench
