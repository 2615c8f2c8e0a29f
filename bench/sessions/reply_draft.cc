// Chat completions and completions: chunks of a stream, and whole replies, which differ only in "message" for "delta".

#include "bench/sessions/reply_draft.h"

#include <array>

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

// Responses: output items by index; the closing event repeats the whole response.

namespace {

void take_response_usage(const Json& response, ReplyDraft& draft) {
  const Json* usage = field(response, "usage");
  if (usage == nullptr) return;
  if (const auto input = count_field(*usage, "input_tokens")) draft.input_tokens = input;
  if (const auto output = count_field(*usage, "output_tokens")) draft.facts.reply_tokens = output;
  if (const Json* details = field(*usage, "input_tokens_details")) {
    if (const auto cached = count_field(*details, "cached_tokens")) draft.cache_read_tokens = cached;
  }
}

std::string text_of_item(const Json& item) {
  std::string text;
  if (const Json* content = field(item, "content"); content != nullptr && content->is_array()) {
    for (const Json& part : *content) {
      if (text_field(part, "type") == "output_text") text += text_field(part, "text");
    }
  }
  return text_field(item, "type") == "message" ? text : "";
}

// Takes a complete response object: its output replaces that of the deltas.
void take_response(const Json& response, ReplyDraft& draft) {
  if (const Json* error = field(response, "error"); error != nullptr && draft.facts.error.empty()) {
    draft.facts.error = error_text(response);
  }
  if (const Json* output = field(response, "output"); output != nullptr && output->is_array() && !output->empty()) {
    draft.parts.clear();
    std::uint64_t index = 0;
    for (const Json& item : *output) draft.parts[index++] = item;
  }
  take_response_usage(response, draft);
  draft.facts.finish_reason = text_field(response, "status");
  if (const Json* details = field(response, "incomplete_details")) {
    if (std::string reason = text_field(*details, "reason"); !reason.empty()) draft.facts.finish_reason = reason;
  }
}

bool is_piece(std::string_view type) {
  return type == "response.output_text.delta" || type == "response.function_call_arguments.delta" ||
         type == "response.reasoning_text.delta" || type == "response.reasoning_summary_text.delta";
}

bool is_end(std::string_view type) {
  return type == "response.completed" || type == "response.incomplete" || type == "response.failed";
}

}  // namespace

void take_responses_event(const Json& event, ReplyDraft& draft) {
  const std::string type = text_field(event, "type");
  const Json* response = field(event, "response");
  if (is_piece(type)) {
    const std::string delta = text_field(event, "delta");
    draft.answered |= !delta.empty();
    if (type == "response.output_text.delta") draft.facts.text += delta;
  } else if (type == "response.output_item.done") {
    if (const Json* item = field(event, "item")) {
      draft.parts[count_field(event, "output_index").value_or(draft.parts.size())] = *item;
    }
  } else if (is_end(type) && response != nullptr) {
    take_response(*response, draft);
    draft.ended = true;
  } else if (text_field(event, "object") == "response") {
    take_response(event, draft);
  } else if (type == "error" || field(event, "error") != nullptr) {
    if (draft.facts.error.empty()) draft.facts.error = error_text(event);
  }
  take_timings(response != nullptr && field(*response, "timings") != nullptr ? *response : event, draft);
}

void finish_responses(ReplyDraft& draft) {
  settle_counts(draft.input_tokens, draft);
  ReplyFacts& facts = draft.facts;
  if (!draft.parts.empty()) {
    facts.text.clear();
    facts.message = Json::array();
    for (auto& [index, item] : draft.parts) {
      facts.text += text_of_item(item);
      facts.message.push_back(std::move(item));
    }
  } else if (!facts.text.empty()) {
    Json part = {{"type", "output_text"}, {"text", facts.text}};
    Json item = {{"type", "message"}, {"role", "assistant"}, {"content", Json::array({std::move(part)})}};
    facts.message = Json::array({std::move(item)});
  }
}

// Messages: content blocks by index, opened, filled by deltas and closed; usage in parts that do not overlap.

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
