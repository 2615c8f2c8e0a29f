#include "chat_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "flag_binding.h"
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
    if (!value.is_object()) return invalid(fmt::format("'{}' is no JSON object", text));
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

// 0 tells the template, too, so that it does not even open a thought.
Assign budget_into(ChatOptions& chat) {
  return [&chat](const std::string& text) -> Status {
    TRY_ASSIGN(const std::int64_t tokens,
               parse_number<std::int64_t>(text, -1, std::numeric_limits<std::int32_t>::max()));
    chat.thinking_tokens_max.reset();
    if (tokens >= 0) chat.thinking_tokens_max = static_cast<std::size_t>(tokens);
    if (tokens == 0) chat.thinks = false;
    return {};
  };
}

}  // namespace

std::vector<Flag> chat_flags(ServeOptions& options) {
  const char* group = "Conversations";
  ChatOptions& chat = options.chat;
  return {
      row(group, "--tool-format", {}, {}, "NAME", "", "auto, from the chat template",
          "How the model writes calls: none, hermes, qwen3-coder, llama3, mistral, deepseek, dsml, dsml-v3.2, harmony, "
          "glm, kimi, minimax, lfm2, command-r, command-a, gemma4.",
          tool_format_into(chat.tool_format)),
      row(group, "--reasoning-format", {}, {}, "NAME", "LLAMA_ARG_THINK", "auto",
          "Where thoughts go: none (they stay in content), deepseek (reasoning_content), deepseek-legacy (both); auto "
          "is deepseek.",
          choice_into<ReasoningFormat>(chat.reasoning_format, {{"auto", ReasoningFormat::kDeepSeek},
                                                               {"none", ReasoningFormat::kNone},
                                                               {"deepseek", ReasoningFormat::kDeepSeek},
                                                               {"deepseek-legacy", ReasoningFormat::kDeepSeekLegacy}})),
      row(group, "--reasoning", {"-rea"}, {}, "on|off|auto", "LLAMA_ARG_REASONING", "auto, as the template has it",
          "Tell the template to let the model think, or not; requests may say otherwise.",
          choice_into<std::optional<bool>>(chat.thinks, {{"on", true}, {"off", false}, {"auto", std::nullopt}})),
      row(group, "--reasoning-effort", {}, {}, "LEVEL", "LLAMA_ARG_REASONING_EFFORT", "default, the template's own",
          "How much the model should think, for templates that know levels: low, medium, high and others.",
          effort_into(chat.reasoning_effort)),
      row(group, "--reasoning-budget", {}, {}, "N", "LLAMA_ARG_THINK_BUDGET", "-1",
          "End a thought after so many tokens, by its closing tag; 0: --reasoning off, too; -1: no limit. Requests may "
          "say otherwise.",
          budget_into(chat)),
      row(group, "--reasoning-preserve", {}, {"--no-reasoning-preserve"}, "", "LLAMA_ARG_REASONING_PRESERVE", "on",
          "Keep earlier thoughts in the prompt, where the template lets one choose.",
          switch_into(chat.preserve_reasoning)),
      row(group, "--chat-template-kwargs", {}, {}, "JSON", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS", "{}",
          "More variables for the chat template, as a JSON object; requests may set others.",
          object_into(chat.template_kwargs)),
      row(group, "--skip-chat-parsing", {}, {"--no-skip-chat-parsing"}, "", "LLAMA_ARG_SKIP_CHAT_PARSING", "off",
          "Return everything the model writes as content: calls and thoughts too.", switch_into(chat.skip_parsing)),
      row(group, "--replay", {}, {}, "exact|canonical|off", "", "exact",
          "Earlier turns of the model in a prompt: exact puts the ids there that were sampled, where the client's "
          "message says the same; canonical lets the template write them anew, and prefills that ahead; off: neither.",
          choice_into<Replay>(chat.replay,
                              {{"exact", Replay::kExact}, {"canonical", Replay::kCanonical}, {"off", Replay::kOff}})),
      row(group, "--prefill-ahead", {}, {"--no-prefill-ahead"}, "", "", "on",
          "Where the template writes a finished turn otherwise (without its thinking), prefill that while the server "
          "is idle.",
          switch_into(chat.prefill_ahead)),
      row(group, "--strict-model-names", {}, {}, "", "", "off",
          "Refuse requests that name a model by another name than --alias says (without it, the file's name).",
          switch_into(options.model.strict_names)),
      row(group, "--strict-fields", {}, {}, "", "", "off",
          "Refuse requests with fields that are not known, instead of naming them in the reply's header "
          "x-kvkeep-ignored-fields, the log and the trace.",
          switch_into(options.strict_fields)),
      row(group, "--stabilize", {}, {}, "RULE,...|none", "", "all",
          "What lets prompts share more; billing-line: a leading x-anthropic-billing-header line of the system prompt, "
          "which changes from conversation to conversation and means nothing, is left out; tools-first: where the "
          "template knows no tools, they stand before the system prompt. Not part of all: late-system: system messages "
          "right behind the first user message come before it.",
          parsed_into(options.stabilizers, chat::parse_stabilizers)),
  };
}

}  // namespace kvkeep::cli
