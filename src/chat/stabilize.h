#pragma once

// Stabilisers: rules that give prompts a longer common prefix without changing what they say. Each has a name, a switch
// (--stabilize) and a place in the debug log at start.
//
//   billing-line   The first line of the first message, if that is the system's and the line begins with
//                  "x-anthropic-billing-header:". Claude Code puts it before everything else, as a block of its own;
//                  it holds a number that differs from conversation to conversation and means nothing: left out.
//   tools-first    Tools stand before the system message's text where kvkeep writes them, for templates that know none:
//                  they stay the same from conversation to conversation more often. Where tools stand in other
//                  templates, models were trained on it.
//   late-system    System messages directly after the first user message come before it. Claude Code puts some
//                  3,300 tokens there if it does not know the model's name. They are the same all day, but the
//                  user's task before them is another in each session. Models see another order then, so this rule
//                  must be asked for.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvkeep::chat {

struct RenderInput;

struct Stabilizers {
  bool billing_line = true;
  bool tools_first = true;
  bool late_system = false;
  bool operator==(const Stabilizers&) const = default;
};

// `messages` as in RenderInput; content may be a string or parts. A message that has nothing left is left out.
void stabilize(const Stabilizers& rules, nlohmann::ordered_json& messages);

// The same, and where the tools go.
void stabilize(const Stabilizers& rules, RenderInput& input);

// Names separated by commas, of which "all" stands for those that are on by default; or "none". kInvalid: an unknown
// name.
Result<Stabilizers> parse_stabilizers(const std::string& names);

// For the debug log at start: "stabilisers: billing-line (...)", or "stabilisers: none".
std::string describe(const Stabilizers& rules);

}  // namespace kvkeep::chat
