#pragma once

// Stabilisers: rules that give prompts a longer common prefix without changing their meaning. Each has a name, a switch
// (--stabilize) and a place in the debug log at start.
//
//   billing-line   The first line of the first message, if that is the system's and the line begins with
//                  "x-anthropic-billing-header:". Claude Code puts it before everything else, as a block of its own;
//                  it holds a number that differs from conversation to conversation and means nothing: left out.
//   tools-first    Tools come before the system message's text if kvkeep writes them, for templates without a place
// for
//                  tools: they stay the same from conversation to conversation more often. Other templates put tools
//                  where their models saw them in training.
//   late-system    System messages directly after the first user message come before it. Claude Code puts some
//                  3,300 tokens there if it does not know the model's name. They are the same all day, but the
//                  user's task before them differs in each session. Models see another order then, so this rule is not
//                  on by default.

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

// `messages` as in RenderInput; content may be a string or parts. A message without anything left is left out.
void stabilize(const Stabilizers& rules, nlohmann::ordered_json& messages);

// The same, and sets the place of the tools.
void stabilize(const Stabilizers& rules, RenderInput& input);

// Names separated by commas, where "all" means those that are on by default; or "none". Fails with kInvalid if a name
// is unknown.
Result<Stabilizers> parse_stabilizers(const std::string& names);

// For the debug log at start: "stabilisers: billing-line (...)", or "stabilisers: none".
std::string describe(const Stabilizers& rules);

}  // namespace kvkeep::chat
