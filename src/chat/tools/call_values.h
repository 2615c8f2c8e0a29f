#pragma once

// Calls whose parameters are bare text between tags: <function=f><parameter=key>value</parameter></function>.
//
// Used to read whole calls and calls that are still being written.

#include <optional>
#include <string>
#include <string_view>

#include "chat/tools/tool_format.h"
#include "chat/tools/tool_set.h"

namespace kvkeep::chat::tools {

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

}  // namespace kvkeep::chat::tools
