// Flags of `serve` about prompts and replies.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "flag_values.h"
#include "serve_flags.h"
#include "server/api/template_switches.h"

namespace kvkeep::cli {
namespace {

using chat::tools::FormatKind;
using chat::tools::ReasoningFormat;

Assign tool_format_into(std::optional<FormatKind>& target) {
  return [&target](const std::string& text) -> Status {
    if (text == "auto") {
      target.reset();
      return {};
    }
    const auto kind = chat::tools::format_named(text);
    if (!kind)
      return invalid(fmt::format("'{}' is not one of auto, {}", text, fmt::join(chat::tools::format_names(), ", ")));
    target = *kind;
    return {};
  };
}

Assign object_into(nlohmann::ordered_json& target) {
  return [&target](const std::string& text) -> Status {
    auto value = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!value.is_object()) return invalid(fmt::format("'{}' is not a JSON object", text));
    TRY(server::api::check_template_kwargs(value));
    target = std::move(value);
    return {};
  };
}

Assign effort_into(std::string& target) {
  return [&target](const std::string& text) -> Status {
    target = text == "default" ? "" : text;
    return {};
  };
}

// With 0 the template is told too, so that the model does not even begin to think.
Assign thought_budget_into(ServeOptions& options) {
  return [&options](const std::string& text) -> Status {
    std::optional<std::size_t>& budget = options.defaults.sampling.thinking.most_tokens;
    TRY_ASSIGN(const std::int64_t tokens,
               parse_number<std::int64_t>(text, -1, std::numeric_limits<std::int32_t>::max()));
    budget.reset();
    if (tokens >= 0) budget = static_cast<std::size_t>(tokens);
    if (tokens == 0) options.chat.thinks = false;
    return {};
  };
}

}  // namespace

std::vector<Flag> chat_flags(ServeOptions& options) {
  ChatOptions& chat = options.chat;
  return {
      {.group = "Conversations",
       .spelling = "--tool-format NAME",
       .default_text = "auto, from the chat template",
       .effect = "How the model writes tool calls: none, hermes, qwen3-coder, llama3, mistral, deepseek, dsml, "
                 "dsml-v3.2, harmony, glm, kimi, minimax, lfm2, command-r, command-a, gemma4.",
       .assign = tool_format_into(chat.tool_format)},
      {.spelling = "--reasoning-format NAME",
       .environment = "LLAMA_ARG_THINK",
       .effect =
           "Where reasoning goes: none leaves it in content, deepseek puts it into reasoning_content, deepseek-legacy "
           "into both; auto is deepseek.",
       .assign =
           choice_into(options.defaults.reasoning_format, {{"auto", ReasoningFormat::kDeepSeek},
                                                           {"none", ReasoningFormat::kNone},
                                                           {"deepseek", ReasoningFormat::kDeepSeek},
                                                           {"deepseek-legacy", ReasoningFormat::kDeepSeekLegacy}})},
      {.spelling = "-rea, --reasoning on|off|auto",
       .environment = "LLAMA_ARG_REASONING",
       .default_text = "auto, the template's own",
       .effect = "Have the template let the model think, or not; a request may say otherwise.",
       .assign = choice_into(chat.thinks, {{"on", true}, {"off", false}, {"auto", std::nullopt}})},
      {.spelling = "--reasoning-effort LEVEL",
       .environment = "LLAMA_ARG_REASONING_EFFORT",
       .default_text = "default, the template's own",
       .effect = "How much the model should think, for templates that know levels: low, medium, high and others.",
       .assign = effort_into(chat.reasoning_effort)},
      {.spelling = "--reasoning-budget N",
       .environment = "LLAMA_ARG_THINK_BUDGET",
       .default_text = "-1",
       .effect = "End reasoning after this many tokens, with its closing tag; 0 also sets --reasoning off; -1: no "
                 "limit. A request may say otherwise.",
       .assign = thought_budget_into(options)},
      {.spelling = "--reasoning-budget-message TEXT",
       .environment = "LLAMA_ARG_THINK_BUDGET_MESSAGE",
       .effect =
           "Text that the reasoning ends with, before its closing tag, if --reasoning-budget or a client ends it.",
       .assign = text_into(options.defaults.thought_ending)},
      {.spelling = "--reasoning-preserve, --no-reasoning-preserve",
       .environment = "LLAMA_ARG_REASONING_PRESERVE",
       .effect = "Keep the reasoning of earlier turns in the prompt, if the template has a switch for that.",
       .assign = switch_into(chat.preserve_reasoning)},
      {.spelling = "--chat-template-kwargs JSON",
       .environment = "LLAMA_ARG_CHAT_TEMPLATE_KWARGS",
       .default_text = "{}",
       .effect = "More variables for the chat template, as a JSON object; a request may set others.",
       .assign = object_into(options.defaults.template_kwargs)},
      {.spelling = "--skip-chat-parsing, --no-skip-chat-parsing",
       .environment = "LLAMA_ARG_SKIP_CHAT_PARSING",
       .effect = "Return everything that the model writes as content, tool calls and reasoning included.",
       .assign = switch_into(chat.skip_parsing)},
      {.spelling = "--replay exact|canonical|off",
       .effect =
           "How a prompt shows the model's earlier turns: exact: with the ids that were sampled, if the client's "
           "message says the same; canonical: as the template writes them, prefilled ahead; off: the same, not ahead.",
       .assign = choice_into(chat.replay,
                             {{"exact", Replay::kExact}, {"canonical", Replay::kCanonical}, {"off", Replay::kOff}})},
      {.spelling = "--prefill-ahead, --no-prefill-ahead",
       .effect = "While the server is idle, prefill finished turns that the template writes differently from what was "
                 "sampled (such as without their reasoning).",
       .assign = switch_into(chat.prefill_ahead)},
      {.spelling = "--spm-infill",
       .effect =
           "In prompts of /infill, and for `suffix`, put the suffix before the prefix, as some models are trained.",
       .assign = switch_into(chat.fill_suffix_first)},
      {.spelling = "--strict-model-names",
       .effect = "Refuse requests for a model name that is not in --alias (without --alias: the file's name).",
       .assign = switch_into(chat.strict_model_names)},
      {.spelling = "--strict-fields",
       .effect = "Refuse requests with unknown fields, instead of naming the fields in the reply's header "
                 "x-kvkeep-ignored-fields, the log and the trace.",
       .assign = switch_into(options.defaults.strict_fields)},
      {.spelling = "--stabilize RULE,...|none",
       .default_text = "all",
       .effect =
           "Changes to prompts that let more of them share a beginning. billing-line: leave out a leading "
           "x-anthropic-billing-header line of the system prompt, which differs between conversations and means "
           "nothing; tools-first: if the template knows no tools, write them before the system prompt; late-system "
           "(not part of all): move system messages right after the first user message before it.",
       .assign = parsed_into(options.stabilizers, chat::parse_stabilizers)},
  };
}

}  // namespace kvkeep::cli
