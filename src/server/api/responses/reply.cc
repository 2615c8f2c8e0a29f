#include "server/api/responses/reply.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "server/api/responses/items.h"

namespace kvkeep::server::api {
namespace {

std::string numbered(std::size_t sequence, std::string_view type, const Json& fields) {
  Json data = {{"type", type}, {"sequence_number", sequence}};
  data.update(fields);
  return fmt::format("event: {}\ndata: {}\n\n", type, to_line(data));
}

Json text_part(std::string_view text) {
  return {{"type", "output_text"}, {"annotations", Json::array()}, {"logprobs", Json::array()}, {"text", text}};
}

Json summary_part(std::string_view text) { return {{"type", "summary_text"}, {"text", text}}; }

Json usage_of(const GenerationResult& result) {
  const std::size_t output_tokens = result.timings.predicted_n;
  return {{"input_tokens", result.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", result.timings.cache_n}}},
          {"output_tokens", output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", result.reasoning_tokens}}},
          {"total_tokens", result.prompt_tokens + output_tokens}};
}

// The arguments of a complete call can be parsed.
bool is_broken_call(const ReplyPart& part) {
  return part.kind == PartKind::kCall && !part.text.empty() && !Json::accept(part.text);
}

// The status of the item that was being written when the reply ended.
std::string_view last_status(const GenerationResult& result) {
  return result.finish == FinishReason::kLength ? "incomplete" : "completed";
}

std::string failed(std::size_t sequence, const ErrorReply& reply, Json response) {
  const Json error = error_of(reply);
  const Json message = error.value("message", Json(""));
  Json code = error.value("code", Json());
  const Json fields = {{"code", code}, {"message", message}, {"param", error.value("param", Json())}, {"error", error}};
  // This API allows no null here.
  if (!code.is_string()) code = reply.status >= 500 ? "server_error" : "invalid_prompt";
  response["error"] = {{"code", code}, {"message", message}};
  return numbered(sequence, "error", fields)
      .append(numbered(sequence + 1, "response.failed", {{"response", std::move(response)}}));
}

}  // namespace

ResponsesReplyWriter::ResponsesReplyWriter(ReplyHeader header, const GenerationRequest& request, ClientTools tools,
                                           Json echo)
    : header_(std::move(header)),
      streams_(request.stream),
      timings_per_token_(request.timings_per_token),
      tools_(std::move(tools)),
      echo_(std::move(echo)) {}

Json ResponsesReplyWriter::response(std::string_view status, Json output) const {
  Json json = {{"id", header_.id},
               {"object", "response"},
               {"created_at", header_.created_s},
               {"status", status},
               {"background", false},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", header_.model},
               {"output", std::move(output)},
               {"usage", nullptr}};
  json.update(echo_);
  return json;
}

Json ResponsesReplyWriter::final_response(const GenerationResult& result, Json output) const {
  Json json = response(last_status(result), std::move(output));
  if (result.finish == FinishReason::kLength) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["usage"] = usage_of(result);
  json["timings"] = timings_json(result.timings);
  return json;
}

const ClientTool* ResponsesReplyWriter::client_tool(std::string_view name) const {
  const auto known = tools_.find(name);
  return known == tools_.end() ? nullptr : &known->second;
}

ResponsesReplyWriter::Item ResponsesReplyWriter::make_item(ReplyPart part, std::size_t index) const {
  constexpr std::string_view kResponse = "resp_";
  std::string_view own = header_.id;
  if (own.starts_with(kResponse)) own.remove_prefix(kResponse.size());
  std::string_view prefix = "fc_";
  if (part.kind == PartKind::kText) prefix = "msg_";
  if (part.kind == PartKind::kReasoning) prefix = "rs_";
  const ClientTool* tool = part.kind == PartKind::kCall ? client_tool(part.call_name) : nullptr;
  if (tool != nullptr && tool->is_custom) prefix = "ctc_";
  return {std::move(part), fmt::format("{}{}{:02x}", prefix, own, index)};
}

Json ResponsesReplyWriter::item_json(const Item& item, std::string_view status) const {
  const ReplyPart& part = item.part;
  const bool is_empty = status == "in_progress";
  if (!is_empty && is_broken_call(part)) status = "incomplete";
  if (part.kind == PartKind::kText) {
    Json content = is_empty ? Json::array() : Json::array({text_part(part.text)});
    return {{"id", item.id},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }
  if (part.kind == PartKind::kReasoning) {
    Json summary = is_empty ? Json::array() : Json::array({summary_part(part.text)});
    return {{"id", item.id},
            {"type", "reasoning"},
            {"status", status},
            {"summary", std::move(summary)},
            {"encrypted_content", is_empty ? Json() : Json(sealed_thoughts(part.text))}};
  }
  const ClientTool* tool = client_tool(part.call_name);
  const bool is_custom = tool != nullptr && tool->is_custom;
  Json json = {{"id", item.id},
               {"type", is_custom ? "custom_tool_call" : "function_call"},
               {"status", status},
               {"call_id", part.call_id},
               {"name", tool == nullptr ? part.call_name : tool->name}};
  if (tool != nullptr && !tool->space.empty()) json["namespace"] = tool->space;
  if (is_custom) {
    json["input"] = is_empty ? "" : custom_input(part.text);
  } else {
    json["arguments"] = is_empty ? "" : part.text;
  }
  return json;
}

std::string ResponsesReplyWriter::event(std::string_view type, Json fields) {
  std::string bytes = first({});
  return bytes.append(numbered(sequence_++, type, fields));
}

std::string ResponsesReplyWriter::item_event(std::string_view type, Json fields) {
  Json all = {{"item_id", item_->id}, {"output_index", output_.size()}};
  all.update(fields);
  return event(type, std::move(all));
}

std::string ResponsesReplyWriter::first(const ReplyStart& /*start*/) {
  if (std::exchange(opened_, true)) return {};
  const Json empty = response("in_progress", Json::array());
  std::string bytes = event("response.created", {{"response", empty}});
  return bytes.append(event("response.in_progress", {{"response", empty}}));
}

std::string ResponsesReplyWriter::progress(const PrefillProgress& progress) {
  return event("response.in_progress",
               {{"response", response("in_progress", Json::array())}, {"prompt_progress", progress_json(progress)}});
}

std::string ResponsesReplyWriter::keep_alive() { return event("keepalive", Json::object()); }

std::string ResponsesReplyWriter::open_item(ReplyPart part) {
  std::string bytes = close_item();
  item_ = make_item(std::move(part), output_.size());
  bytes += event("response.output_item.added",
                 {{"output_index", output_.size()}, {"item", item_json(*item_, "in_progress")}});
  return bytes.append(open_parts());
}

std::string ResponsesReplyWriter::open_parts() {
  switch (item_->part.kind) {
    case PartKind::kText:
      return item_event("response.content_part.added", {{"content_index", 0}, {"part", text_part("")}});
    case PartKind::kReasoning:
      return item_event("response.reasoning_summary_part.added", {{"summary_index", 0}, {"part", summary_part("")}});
    case PartKind::kCall: break;
  }
  return {};
}

std::string ResponsesReplyWriter::close_parts() {
  const ReplyPart& part = item_->part;
  if (part.kind == PartKind::kText) {
    std::string bytes = item_event("response.output_text.done",
                                   {{"content_index", 0}, {"text", part.text}, {"logprobs", Json::array()}});
    return bytes.append(
        item_event("response.content_part.done", {{"content_index", 0}, {"part", text_part(part.text)}}));
  }
  if (part.kind == PartKind::kReasoning) {
    std::string bytes = item_event("response.reasoning_summary_text.done", {{"summary_index", 0}, {"text", part.text}});
    return bytes.append(
        item_event("response.reasoning_summary_part.done", {{"summary_index", 0}, {"part", summary_part(part.text)}}));
  }
  const ClientTool* tool = client_tool(part.call_name);
  if (tool == nullptr || !tool->is_custom) {
    return item_event("response.function_call_arguments.done",
                      {{"name", tool == nullptr ? part.call_name : tool->name}, {"arguments", part.text}});
  }
  // The text of a custom call is known only when its arguments are complete.
  const std::string input = custom_input(part.text);
  std::string bytes = item_event("response.custom_tool_call_input.delta", {{"delta", input}});
  return bytes.append(item_event("response.custom_tool_call_input.done", {{"input", input}}));
}

std::string ResponsesReplyWriter::close_item(std::string_view status) {
  if (!item_) return {};
  std::string bytes = close_parts();
  Json done = item_json(*item_, status);
  bytes += event("response.output_item.done", {{"output_index", output_.size()}, {"item", done}});
  output_.push_back(std::move(done));
  item_.reset();
  return bytes;
}

std::string ResponsesReplyWriter::add_text(PartKind kind, const Delta& delta) {
  if (delta.text.empty()) return {};
  std::string bytes;
  if (!item_ || item_->part.kind != kind) bytes = open_item({.kind = kind});
  item_->part.text += delta.text;
  Json fields = {{"delta", delta.text}};
  if (kind == PartKind::kText) fields.update({{"content_index", 0}, {"logprobs", Json::array()}});
  if (kind == PartKind::kReasoning) fields["summary_index"] = 0;
  if (timings_per_token_ && delta.timings != nullptr) fields["timings"] = timings_json(*delta.timings);
  constexpr std::array kTypes =
      std::to_array<std::string_view>({"response.output_text.delta", "response.reasoning_summary_text.delta"});
  return bytes.append(item_event(kTypes.at(kind == PartKind::kText ? 0 : 1), std::move(fields)));
}

std::string ResponsesReplyWriter::delta(const Delta& delta) {
  switch (delta.kind) {
    case DeltaKind::kText: return add_text(PartKind::kText, delta);
    case DeltaKind::kReasoning: return add_text(PartKind::kReasoning, delta);
    case DeltaKind::kCallBegin:
      return open_item({.kind = PartKind::kCall,
                        .text = {},
                        .call_id = std::string(delta.call_id),
                        .call_name = std::string(delta.call_name)});
    case DeltaKind::kCallArguments: {
      if (delta.text.empty() || !item_ || item_->part.kind != PartKind::kCall) return {};
      item_->part.text += delta.text;
      const ClientTool* tool = client_tool(item_->part.call_name);
      if (tool != nullptr && tool->is_custom) return {};
      return item_event("response.function_call_arguments.delta", {{"delta", delta.text}});
    }
    case DeltaKind::kCallEnd: return close_item();
  }
  return {};
}

std::string ResponsesReplyWriter::finish(const GenerationResult& result) {
  std::string bytes = close_item(last_status(result));
  const Json response = final_response(result, std::move(output_));
  return bytes.append(event(fmt::format("response.{}", last_status(result)),
                            {{"response", response}, {"timings", response["timings"]}}));
}

std::string ResponsesReplyWriter::whole(const GenerationResult& result) {
  Json output = Json::array();
  for (const ReplyPart& part : result.content) {
    if (part.kind != PartKind::kCall && part.text.empty()) continue;
    const bool is_last = &part == &result.content.back();
    output.push_back(item_json(make_item(part, output.size()), is_last ? last_status(result) : "completed"));
  }
  return to_line(final_response(result, std::move(output)));
}

ErrorReply ResponsesReplyWriter::error(const Error& error) const { return responses_error_reply(error); }

ErrorReply ResponsesReplyWriter::context_exceeded(std::size_t prompt_tokens, bool is_counted,
                                                  std::size_t context_tokens) const {
  ErrorReply reply = input_too_long_reply(prompt_tokens, is_counted, context_tokens);
  if (!streams_) return reply;
  std::string bytes = numbered(0, "response.created", {{"response", response("in_progress", Json::array())}});
  bytes += failed(1, reply, response("failed", Json::array()));
  return {.status = 200, .body = std::move(bytes), .is_stream = true};
}

std::string ResponsesReplyWriter::stream_error(const ErrorReply& reply) const {
  return failed(sequence_, reply, response("failed", output_));
}

namespace {

std::string_view responses_type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

Json code_of(int status) {
  if (status == 401) return "invalid_api_key";
  return nullptr;
}

Json param_of(std::string_view message) {
  if (!message.starts_with('\'')) return nullptr;
  const std::size_t end = message.find('\'', 1);
  return end == std::string_view::npos ? Json() : Json(message.substr(1, end - 1));
}

ErrorReply reply(int status, Json error) { return {status, to_line({{"error", std::move(error)}})}; }

}  // namespace

ErrorReply responses_error(int status, std::string_view message) {
  return reply(status, {{"message", message},
                        {"type", responses_type_of(status)},
                        {"param", status == 400 || status == 413 ? param_of(message) : Json()},
                        {"code", code_of(status)}});
}

ErrorReply responses_error_reply(const Error& error) { return responses_error(status_of(error.kind), error.message); }

ErrorReply input_too_long_reply(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens) {
  const std::string message =
      fmt::format("Your input exceeds the context window of this model: {}{} tokens of input, {} of context",
                  is_counted ? "" : "at least ", prompt_tokens, context_tokens);
  return reply(400, {{"message", message},
                     {"type", "invalid_request_error"},
                     {"param", "input"},
                     {"code", "context_length_exceeded"},
                     {"n_prompt_tokens", prompt_tokens},
                     {"n_ctx", context_tokens}});
}

ErrorReply response_not_found() {
  return reply(404, {{"message",
                      "No such response: responses are not stored here (their 'store' is false). Keep the response, "
                      "and send it again within 'input'"},
                     {"type", "invalid_request_error"},
                     {"param", nullptr},
                     {"code", "not_found"}});
}

Json error_of(const ErrorReply& reply) {
  const Json body = Json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  return body.is_object() && body.contains("error") ? body["error"] : Json::object();
}

}  // namespace kvkeep::server::api
