#pragma once

// The input as values.

#include <cstddef>
#include <nlohmann/json.hpp>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/template.h"

namespace kvkeep::chat::jinja {

// Throws Failure if it is nested too deeply.
Value from_json(Interpreter& in, const nlohmann::ordered_json& json, const OriginRules& rules);
// The bytes of its strings, and a little for everything else; for limits.
std::size_t size_of(const nlohmann::ordered_json& json);

}  // namespace kvkeep::chat::jinja
