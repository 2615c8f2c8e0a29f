#include "server/api/anthropic/reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/api/json_body.h"

namespace kvkeep::server::api {
namespace {

using Signature = Hash256<struct ThinkingSignatureTag>;

std::string signature_of(const ByteHasher& thinking) { return "kvkeep-" + thinking.finish<Signature>().hex(); }

void append(ByteHasher& hasher, std::string_view text) { hasher.append(std::as_bytes(std::span(text))); }

std::string event(std::string_view type, Json fields = Json::object()) {
  Json data = {{"type", type}};
  data.update(fields);
  return fmt::format("event: {}\ndata: {}\n\n", type, to_line(data));
}

std::string_view stop_reason_of(const GenerationResult& result) {
  if (result.finish == FinishReason::kToolCalls) return "tool_use";
  if (result.finish == FinishReason::kLength) return "max_tokens";
  return result.stop_string.empty() ? "end_turn" : "stop_sequence";
}

Json stop_sequence_of(const GenerationResult& result) {
  return stop_reason_of(result) == "stop_sequence" ? Json(result.stop_string) : Json();
}

Json input_of(const std::string& arguments) {
  Json input = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (input.is_object()) return input;
  return arguments.empty() ? Json::object() : Json{{"arguments", arguments}};
}

Json call_block(std::string_view id, std::string_view name, Json input) {
  return {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", std::move(input)}};
}

Json block_of(const ReplyPart& part) {
  switch (part.kind) {
    case PartKind::kText: return {{"type", "text"}, {"text", part.text}};
    case PartKind::kReasoning:
      return {{"type", "thinking"}, {"thinking", part.text}, {"signature", thinking_signature(part.text)}};
    case PartKind::kCall: break;
  }
  return call_block(part.call_id, part.call_name, input_of(part.text));
}

}  // namespace

std::string thinking_signature(std::string_view thinking) {
  ByteHasher hasher;
  append(hasher, thinking);
  return signature_of(hasher);
}

AnthropicReplyWriter::AnthropicReplyWriter(ReplyHeader header, std::string request_id, const GenerationRequest& request,
                                           CacheLifetime cache)
    : header_(std::move(header)),
      request_id_(std::move(request_id)),
      cache_(cache),
      timings_per_token_(request.timings_per_token) {}

Json AnthropicReplyWriter::usage(std::size_t prompt_tokens, std::size_t cached_tokens,
                                 std::size_t output_tokens) const {
  const std::size_t computed = prompt_tokens - std::min(cached_tokens, prompt_tokens);
  const std::size_t input = cache_ == CacheLifetime::kNone ? computed : std::min<std::size_t>(computed, 1);
  const std::size_t created = computed - input;
  const bool one_hour = cache_ == CacheLifetime::kOneHour;
  return {
      {"input_tokens", input},
      {"cache_creation_input_tokens", created},
      {"cache_read_input_tokens", cached_tokens},
      {"cache_creation",
       {{"ephemeral_5m_input_tokens", one_hour ? 0 : created}, {"ephemeral_1h_input_tokens", one_hour ? created : 0}}},
      {"output_tokens", output_tokens},
      {"service_tier", "standard"}};
}

Json AnthropicReplyWriter::message(Json content, Json stop_reason, Json stop_sequence, Json counts) const {
  return {{"id", header_.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", header_.model},
          {"content", std::move(content)},
          {"stop_reason", std::move(stop_reason)},
          {"stop_sequence", std::move(stop_sequence)},
          {"usage", std::move(counts)}};
}

std::string AnthropicReplyWriter::first(const ReplyStart& start) {
  Json empty = message(Json::array(), nullptr, nullptr, usage(start.prompt_tokens, start.cached_tokens, 0));
  return event("message_start", {{"message", std::move(empty)}}) + event("ping");
}

std::string AnthropicReplyWriter::progress(const PrefillProgress& progress) {
  return event("ping", {{"prompt_progress", progress_json(progress)}});
}

std::string AnthropicReplyWriter::open(Open kind, Json block) {
  if (open_ == kind && kind != Open::kCall) return {};
  std::string bytes = close();
  open_ = kind;
  if (kind == Open::kThinking) thinking_ = ByteHasher();
  return bytes + event("content_block_start", {{"index", blocks_++}, {"content_block", std::move(block)}});
}

std::string AnthropicReplyWriter::close() {
  const Open was = std::exchange(open_, Open::kNothing);
  if (was == Open::kNothing) return {};
  std::string bytes;
  if (was == Open::kThinking) {
    bytes = block_delta({{"type", "signature_delta"}, {"signature", signature_of(thinking_)}}, nullptr);
  }
  return bytes + event("content_block_stop", {{"index", blocks_ - 1}});
}

std::string AnthropicReplyWriter::block_delta(Json content, const Timings* timings) const {
  Json fields = {{"index", blocks_ - 1}, {"delta", std::move(content)}};
  if (timings_per_token_ && timings != nullptr) fields["timings"] = timings_json(*timings);
  return event("content_block_delta", std::move(fields));
}

std::string AnthropicReplyWriter::delta(const Delta& delta) {
  switch (delta.kind) {
    case DeltaKind::kText:
      if (delta.text.empty()) return {};
      return open(Open::kText, {{"type", "text"}, {"text", ""}})
          .append(block_delta({{"type", "text_delta"}, {"text", delta.text}}, delta.timings));
    case DeltaKind::kReasoning: {
      if (delta.text.empty()) return {};
      std::string bytes = open(Open::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      append(thinking_, delta.text);
      return bytes.append(block_delta({{"type", "thinking_delta"}, {"thinking", delta.text}}, delta.timings));
    }
    case DeltaKind::kCallBegin: return open(Open::kCall, call_block(delta.call_id, delta.call_name, Json::object()));
    case DeltaKind::kCallArguments:
      if (delta.text.empty() || open_ != Open::kCall) return {};
      return block_delta({{"type", "input_json_delta"}, {"partial_json", delta.text}}, delta.timings);
    case DeltaKind::kCallEnd: return close();
  }
  return {};
}

std::string AnthropicReplyWriter::finish(const GenerationResult& result) {
  std::string bytes = close();
  bytes += event("message_delta",
                 {{"delta", {{"stop_reason", stop_reason_of(result)}, {"stop_sequence", stop_sequence_of(result)}}},
                  {"usage", usage(result.prompt_tokens, result.timings.cache_n, result.timings.predicted_n)},
                  {"timings", timings_json(result.timings)}});
  return bytes + event("message_stop");
}

std::string AnthropicReplyWriter::whole(const GenerationResult& result) {
  Json content = Json::array();
  for (const ReplyPart& part : result.content) {
    if (part.kind == PartKind::kCall || !part.text.empty()) content.push_back(block_of(part));
  }
  Json json = message(std::move(content), stop_reason_of(result), stop_sequence_of(result),
                      usage(result.prompt_tokens, result.timings.cache_n, result.timings.predicted_n));
  json["timings"] = timings_json(result.timings);
  return to_line(json);
}

ErrorReply AnthropicReplyWriter::error(const Error& error) const { return anthropic_error_reply(error, request_id_); }

ErrorReply AnthropicReplyWriter::context_exceeded(std::size_t prompt_tokens, bool /*is_counted*/,
                                                  std::size_t context_tokens) const {
  return prompt_too_long_reply(prompt_tokens, context_tokens, request_id_);
}

std::string AnthropicReplyWriter::stream_error(const ErrorReply& reply) const { return anthropic_stream_error(reply); }

namespace {

constexpr int kOverloaded = 529;

int api_status(int status) {
  if (status == 501) return 400;
  return status == 503 ? kOverloaded : status;
}

std::string_view anthropic_type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case kOverloaded: return "overloaded_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

}  // namespace

ErrorReply anthropic_error(int status, std::string_view message, std::string_view request_id) {
  const int known = api_status(status);
  const Json json = {{"type", "error"},
                     {"error", {{"type", anthropic_type_of(known)}, {"message", message}}},
                     {"request_id", request_id}};
  return {known, to_line(json)};
}

ErrorReply anthropic_error_reply(const Error& error, std::string_view request_id) {
  return anthropic_error(status_of(error.kind), error.message, request_id);
}

ErrorReply prompt_too_long_reply(std::size_t prompt_tokens, std::size_t context_tokens, std::string_view request_id) {
  // One token of the context is for the reply. Programs read the two numbers, people the rest.
  const std::size_t most = context_tokens == 0 ? 0 : context_tokens - 1;
  return anthropic_error(
      400,
      fmt::format("prompt is too long: {} tokens > {} maximum (a context of {}, less one token for the "
                  "reply)",
                  prompt_tokens, most, context_tokens),
      request_id);
}

std::string anthropic_stream_error(const ErrorReply& reply) {
  return fmt::format("event: error\ndata: {}\n\n", reply.body);
}

}  // namespace kvkeep::server::api
