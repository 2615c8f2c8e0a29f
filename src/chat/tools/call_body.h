#pragma once

// Reads names and arguments from the text between a call's tags.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/tools/tool_format.h"
#include "chat/tools/tool_set.h"

namespace kvkeep::chat::tools {

struct ParsedCall {
  std::string name;       // never empty
  std::string arguments;  // a JSON object
  std::string id = {};    // as the model wrote it, if the format has one
  bool operator==(const ParsedCall&) const = default;
};

// Where a value's tags stand in a body, as offsets: [open, begin) is value_open, [end, after) is value_close.
struct ValueSpan {
  std::size_t open = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t after = 0;
};

struct CallText {
  std::string_view body;                   // between the call's tags
  std::span<const ValueSpan> values = {};  // in order, found by a caller that can tell tags from text that spells them
  bool is_bare = false;                    // Llama's: without a tag before it, so it may be an answer that is JSON
};

// Returns nullopt if this is no call, but text. Usually one call; JSON formats may hold several. Cost: linear.
std::optional<std::vector<ParsedCall>> parse_call_body(FormatKind format, const CallText& text, const ToolSet& tools);

// Returns true if a body that begins so can become a call: a cheap look, so that prose about a tag is not held back.
bool may_be_call_body(FormatKind format, std::string_view beginning);

// Returns true if the call is whole, although its closing tag never came because the model ended its turn.
bool is_whole_without_tag(FormatKind format, std::string_view body);

// A call whose name stands apart from its arguments: a JSON object, or none for no arguments.
std::optional<ParsedCall> named_call(std::string_view name, std::string_view arguments);

// JSON with a name and arguments, or several of them.
std::optional<std::vector<ParsedCall>> parse_json_calls(std::string_view text);

}  // namespace kvkeep::chat::tools
