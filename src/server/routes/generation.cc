#include "server/routes/generation.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "base/hash.h"
#include "server/routes/call_rules.h"
#include "server/routes/event_queue.h"
#include "server/routes/next_request.h"
#include "server/routes/origin.h"
#include "server/routes/prompt.h"
#include "server/routes/tenant.h"
#include "server/routes/thinking_budget.h"
#include "server/routes/unknown_fields.h"

namespace kvkeep::server {

namespace {

using chat::tools::ReplyDelta;

// How often a waiting HTTP thread looks whether its client is still there.
constexpr std::chrono::milliseconds kGoneCheck{100};
// Silence after which a stream sends a comment: proxies and clients take longer silence for death.
constexpr std::int64_t kKeepAliveNs = 5'000'000'000;

api::Timings timings_of(const JobStats& stats) {
  api::Timings timings;
  timings.cache_n = stats.cached_tokens;
  timings.prompt_n = stats.prompt_tokens - stats.cached_tokens;
  timings.prompt_ms = stats.prompt_ms;
  timings.predicted_n = stats.predicted_tokens;
  timings.predicted_ms = stats.predicted_ms;
  timings.cache_source = to_string(stats.source);
  timings.memory_tokens = stats.memory_tokens;
  timings.ram_tokens = stats.ram_tokens;
  timings.disk_tokens = stats.disk_tokens;
  timings.cache_point = to_string(stats.point);
  timings.cache_miss_reason = to_string(stats.miss);
  return timings;
}

bool known_model(const Service& service, const std::string& name) {
  return name.empty() || name == service.model_name ||
         std::ranges::find(service.aliases, name) != service.aliases.end();
}

void tell_of_other_name(const Service& service, const std::string& name) {
  const SaidOnce::Say say = service.other_models->first(name);
  if (say == SaidOnce::Say::kNot) return;
  spdlog::info("a client asked for the model {}, which is not among -a: {} answers (--strict-model-names refuses){}",
               api::to_line(name.substr(0, SaidOnce::kMostBytes)), service.model_name,
               say == SaidOnce::Say::kNowAndNoMore ? "; further names are not logged" : "");
}

// What the length ended may lack calls, so that it says so; and no client shall run a call that was broken off.
api::FinishReason finish_reason(const DoneEvent& done) {
  if (done.finish == Finish::kLength) return api::FinishReason::kLength;
  return done.whole_calls > 0 ? api::FinishReason::kToolCalls : api::FinishReason::kStop;
}

// Passes events on until the job is done. One object per request, on its HTTP thread.
class Answer {
 public:
  Answer(const Service& service, Generation& generation, std::shared_ptr<EventQueue> events, NextRequest next)
      : service_(service),
        generation_(generation),
        events_(std::move(events)),
        next_(std::move(next)),
        told_(tell_of_unknown_fields(service, generation.http, generation.dialect, generation.request.unknown_fields)) {
  }

  void run() {
    last_sent_ns_ = service_.clock->monotonic_ns();
    for (;;) {
      const std::optional<Event> event = events_->take(kGoneCheck);
      if (event && std::holds_alternative<DoneEvent>(*event)) return finish(std::get<DoneEvent>(*event));
      if (left_ || generation_.http.client_gone()) {
        leave();
      } else if (event) {
        std::visit([this](const auto& known) { handle(known); }, *event);
      } else {
        keep_alive();
      }
    }
  }

 private:
  bool streams() const { return generation_.request.stream; }

  void leave() {
    left_ = true;
    events_->leave();  // the job ends by itself; wait for its on_done
  }

  // False: nobody is there any more.
  bool begin() {
    if (left_) return false;
    if (begun_) return true;
    begun_ = true;
    HeaderList headers{{"Cache-Control", "no-cache"}};
    headers.insert(headers.end(), told_.begin(), told_.end());
    if (!generation_.writer.begin_stream(200, api::kSseContentType, headers)) leave();
    return !left_;
  }

  void write(std::string_view bytes) {
    if (bytes.empty() || !begin()) return;
    last_sent_ns_ = service_.clock->monotonic_ns();
    if (!generation_.writer.write(bytes)) leave();
  }

  // `bytes` are the reply's own, so its opening goes before them.
  void send(const std::string& bytes) {
    if (bytes.empty()) return;
    if (!std::exchange(opened_, true)) write(generation_.reply.first(start_));
    write(bytes);
  }

  void keep_alive() {
    if (!streams() || service_.clock->monotonic_ns() - last_sent_ns_ < kKeepAliveNs) return;
    write(generation_.reply.keep_alive());
  }

  void handle(const PrefillEvent& event) {
    if (!opened_) start_ = {event.stats.prompt_tokens, event.stats.cached_tokens};
    if (!streams() || !generation_.request.return_progress) return;
    send(generation_.reply.progress(
        {event.stats.prompt_tokens, event.stats.cached_tokens, event.processed, event.elapsed_ms}));
  }

  void handle(const TokenEvent& event) {
    next_.add_token(event.token);
    count_reasoning(event.deltas, 1);
    for (const ReplyDelta& delta : event.deltas) next_.add(delta);
    if (!streams()) {
      append(event.deltas);
      tokens_.push_back(event.token);
      return;
    }
    const bool wants_tokens = generation_.request.return_tokens;
    if (event.deltas.empty() && !wants_tokens) return keep_alive();
    const api::Timings timings = timings_of(event.stats);
    const api::Timings* shown = generation_.request.timings_per_token ? &timings : nullptr;
    std::span<const TokenId> tokens{&event.token, wants_tokens ? 1U : 0U};
    if (event.deltas.empty()) return send(generation_.reply.delta({.tokens = tokens, .timings = shown}));
    for (const ReplyDelta& delta : event.deltas) {
      api::Delta one = view_of(delta);
      one.tokens = std::exchange(tokens, {});  // a token goes with the first of what it released
      one.timings = shown;
      send(generation_.reply.delta(one));
    }
  }

  // A token that releases nothing, such as a tag, belongs to what comes next.
  void count_reasoning(const std::vector<ReplyDelta>& deltas, std::size_t tokens) {
    unplaced_tokens_ += tokens;
    if (deltas.empty()) return;
    if (deltas.front().kind == chat::tools::DeltaKind::kReasoning) reasoning_tokens_ += unplaced_tokens_;
    unplaced_tokens_ = 0;
  }

  static api::Delta view_of(const ReplyDelta& delta) {
    return {.kind = delta.kind,
            .text = delta.text,
            .call_index = delta.call_index,
            .call_id = delta.call_id,
            .call_name = delta.call_name,
            .call_is_whole = delta.is_whole};
  }

  void append(const std::vector<ReplyDelta>& deltas) {
    for (const ReplyDelta& delta : deltas) api::append_delta(content_, view_of(delta));
  }

  void handle(const DoneEvent&) {}

  void finish(const DoneEvent& done) {
    if (done.finish == Finish::kError) return fail(done.error.value_or(io_error("generation failed")));
    api::GenerationResult result;
    result.finish = finish_reason(done);
    result.stop_string = done.stop_string;
    result.prompt_tokens = done.stats.prompt_tokens;
    result.timings = timings_of(done.stats);
    count_reasoning(done.deltas, 0);
    result.reasoning_tokens = reasoning_tokens_;
    if (!streams()) {
      if (left_) return;
      append(done.deltas);
      result.content = std::move(content_);
      result.tokens = std::move(tokens_);
      generation_.writer.send(200, api::kJsonContentType, generation_.reply.whole(result), told_);
      return leave_for_next(done);
    }
    for (const ReplyDelta& delta : done.deltas) send(generation_.reply.delta(view_of(delta)));
    send(generation_.reply.finish(result));
    if (left_) return;
    generation_.writer.end();
    leave_for_next(done);
  }

  // A reply that its client did not get does not come back. Whole ones are sent after this, so that a client that
  // leaves at that very moment is not noticed.
  void leave_for_next(const DoneEvent& done) {
    if (generation_.http.client_gone()) return;
    for (const ReplyDelta& delta : done.deltas) next_.add(delta);
    next_.finish(/*calls=*/done.whole_calls > 0, done.stop_string);
  }

  void fail(const Error& error) {
    if (left_) return;
    const api::ErrorReply reply = generation_.reply.error(error);
    if (!begun_) return send_error(generation_.writer, reply);
    write(generation_.reply.stream_error(reply));
    if (!left_) generation_.writer.end();
  }

  const Service& service_;
  Generation& generation_;
  const std::shared_ptr<EventQueue> events_;
  NextRequest next_;
  const HeaderList told_;  // of fields that were ignored
  bool begun_ = false;     // the stream has
  bool opened_ = false;    // reply.first() was sent
  bool left_ = false;
  api::ReplyStart start_;
  std::int64_t last_sent_ns_ = 0;
  std::vector<api::ReplyPart> content_;
  std::vector<TokenId> tokens_;
  std::size_t reasoning_tokens_ = 0;
  std::size_t unplaced_tokens_ = 0;
};

nlohmann::ordered_json callable(const nlohmann::ordered_json& tools, const std::vector<std::string>& allowed) {
  if (allowed.empty()) return tools;
  nlohmann::ordered_json some;
  for (const auto& tool : tools) {
    const auto is_this = [&](const std::string& name) { return tool["function"]["name"] == name; };
    if (std::ranges::any_of(allowed, is_this)) some.push_back(tool);
  }
  return some;
}

// How the reply to a chat is read. Completions are text.
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
  const api::ReplyWriter& reply = generation.reply;
  if (const Status known = check_model(service, request.model); !known) {
    return send_error(writer, reply.error(known.error()));
  }
  Result<engine::GrammarParams> grammar = api::output_grammar(request.output, *service.markers, *service.vocabulary);
  if (!grammar) return send_error(writer, reply.error(grammar.error()));
  std::optional<Reading> reading = reading_of(service, generation);  // before the prompt takes the messages
  std::optional<chat::RenderInput> history = NextRequest::history_of(service, request);
  const auto* chat = std::get_if<chat::RenderInput>(&request.prompt);
  const bool remembered = request.cache_prompt && chat != nullptr && chat->add_generation_prompt;
  const Tenant tenant = tenant_of(service, generation.http, request.cache_salt);
  Result<Prompt> prompt = read_prompt(service, request.prompt, tenant);
  if (!prompt) return send_error(writer, reply.error(prompt.error()));
  if (prompt->tokens_min == 0) return send_error(writer, reply.error(invalid("the prompt is empty")));
  if (prompt->tokens_min >= service.context_tokens) {
    return send_error(writer, reply.context_exceeded(prompt->tokens_min, prompt->is_counted, service.context_tokens));
  }
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
  job.client = client_of(generation.http, tenant);
  job.markers = markers_of(job.prompt, service.turn_openings);
  if (service.traced) job.origin = origin_of(generation.http, request, service.trace_prompts);
  if (reading) {
    reading->options.thinking_open = prompt->thinking_open;
    limit_thinking(service, prompt->thinking_open, job.sampling.thinking);
    const Status possible = constrain_calls(service, *reading, request.tools, job.sampling.grammar);
    if (!possible) return send_error(writer, reply.error(possible.error()));
    // A format holds for what a client sees as the answer.
    const bool after = prompt->thinking_open && !job.sampling.grammar.text.empty();
    if (after) job.sampling.grammar.after = service.reply_format.thinking_close.spelling();
  } else {
    job.sampling.thinking = {};
  }
  auto events = std::make_shared<EventQueue>(service.vocabulary, request.stop, std::move(reading));
  if (const Status accepted = service.scheduler->submit(std::move(job), events); !accepted) {
    return send_error(writer, reply.error(accepted.error()));
  }
  Answer(service, generation, std::move(events), std::move(next)).run();
}

Status check_model(const Service& service, const std::string& name) {
  if (known_model(service, name)) return {};
  if (!service.strict_model_names) {
    if (!service.aliases.empty()) tell_of_other_name(service, name);
    return {};
  }
  return not_found(fmt::format("model '{}' is not served here; GET /v1/models lists what is", name));
}

Result<std::size_t> count_prompt(const Service& service, const std::string& model, chat::RenderInput prompt,
                                 const Tenant& tenant) {
  TRY(check_model(service, model));
  api::PromptSource source = std::move(prompt);
  TRY_ASSIGN(const Prompt counted, read_prompt(service, source, tenant, Counting::kExact));
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
