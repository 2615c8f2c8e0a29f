#pragma once

// Stabilisers: rules that give prompts a longer common prefix without changing what they say. Each has a name, a switch
// (--stabilize) and a place in the start log.
//
//   billing-line   The first line of the first message, if that is the system's and the line begins with
//                  "x-anthropic-billing-header:". Claude Code puts it before everything else, as a block of its own;
//                  it holds a number that differs from conversation to conversation and means nothing: left out.
//   tools-first    Tools stand before the system message's text where kvkeep writes them, for templates that know none:
//                  they stay the same from conversation to conversation more often. Where tools stand in other
//                  templates, models were trained on it.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvkeep::chat {

struct RenderInput;

struct Stabilizers {
  bool billing_line = true;
  bool tools_first = true;
  bool operator==(const Stabilizers&) const = default;
};

// `messages` as in RenderInput; content may be a string or parts. A message that has nothing left is left out.
void stabilize(const Stabilizers& rules, nlohmann::ordered_json& messages);

// The same, and where the tools go.
void stabilize(const Stabilizers& rules, RenderInput& input);

// Names separated by commas, or "none". kInvalid: an unknown name.
Result<Stabilizers> parse_stabilizers(const std::string& names);

// For the start log: "stabilisers: billing-line (...)", or "stabilisers: none".
std::string describe(const Stabilizers& rules);

}  // namespace kvkeep::chat
