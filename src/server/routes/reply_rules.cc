#include "server/routes/reply_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "chat/tools/call_grammar.h"
#include "server/api/output_format.h"

namespace kvkeep::server {
namespace {

// Tokens that are exactly the letters U+0001, U+0002..., as far as the vocabulary has them.
std::vector<TokenId> tag_letters(const Vocabulary& vocabulary) {
  std::vector<TokenId> letters;
  while (letters.size() < chat::tools::kMostTagLetters) {
    const std::string letter(1, static_cast<char>(letters.size() + 1));
    const std::vector<TokenId> ids = vocabulary.tokenize_continuation(letter);
    if (ids.size() != 1 || vocabulary.piece(ids[0], true) != letter) break;
    letters.push_back(ids[0]);
  }
  return letters;
}

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
    return is_forced ? Status(invalid("a reply cannot be both a forced call and of another format")) : Status();
  }
  const std::vector<TokenId> letters = tag_letters(*service.vocabulary);
  TRY_ASSIGN(chat::tools::CallGrammar made, chat::tools::make_call_grammar(service.reply_format, reading.tools,
                                                                           {.only = use.name,
                                                                            .parallel = use.parallel,
                                                                            .at_once = is_forced,
                                                                            .may_think = !reading.options.thinking_open,
                                                                            .tag_letters = letters.size()}));
  if (!is_forced && made.triggers.empty()) return {};
  grammar.text = std::move(made.text);
  for (chat::tools::CallTrigger& trigger : made.triggers) {
    grammar.triggers.push_back({std::move(trigger.text), trigger.only_first});
  }
  // The tags of the grammar are tokens in it. All other markers could only be text in an argument.
  grammar.forbidden = api::forbidden_markers(*service.markers, *service.vocabulary, grammar.text);
  for (std::size_t i = 0; i < made.tags.size(); ++i) {
    grammar.tags.push_back({made.tags[i], letters[i]});
    std::erase(grammar.forbidden, made.tags[i]);
  }
  return {};
}

void limit_thinking(const Service& service, bool thinking_open, engine::ThinkingParams& thinking) {
  if (!thinking.most_tokens && thinking.end_now == nullptr) return;
  const chat::tools::Tag& close = service.reply_format.thinking_close;
  if (!close.exists()) {
    thinking = {};
    return;
  }
  thinking.is_open = thinking_open;
  thinking.open = service.reply_format.thinking_open.spelling();
  thinking.close = close.spelling();
  const auto append = [&](std::string_view text) {
    const std::vector<TokenId> ids = service.vocabulary->tokenize_continuation(text);
    thinking.close_tokens.insert(thinking.close_tokens.end(), ids.begin(), ids.end());
  };
  append(service.defaults.thought_ending);
  // Markers as tokens, the text between them as text.
  std::size_t at = 0;
  for (const chat::tools::TagMarker& marker : close.markers()) {
    if (marker.begin > at) append(std::string_view(close.spelling()).substr(at, marker.begin - at));
    thinking.close_tokens.push_back(marker.id);
    at = marker.end;
  }
  if (at < close.size()) append(std::string_view(close.spelling()).substr(at));
}

}  // namespace kvkeep::server
