#include "chat/render.h"

#include <optional>
#include <utility>
#include <vector>

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";

bool mentions(const ChatTemplate& chat_template, std::string_view word) {
  return chat_template.source().find(word) != std::string_view::npos;
}

std::string_view trim_newlines(std::string_view text) {
  const std::size_t begin = text.find_first_not_of('\n');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of('\n') + 1 - begin);
}

std::string joined_parts(const ordered_json& parts) {
  std::string text;
  for (const ordered_json& part : parts) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) continue;
    const std::string& more = part["text"].get_ref<const std::string&>();
    if (!text.empty() && !ends_with_media_name(text) && !begins_with_media_name(more)) text += '\n';
    text += more;
  }
  return text;
}

void parse_arguments(ordered_json& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (ordered_json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].contains("arguments")) continue;
    ordered_json& arguments = call["function"]["arguments"];
    if (!arguments.is_string()) continue;
    const std::string text = arguments.get<std::string>();
    ordered_json parsed = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    // Clients send wrong arguments of a model back; the turn must still render.
    if (!parsed.is_object()) parsed = text.empty() ? ordered_json::object() : ordered_json{{"arguments", text}};
    arguments = std::move(parsed);
  }
}

void move_reasoning(ordered_json& message) {
  if (message["role"] != "assistant" || message.contains("reasoning_content")) return;
  const std::string content = message["content"].get<std::string>();
  const std::size_t close = content.rfind(kThinkClose);
  if (close == std::string::npos) return;
  std::string_view reasoning = std::string_view(content).substr(0, content.find(kThinkClose));
  if (const std::size_t open = reasoning.rfind(kThinkOpen); open != std::string_view::npos) {
    reasoning.remove_prefix(open + kThinkOpen.size());
  }
  std::string_view answer = std::string_view(content).substr(close + kThinkClose.size());
  while (answer.starts_with('\n')) answer.remove_prefix(1);
  message["reasoning_content"] = std::string(trim_newlines(reasoning));
  message["content"] = std::string(answer);
}

void add_thinking(const TemplateTraits& traits, ordered_json& message) {
  if (!message.contains("reasoning_content") || !message["reasoning_content"].is_string()) return;
  if (message.contains("thinking") || message["reasoning_content"].get_ref<const std::string&>().empty()) return;
  const bool calls = message.contains("tool_calls") && !message["tool_calls"].empty();
  if (traits.refuses_thinking_beside_content && calls && message["content"] != "") return;
  message["thinking"] = message["reasoning_content"];
}

// Looks for markers only within one stretch of the template's words at a time: a message next to it can neither
// complete a marker nor make a longer one of it.
void append_template_text(const MarkerSet& markers, std::string_view text, RenderedPrompt& prompt) {
  const auto append = [&](std::string_view plain) {
    if (!plain.empty()) prompt.spans.push_back({.kind = SpanKind::kText, .marker = -1, .text = std::string(plain)});
  };
  std::size_t at = 0;
  while (const auto match = markers.next(text, at)) {
    append(text.substr(at, match->begin - at));
    prompt.spans.push_back({.kind = SpanKind::kMarker, .marker = match->marker->id, .text = match->marker->spelling});
    at = match->end;
  }
  append(text.substr(at));
}

PromptSpan message_text(std::string text, std::uint32_t place = 0) {
  return {.kind = SpanKind::kMessageText, .marker = -1, .text = std::move(text), .place = place};
}

// Puts spans of their own where names stand.
void split_at_names(const PromptMedia& media, RenderedPrompt& prompt, std::vector<bool>& found) {
  std::vector<PromptSpan> spans;
  for (PromptSpan& span : prompt.spans) {
    const std::string text = span.kind == SpanKind::kMessageText ? span.text : std::string();
    std::size_t at = 0;
    while (const auto match = media.names.next(text, at)) {
      if (match->begin > at) spans.push_back(message_text(text.substr(at, match->begin - at), span.place));
      spans.push_back({.kind = SpanKind::kMedia,
                       .text = text.substr(match->begin, match->end - match->begin),
                       .place = span.place,
                       .number = match->number});
      found.at(match->number) = true;
      at = match->end;
    }
    if (at > 0 && at < text.size()) spans.push_back(message_text(text.substr(at), span.place));
    if (at == 0) spans.push_back(std::move(span));
  }
  prompt.spans = std::move(spans);
}

Result<RenderedPrompt> with_media(const PromptMedia& media, RenderedPrompt prompt) {
  if (media.files.empty()) return prompt;
  std::vector<bool> found(media.files.size());
  split_at_names(media, prompt, found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) continue;
    return invalid("the model's chat template leaves out '" + media.files[i].place +
                   "': send the message without it, or start the server with another --chat-template");
  }
  return prompt;
}

RenderedPrompt spans_of(const PrintedChat& printed, const MarkerSet& markers) {
  RenderedPrompt prompt{.spans = {}, .places = printed.places};
  std::string_view rest = printed.text;
  for (const jinja::PrintedRun& run : printed.runs) {
    const std::string_view text = rest.substr(0, run.size_bytes);
    rest.remove_prefix(run.size_bytes);
    if (jinja::is_message(run.origin)) {
      prompt.spans.push_back(message_text(std::string(text), jinja::place_of(run.origin)));
    } else {
      append_template_text(markers, text, prompt);
    }
  }
  return prompt;
}

// The beginning of an answer that goes on.
struct Beginning {
  std::string reasoning;
  std::string answer;
  bool thinks = false;  // it goes on within the thought
};

Beginning beginning_of(const ChatTemplate& chat_template, const RenderInput& input) {
  Beginning beginning{input.assistant_reasoning, input.assistant_prefix, false};
  const bool in_content = beginning.reasoning.empty() && mentions(chat_template, kThinkClose);
  if (in_content && beginning.answer.starts_with(kThinkOpen)) {
    ordered_json message = {{"role", "assistant"}, {"content", beginning.answer}};
    move_reasoning(message);
    if (message.contains("reasoning_content")) return {message["reasoning_content"], message["content"], false};
    beginning = {std::string(trim_newlines(beginning.answer.substr(kThinkOpen.size()))), {}, true};
  }
  beginning.thinks |= beginning.answer.empty();
  return beginning;
}

// A content that no message has: it marks the place of the content in the printed prompt.
constexpr std::string_view kPlaceholder = "kvkeeptheanswergoesonhere";

// The prompt before the content of a last message by the assistant, or before its thinking; nullopt if the template
// shows no such message.
std::optional<RenderedPrompt> open_answer(const ChatTemplate& chat_template, const MarkerSet& markers,
                                          const RenderInput& input, const Beginning& beginning) {
  ordered_json answer = {{"role", "assistant"}, {"content", beginning.thinks ? "" : kPlaceholder}};
  if (beginning.thinks) {
    answer["reasoning_content"] = kPlaceholder;
  } else if (!beginning.reasoning.empty()) {
    answer["reasoning_content"] = beginning.reasoning;
  }
  RenderInput whole = input;
  whole.add_generation_prompt = false;
  whole.messages.push_back(canonical_messages(chat_template, ordered_json::array({answer}))[0]);
  const auto printed = chat_template.print(whole);
  if (!printed) return std::nullopt;
  RenderedPrompt prompt = spans_of(*printed, markers);
  for (std::size_t i = prompt.spans.size(); i-- > 0;) {
    const std::size_t at = prompt.spans[i].text.rfind(kPlaceholder);
    if (at == std::string::npos) continue;
    prompt.spans[i].text.resize(at);
    prompt.spans.resize(at == 0 ? i : i + 1);
    return prompt;
  }
  return std::nullopt;
}

}  // namespace

ordered_json canonical_messages(const ChatTemplate& chat_template, ordered_json messages) {
  const bool knows_developer = mentions(chat_template, "developer");
  const bool cuts_reasoning =
      mentions(chat_template, "split('</think>')") || mentions(chat_template, "split(\"</think>\")");
  for (ordered_json& message : messages) {
    if (!message.is_object()) continue;
    if (!knows_developer && message["role"] == "developer") message["role"] = "system";
    ordered_json& content = message["content"];
    if (content.is_array()) content = joined_parts(content);
    if (content.is_null()) content = "";
    if (chat_template.wants_object_arguments()) parse_arguments(message);
    if (cuts_reasoning && content.is_string()) move_reasoning(message);
    if (chat_template.traits().thinking_field && message["role"] == "assistant") {
      add_thinking(chat_template.traits(), message);
    }
  }
  return messages;
}

ordered_json canonical_tools(ordered_json tools) {
  if (!tools.is_array()) return tools;
  for (ordered_json& tool : tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    const auto taken = [&function = tool["function"]](const char* name, ordered_json missing) {
      const auto found = function.find(name);
      return found == function.end() || found->is_null() ? missing : std::move(*found);
    };
    tool = {{"type", "function"},
            {"function",
             {{"name", taken("name", "")},
              {"description", taken("description", "")},
              {"parameters", taken("parameters", ordered_json::object())}}}};
  }
  return tools;
}

namespace {

Result<RenderedPrompt> render_text(const ChatTemplate& chat_template, const MarkerSet& markers, RenderInput input) {
  input.tools = canonical_tools(std::move(input.tools));
  input.messages = canonical_messages(chat_template, std::move(input.messages));
  if (input.goes_on()) {
    Beginning beginning = beginning_of(chat_template, input);
    if (auto opened = open_answer(chat_template, markers, input, beginning)) {
      std::string& text = beginning.thinks ? beginning.reasoning : beginning.answer;
      if (!text.empty()) opened->spans.push_back(message_text(std::move(text)));
      return *std::move(opened);
    }
  }
  TRY_ASSIGN(const PrintedChat printed, chat_template.print(input));
  input.messages = nullptr;  // they may be large, and the prompt is a second copy
  RenderedPrompt prompt = spans_of(printed, markers);
  if (!input.assistant_prefix.empty()) prompt.spans.push_back(message_text(std::move(input.assistant_prefix)));
  return prompt;
}

}  // namespace

Result<RenderedPrompt> render_prompt(const ChatTemplate& chat_template, const MarkerSet& markers, RenderInput input) {
  const PromptMedia media = std::exchange(input.media, {});
  TRY_ASSIGN(RenderedPrompt prompt, render_text(chat_template, markers, std::move(input)));
  return with_media(media, std::move(prompt));
}

}  // namespace kvkeep::chat
