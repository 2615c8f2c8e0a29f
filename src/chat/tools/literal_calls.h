#pragma once

// Calls whose arguments are written as literals of another language than JSON, read into JSON.
//
//   LFM2      [f(key="value", n=[1, True, None]), g()]
//   Gemma 4   call:f{key:<|"|>value<|"|>,n:[1,true,null]}
//
// Both models also write JSON in place of a value or of the whole list; that is read, too. Pure; time is linear.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "chat/tools/call_body.h"

namespace kvkeep::chat::tools {

// Returns nullopt if it is no such list of calls.
std::optional<std::vector<ParsedCall>> parse_python_calls(std::string_view body);
// `strings`: the strings between their quotes, which are tags.
std::optional<std::vector<ParsedCall>> parse_gemma_call(std::string_view body, std::span<const ValueSpan> strings);

// Follows Python's strings, byte by byte, so that a tag within one can be told from the call's own.
class PythonQuotes {
 public:
  void feed(char byte);
  bool in_string() const { return quote_ != 0; }

 private:
  char quote_ = 0;
  bool escaped_ = false;
};

}  // namespace kvkeep::chat::tools
