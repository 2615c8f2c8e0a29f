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

// ---- parameters as bare text between tags, in whole calls and in calls that are still being written:
// <function=f><parameter=key>value</parameter></function> ----

// The text before a call's first value, without white space around it.
struct TaggedHead {
  std::string name;       // not checked
  std::string_view rest;  // of the head: the first key, if keys have tags of their own
};
// `is_all`: there is no value; then the head is the whole body. Returns nullopt if no call begins so.
std::optional<TaggedHead> tagged_head(FormatKind format, std::string_view head, bool is_all);

// The text before a value, and the way to read the value.
struct ParameterHead {
  enum class Writing {
    kText,      // a string
    kJson,      // JSON if it parses, a string if not
    kBySchema,  // ToolSet::value_json()
  };
  std::string key;
  Writing writing = Writing::kBySchema;
  bool in_lines = false;  // a line end on either side is not part of it
};
// A value begins with attributes: `key>value`.
bool has_attributes(FormatKind format);
// `gap`: the text between the last value and this one's tag, without white space around it. Returns nullopt if no
// parameter stands so.
std::optional<ParameterHead> parameter_head(FormatKind format, std::string_view gap, std::string_view attributes);

std::string parameter_json(const ParameterHead& head, std::string_view tool, std::string_view value,
                           const ToolSet& tools);

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
