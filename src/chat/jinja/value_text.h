#pragma once

// Values as text: Python's str() and repr(), and JSON. Each byte keeps the origin of the text it was in; quotes,
// brackets and numbers are the template's.

#include <string>

#include "chat/jinja/interpreter.h"

namespace kvkeep::chat::jinja {

// str(): what `{{ value }}` prints.
Text written(Interpreter& in, const Value& value);
// repr(): how a value looks inside a printed list.
void append_repr(Interpreter& in, const Value& value, TextBuilder& builder);
// Python's repr of a float.
std::string written_number(double number);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  Text indent;  // of one level
  Text item_separator;
  Text key_separator;
};
Text written_json(Interpreter& in, const Value& value, const JsonStyle& style);

}  // namespace kvkeep::chat::jinja
