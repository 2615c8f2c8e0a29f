// Chat completions and completions: chunks of a stream, and whole replies, which differ only in "message" for "delta".

#include <array>

#include "bench/sessions/reply_draft.h"

namespace kvkeep::bench {
namespace {

// Text, or the texts of parts.
std::string text_of_content(const Json& piece) {
  const Json* content = field(piece, "content");
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (content->is_array()) {
    for (const Json& part : *content) text += text_field(part, "text");
  }
  return text;
}

// Servers that omit the index send a call at once, or continue the last one.
std::uint64_t index_of(const Json& call, const ReplyDraft& draft) {
  if (const auto index = count_field(call, "index")) return *index;
  if (draft.parts.empty()) return 0;
  const auto& [last, part] = *draft.parts.rbegin();
  const std::string id = text_field(call, "id");
  return id.empty() || id == text_field(part, "id") ? last : last + 1;
}

void take_call(const Json& call, ReplyDraft& draft) {
  const std::uint64_t index = index_of(call, draft);
  Json& part = draft.parts[index];
  if (part.is_null()) part = {{"id", ""}, {"type", "function"}, {"function", {{"name", ""}, {"arguments", ""}}}};
  if (std::string id = text_field(call, "id"); !id.empty()) part["id"] = id;
  const Json* function = field(call, "function");
  if (function == nullptr) return;
  Json& known = part["function"];
  known["name"] = text_field(known, "name") + text_field(*function, "name");
  const Json* arguments = field(*function, "arguments");
  if (arguments == nullptr) return;
  draft.arguments[index] += arguments->is_string() ? arguments->get<std::string>() : to_line(*arguments);
}

void take_message(const Json& piece, ReplyDraft& draft) {
  const std::string text = text_of_content(piece);
  std::string reasoning = text_field(piece, "reasoning_content");
  if (reasoning.empty()) reasoning = text_field(piece, "reasoning");
  draft.facts.text += text;
  draft.reasoning += reasoning;
  const Json* calls = field(piece, "tool_calls");
  const bool has_calls = calls != nullptr && calls->is_array() && !calls->empty();
  if (has_calls) {
    for (const Json& call : *calls) take_call(call, draft);
  }
  draft.answered |= !text.empty() || !reasoning.empty() || has_calls;
}

void take_choice(const Json& choice, ReplyDraft& draft) {
  if (count_field(choice, "index").value_or(0) != 0) return;  // n > 1: the first one belongs to the conversation
  for (const char* name : {"delta", "message"}) {
    if (const Json* piece = field(choice, name)) take_message(*piece, draft);
  }
  const std::string text = text_field(choice, "text");
  draft.facts.text += text;
  draft.answered |= !text.empty();
  if (std::string reason = text_field(choice, "finish_reason"); !reason.empty()) draft.facts.finish_reason = reason;
}

void take_usage(const Json& event, ReplyDraft& draft) {
  const Json* usage = field(event, "usage");
  if (usage == nullptr) return;
  if (const auto prompt = count_field(*usage, "prompt_tokens")) draft.input_tokens = prompt;
  if (const auto reply = count_field(*usage, "completion_tokens")) draft.facts.reply_tokens = reply;
  if (const Json* details = field(*usage, "prompt_tokens_details")) {
    if (const auto cached = count_field(*details, "cached_tokens")) draft.cache_read_tokens = cached;
  } else if (const auto hit = count_field(*usage, "prompt_cache_hit_tokens")) {
    draft.cache_read_tokens = hit;
  }
}

}  // namespace

void take_openai_event(const Json& event, ReplyDraft& draft) {
  if (field(event, "error") != nullptr && draft.facts.error.empty()) draft.facts.error = error_text(event);
  if (const Json* choices = field(event, "choices"); choices != nullptr && choices->is_array()) {
    for (const Json& choice : *choices) take_choice(choice, draft);
  }
  take_usage(event, draft);
  take_timings(event, draft);
}

void finish_openai_chat(ReplyDraft& draft) {
  settle_counts(draft.input_tokens, draft);
  const ReplyFacts& facts = draft.facts;
  if (facts.text.empty() && draft.reasoning.empty() && draft.parts.empty() && facts.finish_reason.empty()) return;
  Json message = {{"role", "assistant"}, {"content", facts.text}};
  if (facts.text.empty() && !draft.parts.empty()) message["content"] = nullptr;
  if (!draft.reasoning.empty()) message["reasoning_content"] = draft.reasoning;
  for (auto& [index, call] : draft.parts) {
    call["function"]["arguments"] = draft.arguments[index];
    message["tool_calls"].push_back(std::move(call));
  }
  draft.facts.message = std::move(message);
}

void finish_openai_completion(ReplyDraft& draft) {
  settle_counts(draft.input_tokens, draft);
  if (!draft.facts.text.empty() || !draft.facts.finish_reason.empty()) draft.facts.message = draft.facts.text;
}

}  // namespace kvkeep::bench
