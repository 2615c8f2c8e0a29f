// Responses: output items by index; the closing event repeats the whole response.

#include "bench/sessions/reply_draft.h"

namespace kvkeep::bench {
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

}  // namespace kvkeep::bench
