#include "server/routes/call_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "chat/tools/call_grammar.h"
#include "server/api/output_format.h"

namespace kvkeep::server {
namespace {

bool is_strict(const nlohmann::ordered_json& tool) {
  const auto strict = tool["function"].find("strict");
  return strict != tool["function"].end() && *strict == true;
}

}  // namespace

Status constrain_calls(const Service& service, const Reading& reading, const api::ToolUse& use,
                       engine::GrammarParams& grammar) {
  const bool is_forced = use.choice == api::ToolChoice::kRequired || use.choice == api::ToolChoice::kNamed;
  const bool keeps_schema = use.choice == api::ToolChoice::kAuto && reading.tools.json().is_array() &&
                            (!use.allowed.empty() || std::ranges::any_of(reading.tools.json(), is_strict));
  if (!is_forced && !keeps_schema) return {};
  if (!grammar.text.empty()) {
    return is_forced ? Status(invalid("a reply cannot have to be a call and keep to another format")) : Status();
  }
  TRY_ASSIGN(chat::tools::CallGrammar made,
             chat::tools::make_call_grammar(service.reply_format, reading.tools,
                                            {.only = use.name,
                                             .parallel = use.parallel,
                                             .at_once = is_forced,
                                             .may_think = !reading.options.thinking_open}));
  if (!is_forced && made.triggers.empty()) return {};
  grammar.text = std::move(made.text);
  for (chat::tools::CallTrigger& trigger : made.triggers) {
    grammar.triggers.push_back({std::move(trigger.text), trigger.only_first});
  }
  // Tags that the grammar asks for are tokens in it. All other markers could only pass for text in an argument.
  grammar.forbidden = api::forbidden_markers(*service.markers, *service.vocabulary, grammar.text);
  return {};
}

}  // namespace kvkeep::server
