#include "server/routes/generation.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "base/hash.h"
#include "server/routes/answer.h"
#include "server/routes/next_request.h"
#include "server/routes/prompt.h"
#include "server/routes/reply_rules.h"
#include "server/routes/sender.h"

namespace kvkeep::server {

namespace {

bool known_model(const Service& service, const std::string& name) {
  return name.empty() || name == service.model_name ||
         std::ranges::find(service.aliases, name) != service.aliases.end();
}

void tell_of_other_name(const Service& service, const std::string& name) {
  const SaidOnce::Say say = service.other_models->first(name);
  if (say == SaidOnce::Say::kNot) return;
  spdlog::info(
      "a client asked for the model {}, which is not among -a: {} answers (--strict-model-names would refuse){}",
      api::to_line(name.substr(0, SaidOnce::kMostBytes)), service.model_name,
      say == SaidOnce::Say::kNowAndNoMore ? "; further names are not logged" : "");
}

nlohmann::ordered_json callable(const nlohmann::ordered_json& tools, const std::vector<std::string>& allowed) {
  if (allowed.empty()) return tools;
  nlohmann::ordered_json some;
  for (const auto& tool : tools) {
    const auto is_this = [&](const std::string& name) { return tool["function"]["name"] == name; };
    if (std::ranges::any_of(allowed, is_this)) some.push_back(tool);
  }
  return some;
}

// How to read the reply to a chat. Completions are text.
std::optional<Reading> reading_of(const Service& service, const Generation& generation) {
  const auto* chat = std::get_if<chat::RenderInput>(&generation.request.prompt);
  if (chat == nullptr) return std::nullopt;
  const api::ToolUse& use = generation.request.tools;
  Reading reading{.format = &service.reply_format, .markers = service.markers.get()};
  reading.tools = chat::tools::ToolSet(callable(chat->tools, use.allowed), /*is_closed=*/!use.allowed.empty());
  reading.options = {.calls = !reading.tools.empty() && use.choice != api::ToolChoice::kNone,
                     .parallel = use.parallel,
                     .reasoning = generation.request.reasoning_format,
                     .id_seed = generation.id};
  return reading;
}

}  // namespace

void generate(const Service& service, Generation generation) {
  api::GenerationRequest& request = generation.request;
  ResponseWriter& writer = generation.writer;
  const api::ReplyWriter& reply = *generation.reply;
  if (const Status known = check_model(service, request.model); !known) {
    return send_error(writer, reply.error(known.error()));
  }
  Result<engine::GrammarParams> grammar = api::output_grammar(request.output, *service.markers, *service.vocabulary);
  if (!grammar) return send_error(writer, reply.error(grammar.error()));
  std::optional<Reading> reading = reading_of(service, generation);  // before the prompt takes the messages
  const MessagesAfter messages =
      NextRequest::wants_history(service, request) ? MessagesAfter::kStay : MessagesAfter::kGone;
  const auto* chat = std::get_if<chat::RenderInput>(&request.prompt);
  const bool remembered = request.cache_prompt && chat != nullptr && chat->add_generation_prompt;
  const Tenant tenant = tenant_of(service, generation.http, request.cache_salt);
  Result<Prompt> prompt =
      read_prompt(service, request.prompt, tenant, generation.http.client_gone, Counting::kWhereItFits, messages);
  if (!prompt) return send_error(writer, reply.error(prompt.error()));
  if (prompt->tokens_min == 0) return send_error(writer, reply.error(invalid("the prompt is empty")));
  if (prompt->tokens_min >= service.context_tokens) {
    return send_error(writer, reply.context_exceeded(prompt->tokens_min, prompt->is_counted, service.context_tokens));
  }
  std::optional<chat::RenderInput> history;
  if (messages == MessagesAfter::kStay) history = std::move(std::get<chat::RenderInput>(request.prompt));
  NextRequest next(service, generation.id, std::move(history), prompt->ids, remembered, tenant);
  Job job;
  job.id = generation.id;
  job.kind = generation.kind;
  job.prompt = std::move(prompt->ids);
  job.sampling = request.sampling;
  job.sampling.grammar = std::move(*grammar);
  job.max_tokens = request.max_tokens;
  job.cache_prompt = request.cache_prompt;
  job.keep_s = request.keep_s;
  job.tenant = tenant;
  job.scored_tokens = request.scored_tokens;
  job.client = client_of(generation.http, tenant);
  job.markers = markers_of(job.prompt, service.turn_openings);
  if (service.traced) job.origin = origin_of(generation.http, request, service.trace_prompts);
  if (reading) {
    reading->options.thinking_open = prompt->thinking_open;
    limit_thinking(service, prompt->thinking_open, job.sampling.thinking);
    const Status possible = constrain_calls(service, *reading, request.tools, job.sampling.grammar);
    if (!possible) return send_error(writer, reply.error(possible.error()));
    // A format applies to the part that a client sees as the answer.
    const bool after = prompt->thinking_open && !job.sampling.grammar.text.empty();
    if (after) job.sampling.grammar.after = service.reply_format.thinking_close.spelling();
  } else {
    job.sampling.thinking = {};
  }
  AnswerForm form{request.stream, request.return_progress, request.return_tokens, request.timings_per_token,
                  tell_of_unknown_fields(service, generation.http, generation.dialect, request.unknown_fields)};
  const auto answer =
      std::make_shared<Answer>(service, std::move(form), writer.keep(), std::move(generation.reply), std::move(next));
  // From here on the answer makes the reply, on the thread that serves all connections.
  auto sink = answer->open(std::move(request.stop), std::move(reading));
  if (const Status accepted = service.scheduler->submit(std::move(job), std::move(sink)); !accepted) {
    send_error(writer, answer->error(accepted.error()));
  }
}

std::string take_body(const Service& service, HttpRequest& http) {
  return service.trace_prompts ? http.body : std::exchange(http.body, {});
}

Status check_model(const Service& service, const std::string& name) {
  if (known_model(service, name)) return {};
  if (!service.strict_model_names) {
    if (!service.aliases.empty()) tell_of_other_name(service, name);
    return {};
  }
  return not_found(fmt::format("model '{}' is not served here; GET /v1/models lists the served names", name));
}

Result<std::size_t> count_prompt(const Service& service, const HttpRequest& http, const std::string& model,
                                 chat::RenderInput prompt, const Tenant& tenant) {
  TRY(check_model(service, model));
  api::PromptSource source = std::move(prompt);
  TRY_ASSIGN(const Prompt counted, read_prompt(service, source, tenant, http.client_gone, Counting::kExact));
  return counted.tokens_min;
}

void send_error(ResponseWriter& writer, const api::ErrorReply& error) {
  writer.send(error.status, error.is_stream ? api::kSseContentType : api::kJsonContentType, error.body);
}

api::ReplyHeader reply_header(const Service& service, const std::string& prefix) {
  static std::atomic<std::uint64_t> count{0};
  const std::int64_t now_ns = service.clock->wall_ns();
  ByteHasher unique;
  unique.append_field(static_cast<std::uint64_t>(now_ns));
  unique.append_field(++count);
  const std::string id = unique.finish<Hash256<struct RequestIdTag>>().hex(16);
  return {prefix + id, now_ns / 1'000'000'000, service.model_name, service.system_fingerprint};
}

}  // namespace kvkeep::server
