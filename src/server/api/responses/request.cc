#include "server/api/responses/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "server/api/anthropic/messages.h"
#include "server/api/generation_fields.h"
#include "server/api/known_fields.h"
#include "server/api/responses/items.h"
#include "server/api/template_switches.h"

namespace kvkeep::server::api {
namespace {

constexpr std::int64_t kMaxOutputTokens = std::numeric_limits<std::int32_t>::max();

Status refuse_what_needs_a_store(const Json& body) {
  constexpr std::string_view kStateless =
      "responses are not stored here. Send the whole conversation in 'input' (clients do so with \"store\": false)";
  for (const char* name : {"previous_response_id", "conversation"}) {
    if (field(body, name) != nullptr) return invalid(fmt::format("'{}' is not supported: {}", name, kStateless));
  }
  if (field(body, "prompt") != nullptr) return invalid("'prompt' is not supported: prompts are not stored here");
  bool background = false;
  TRY(read_bool(body, "background", background));
  if (background) return invalid("'background' is not supported: responses are not stored here");
  return {};
}

Status check_include(const Json& body) {
  std::int64_t scored = 0;
  TRY(read_integer(body, "top_logprobs", scored, 0, INT32_MAX));
  if (scored > 0) return invalid("'top_logprobs' is not supported: probabilities are not reported in responses");
  const Json* include = field(body, "include");
  if (include == nullptr) return {};
  if (!include->is_array()) return wrong_type("include", "an array of strings", *include);
  if (std::ranges::find(*include, "message.output_text.logprobs") == include->end()) return {};
  return invalid("'include': message.output_text.logprobs is not supported: probabilities are not reported");
}

Status check_truncation(const Json& body) {
  std::string truncation = "disabled";
  TRY(read_string(body, "truncation", truncation));
  if (truncation == "auto" || truncation == "disabled") return {};
  return invalid("'truncation' must be 'auto' or 'disabled'");
}

// Templates know three levels; the API has more at both ends.
Status read_effort(const Json& body, Json& kwargs) {
  const Json* reasoning = field(body, "reasoning");
  if (reasoning == nullptr) return {};
  if (!reasoning->is_object()) return wrong_type("reasoning", "an object", *reasoning);
  const Json* effort = field(*reasoning, "effort");
  if (effort == nullptr) return {};
  constexpr std::array kEfforts = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"minimal", "low"}, {"low", "low"}, {"medium", "medium"}, {"high", "high"}, {"xhigh", "high"}, {"max", "high"}});
  if (*effort == "none") {
    set_thinking(kwargs, false);
    return {};
  }
  const auto known = std::ranges::find_if(kEfforts, [&](const auto& pair) { return *effort == pair.first; });
  if (known == kEfforts.end()) {
    return invalid("'reasoning.effort' must be 'none', 'minimal', 'low', 'medium', 'high' or 'xhigh'");
  }
  kwargs["reasoning_effort"] = known->second;
  return {};
}

// Fields of the body replace the server's; chat_template_kwargs, which names variables of the template, comes last.
Result<Json> read_template_kwargs(const Json& body, const Json& servers) {
  Json kwargs = servers.is_object() ? servers : Json::object();
  TRY(read_effort(body, kwargs));
  TRY(read_template_switches(body, kwargs));
  return kwargs.empty() ? Json() : kwargs;
}

Result<chat::RenderInput> read_prompt_fields(const Json& body, MediaReader media, const RequestDefaults& defaults,
                                             ClientTools& names) {
  TRY(refuse_what_needs_a_store(body));
  chat::RenderInput input;
  TRY_ASSIGN(input.messages, read_input(body, media));
  input.media = media.take();
  TRY_ASSIGN(ResponseTools tools, read_response_tools(body));
  input.tools = std::move(tools.tools);
  names = std::move(tools.names);
  TRY_ASSIGN(input.template_kwargs, read_template_kwargs(body, defaults.template_kwargs));
  take_prefill(input);
  if (input.messages.empty()) return invalid("'input' must have a message that the assistant answers");
  return input;
}

// {"format":{"type":"json_schema","name":"...","schema":...,"strict":true}}
Status read_text(const Json& body, OutputFormat& output) {
  const Json* text = field(body, "text");
  if (text == nullptr) return {};
  if (!text->is_object()) return wrong_type("text", "an object", *text);
  const Json* format = field(*text, "format");
  if (format == nullptr) return {};
  if (!format->is_object()) return wrong_type("text.format", "an object", *format);
  std::string type;
  TRY(read_string(*format, "type", type));
  if (type == "text") return {};
  if (type == "json_object") {
    output = AnyJsonObject{};
    return {};
  }
  if (type != "json_schema") return invalid("'text.format.type' must be 'text', 'json_object' or 'json_schema'");
  const Json* schema = field(*format, "schema");
  if (schema == nullptr || !schema->is_object()) return invalid("'text.format.schema' must be an object");
  bool strict = true;
  TRY(read_bool(*format, "strict", strict));
  output = JsonSchemaOutput{.schema = *schema, .path = "text.format.schema", .lenient = !strict};
  return {};
}

// The shortest spelling of a float: 0.8, not 0.800000011920929.
Json shortest(float value) { return Json::parse(fmt::format("{}", value), nullptr, /*allow_exceptions=*/false); }

Json field_or(const Json& body, const char* name, Json otherwise) {
  const Json* value = field(body, name);
  return value == nullptr ? std::move(otherwise) : *value;
}

Json echo_of(const Json& body, const GenerationRequest& request) {
  Json text = field_or(body, "text", Json::object());
  if (field(text, "format") == nullptr) text["format"] = {{"type", "text"}};
  Json reasoning = {{"effort", nullptr}, {"summary", nullptr}};
  reasoning.update(field_or(body, "reasoning", Json::object()));
  return {{"instructions", field_or(body, "instructions", nullptr)},
          {"max_output_tokens", field_or(body, "max_output_tokens", nullptr)},
          {"max_tool_calls", nullptr},
          {"metadata", field_or(body, "metadata", Json::object())},
          {"parallel_tool_calls", request.tools.parallel},
          {"previous_response_id", nullptr},
          {"prompt_cache_key", request.prompt_cache_key.empty() ? Json() : Json(request.prompt_cache_key)},
          {"prompt_cache_retention", field_or(body, "prompt_cache_retention", nullptr)},
          {"reasoning", std::move(reasoning)},
          {"safety_identifier", field_or(body, "safety_identifier", nullptr)},
          {"service_tier", "default"},
          {"store", false},
          {"temperature", shortest(request.sampling.temperature)},
          {"text", std::move(text)},
          {"tool_choice", field_or(body, "tool_choice", "auto")},
          {"tools", field_or(body, "tools", Json::array())},
          {"top_logprobs", 0},
          {"top_p", shortest(request.sampling.top_p)},
          {"truncation", "disabled"},
          {"user", request.user.empty() ? Json() : Json(request.user)}};
}

}  // namespace

Result<ResponsesRequest> parse_responses(std::string body, const RequestDefaults& defaults) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  ResponsesRequest request;
  GenerationRequest& generation = request.generation;
  TRY_ASSIGN(generation.unknown_fields, unknown_fields(json, Dialect::kResponses, defaults.strict_fields));
  TRY_ASSIGN(chat::RenderInput input, read_prompt_fields(json, std::move(media), defaults, request.tools));
  TRY_ASSIGN(generation.tools, read_response_tool_use(json, input.tools));
  TRY(check_include(json));
  TRY(check_truncation(json));
  TRY(read_generation_fields(json, defaults, generation));
  std::int64_t max_tokens = generation.max_tokens.value_or(-1);
  TRY(read_integer(json, "max_output_tokens", max_tokens, 0, kMaxOutputTokens));
  if (max_tokens >= 0) generation.max_tokens = max_tokens;
  TRY(read_text(json, generation.output));
  // This API returns thoughts in items of their own or within the text; both would be sent back twice.
  const bool apart = defaults.reasoning_format != chat::tools::ReasoningFormat::kNone;
  generation.reasoning_format = apart ? chat::tools::ReasoningFormat::kDeepSeek : defaults.reasoning_format;
  generation.prompt = std::move(input);
  request.echo = echo_of(json, generation);
  return request;
}

Result<chat::RenderInput> read_responses_prompt(const Json& body, MediaReader media, const RequestDefaults& defaults) {
  ClientTools unused;
  return read_prompt_fields(body, std::move(media), defaults, unused);
}

Result<CountRequest> parse_input_tokens(std::string body, const RequestDefaults& defaults) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  CountRequest request;
  TRY_ASSIGN(request.unknown_fields, unknown_fields(json, Dialect::kResponses, defaults.strict_fields));
  TRY_ASSIGN(request.prompt, read_responses_prompt(json, std::move(media), defaults));
  TRY(read_string(json, "model", request.model));
  TRY_ASSIGN(request.cache_salt, read_cache_salt(json));
  return request;
}

}  // namespace kvkeep::server::api
