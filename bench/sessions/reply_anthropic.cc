// Messages: content blocks by index, opened, filled by deltas and closed; usage in parts that do not overlap.

#include "bench/sessions/reply_draft.h"

namespace kvkeep::bench {
namespace {

void add_text(Json& block, const char* name, std::string_view text) {
  block[name] = text_field(block, name).append(text);
}

// Later values replace earlier ones: message_delta repeats and corrects message_start.
void take_partial_usage(const Json& object, ReplyDraft& draft) {
  const Json* usage = field(object, "usage");
  if (usage == nullptr) return;
  if (const auto input = count_field(*usage, "input_tokens")) draft.input_tokens = input;
  if (const auto read = count_field(*usage, "cache_read_input_tokens")) draft.cache_read_tokens = read;
  if (const auto made = count_field(*usage, "cache_creation_input_tokens")) draft.cache_creation_tokens = made;
  if (const auto output = count_field(*usage, "output_tokens")) draft.facts.reply_tokens = output;
}

void take_block(std::uint64_t index, const Json& block, ReplyDraft& draft) {
  if (!block.is_object()) return;
  const std::string text = text_field(block, "text");
  draft.facts.text += text;
  draft.answered |= !text.empty() || text_field(block, "type") == "tool_use";
  draft.parts[index] = block;
}

// Returns the block that a delta fills; the delta's kind makes one if no content_block_start opened it.
Json& block_of(std::uint64_t index, const char* type, ReplyDraft& draft) {
  Json& block = draft.parts[index];
  if (!block.is_object()) block = Json::object({{"type", type}});
  return block;
}

void take_delta(std::uint64_t index, const Json& delta, ReplyDraft& draft) {
  const std::string type = text_field(delta, "type");
  if (type == "text_delta") {
    const std::string text = text_field(delta, "text");
    add_text(block_of(index, "text", draft), "text", text);
    draft.facts.text += text;
    draft.answered |= !text.empty();
  } else if (type == "thinking_delta") {
    const std::string thinking = text_field(delta, "thinking");
    add_text(block_of(index, "thinking", draft), "thinking", thinking);
    draft.answered |= !thinking.empty();
  } else if (type == "signature_delta") {
    add_text(block_of(index, "thinking", draft), "signature", text_field(delta, "signature"));
  } else if (type == "input_json_delta") {
    block_of(index, "tool_use", draft);
    draft.arguments[index] += text_field(delta, "partial_json");
    draft.answered = true;
  }
}

// Reads the body of a reply that is no stream, and the "message" of message_start.
void take_content(const Json& message, ReplyDraft& draft) {
  if (const Json* content = field(message, "content"); content != nullptr && content->is_array()) {
    std::uint64_t index = 0;
    for (const Json& block : *content) take_block(index++, block, draft);
  }
  if (std::string reason = text_field(message, "stop_reason"); !reason.empty()) draft.facts.finish_reason = reason;
  take_partial_usage(message, draft);
}

void take_stream_event(const std::string& type, const Json& event, ReplyDraft& draft) {
  const std::uint64_t index = count_field(event, "index").value_or(0);
  if (type == "message_start") {
    if (const Json* message = field(event, "message")) take_content(*message, draft);
  } else if (type == "content_block_start") {
    if (const Json* block = field(event, "content_block")) take_block(index, *block, draft);
  } else if (type == "content_block_delta") {
    if (const Json* delta = field(event, "delta")) take_delta(index, *delta, draft);
  } else if (type == "message_delta") {
    if (const Json* delta = field(event, "delta")) take_content(*delta, draft);
    take_partial_usage(event, draft);
  } else if (type == "message_stop") {
    draft.ended = true;
  }
}

Json input_of(const std::string& arguments) {
  Result<Json> input = parse_json(arguments.empty() ? "{}" : arguments);
  return input ? std::move(input).value() : Json(arguments);
}

}  // namespace

void take_anthropic_event(const Json& event, ReplyDraft& draft) {
  const std::string type = text_field(event, "type");
  if (type == "error" || field(event, "error") != nullptr) {
    if (draft.facts.error.empty()) draft.facts.error = error_text(event);
  } else if (type == "message") {
    take_content(event, draft);
  } else {
    take_stream_event(type, event, draft);
  }
  take_timings(event, draft);
}

void finish_anthropic(ReplyDraft& draft) {
  std::optional<std::uint64_t> prompt = draft.input_tokens;
  if (prompt) *prompt += draft.cache_read_tokens.value_or(0) + draft.cache_creation_tokens.value_or(0);
  settle_counts(prompt, draft);
  if (draft.parts.empty() && draft.facts.finish_reason.empty()) return;
  Json content = Json::array();
  for (auto& [index, block] : draft.parts) {
    if (const auto arguments = draft.arguments.find(index); arguments != draft.arguments.end()) {
      block["input"] = input_of(arguments->second);
    }
    content.push_back(std::move(block));
  }
  draft.facts.message = {{"role", "assistant"}, {"content", std::move(content)}};
}

}  // namespace kvkeep::bench
