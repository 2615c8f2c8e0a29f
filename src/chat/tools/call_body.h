#pragma once

// From what stands between a call's tags to names and arguments.

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
  std::string id = {};    // as the model wrote it, where a format has one
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
  std::span<const ValueSpan> values = {};  // in order; found by whoever can tell tags from text that spells them
  bool is_bare = false;                    // Llama's: no tag stands before it, so that it may be an answer that is JSON
};

// Nothing if this is no call: then it is text. Usually one call; JSON formats may hold several. Cost: linear.
std::optional<std::vector<ParsedCall>> parse_call_body(FormatKind format, const CallText& text, const ToolSet& tools);

// What begins so can become a call. A cheap look at the beginning, so that prose about a tag is not held back.
bool may_be_call_body(FormatKind format, std::string_view beginning);

// The call is whole, although its closing tag never came: the model ended its turn instead.
bool is_whole_without_tag(FormatKind format, std::string_view body);

// A call whose name stands apart from its arguments: a JSON object, or none for none.
std::optional<ParsedCall> named_call(std::string_view name, std::string_view arguments);

// JSON with a name and arguments, or several of them.
std::optional<std::vector<ParsedCall>> parse_json_calls(std::string_view text);

}  // namespace kvkeep::chat::tools
