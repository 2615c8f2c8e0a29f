#include "server/routes/generation.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/hash.h"
#include "server/http/reply_head.h"
#include "server/routes/answer.h"
#include "server/routes/next_request.h"
#include "server/routes/prompt.h"
#include "server/routes/reply_room.h"
#include "server/routes/reply_rules.h"
#include "server/routes/sender.h"
#include "server/run/scheduler_stats.h"

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

constexpr std::size_t kMostBiases = 1'000'000;  // a vocabulary for one reply, or a few tokens for 1,024

// Makes the jobs of one request and the choices of their answer.
class Starter {
 public:
  Starter(const Service& service, Generation& generation)
      : service_(service),
        generation_(generation),
        request_(generation.request),
        adapters_(service.adapters->for_job(request_.adapters)),
        tenant_(tenant_of(service, generation.http, request_.cache_salt, adapters_)),
        reading_(reading_of(service, generation)),  // before the prompt takes the messages
        room_(request_.scored_tokens, request_.score_prompt, request_.stream) {}

  // Reads all prompts. Returns the error to send if one of them cannot be served.
  std::optional<api::ErrorReply> prepare() {
    const Result<engine::GrammarParams> grammar =
        api::output_grammar(wanted_output(), *service_.markers, *service_.vocabulary);
    if (!grammar) return generation_.reply->error(grammar.error());
    add_text_biases();
    // Each reply has a sampler, and a list of settings, with all of them.
    if (const std::size_t biases = request_.sampling.logit_bias.size() * request_.choices(); biases > kMostBiases) {
      return generation_.reply->error(invalid(fmt::format(
          "'logit_bias' has {} entries for all replies together; at most {} are possible", biases, kMostBiases)));
    }
    if (auto refused = prepare(request_.prompt, *grammar)) return refused;
    for (api::PromptSource& prompt : request_.more_prompts) {
      if (auto refused = prepare(prompt, *grammar)) return refused;
    }
    return std::nullopt;
  }

  // Opens the choices of the answer; then the jobs can be submitted, once.
  std::vector<Submission> open(Answer& answer) {
    std::vector<Submission> submissions;
    std::size_t number = 0;
    for (Prepared& prepared : prepared_) {
      Submission& made = submissions.emplace_back();
      for (std::size_t i = 0; i < request_.choices_per_prompt; ++i, ++number) {
        made.replies.push_back(open_choice(answer, prepared, number));
      }
      made.job = std::move(prepared.job);
    }
    return submissions;
  }

 private:
  struct Prepared {
    Job job;
    bool remembered = false;
    bool thinking_open = false;
    std::optional<chat::RenderInput> history = {};
  };

  std::optional<api::ErrorReply> prepare(api::PromptSource& source, const engine::GrammarParams& grammar) {
    const api::ReplyWriter& reply = *generation_.reply;
    // Of several choices nobody knows which one goes on.
    const bool looks_ahead = request_.choices() == 1 && NextRequest::wants_history(service_, request_);
    const auto* chat = std::get_if<chat::RenderInput>(&source);
    const bool remembered = request_.cache_prompt && chat != nullptr && chat->add_generation_prompt;
    Result<Prompt> prompt = read_prompt(service_, source, tenant_, generation_.http.client_gone, Counting::kWhereItFits,
                                        looks_ahead ? MessagesAfter::kStay : MessagesAfter::kGone, request_.max_tokens);
    if (!prompt) return reply.error(prompt.error());
    if (prompt->tokens_min == 0) return reply.error(invalid("the prompt is empty"));
    if (prompt->tokens_min >= service_.context_tokens) {
      return reply.context_exceeded(prompt->tokens_min, prompt->is_counted, service_.context_tokens);
    }
    const bool thinking_open = prompt->thinking_open;
    if (const Status fits = room_.add(prompt->tokens_min, request_.choices_per_prompt, longest_reply(*prompt)); !fits) {
      return reply.error(fits.error());
    }
    Prepared made{
        .job = job_for(*std::move(prompt)), .remembered = remembered, .thinking_open = thinking_open, .history = {}};
    if (looks_ahead) made.history = std::move(std::get<chat::RenderInput>(source));
    made.job.sampling.grammar = grammar;
    if (const Status possible = add_rules(made); !possible) return reply.error(possible.error());
    if (const Status fit = check_samplers(made.job.sampling, request_.choices(), service_.context_tokens); !fit) {
      return reply.error(fit.error());
    }
    prepared_.push_back(std::move(made));
    return std::nullopt;
  }

  // If the context shifts, a reply without a limit has none here either; its probabilities are counted as they come.
  std::size_t longest_reply(const Prompt& prompt) const {
    const std::size_t room = service_.context_tokens - prompt.tokens_min;
    return request_.max_tokens ? std::min(static_cast<std::size_t>(*request_.max_tokens), room) : room;
  }

  // Tools are a form of their own: replies to requests with some are not held to the server's.
  const api::OutputFormat& wanted_output() const {
    const bool has_own =
        !std::holds_alternative<api::AnyText>(request_.output) || (reading_ && reading_->options.calls);
    return has_own ? request_.output : service_.defaults.output;
  }

  void add_text_biases() {
    std::map<TokenId, float> biases(request_.sampling.logit_bias.begin(), request_.sampling.logit_bias.end());
    for (const auto& [text, bias] : request_.text_biases) {
      for (const TokenId id : service_.vocabulary->tokenize_text(text)) biases[id] += bias;
    }
    request_.sampling.logit_bias.assign(biases.begin(), biases.end());
  }

  Job job_for(Prompt prompt) const {
    const std::size_t earlier = prepared_.size();
    Job job;
    job.id = earlier == 0 ? generation_.id : fmt::format("{}/{}", generation_.id, earlier);
    job.kind = generation_.kind;
    job.prompt = std::move(prompt.ids);
    job.media = std::move(prompt.media);
    job.asker = std::make_shared<Asker>(
        Asker{std::move(prompt.parts),
              owner_of(service_, generation_.http, tenant_of(service_, generation_.http, request_.cache_salt)),
              named_session_of(generation_.http), conversation_of(generation_.http), program_of(generation_.http)});
    job.sampling = request_.sampling;
    job.max_tokens = request_.max_tokens;
    const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(request_.kept_tokens, 0));
    // One more than was asked for if prompts begin with BOS, whether or not it is counted: as llama-server.
    job.kept_tokens = (request_.kept_tokens < 0 ? job.prompt.size() : kept) + (service_.vocabulary->add_bos() ? 1 : 0);
    job.discarded_tokens = request_.discarded_tokens;
    job.cache_prompt = request_.cache_prompt;
    job.place = request_.slot;
    job.keep_s = request_.keep_s;
    job.adapters = adapters_;
    job.tenant = tenant_;
    job.scored_tokens = request_.scored_tokens;
    if (request_.score_prompt) job.scored_prompt = request_.scored_tokens;
    job.longest_prefill_ms = request_.longest_prompt_ms;
    job.longest_ms = request_.longest_total_ms;
    job.key = key_of(service_, generation_.http);
    job.owner = sender_of(service_, generation_.http);
    job.client = client_of(generation_.http, tenant_);
    job.session = session_of(service_, generation_.http, request_, tenant_);
    job.priority = request_.priority;
    job.markers = markers_of(job.prompt, service_.turn_openings);
    // The body, which a trace may show, goes with the first prompt.
    if (service_.traced) {
      job.origin =
          origin_of(generation_.http, request_,
                    {.prompt = service_.traced_parts.prompt && earlier == 0, .media = service_.traced_parts.media});
    }
    return job;
  }

  Status add_rules(Prepared& made) const {
    engine::SamplingParams& sampling = made.job.sampling;
    if (!reading_) {
      sampling.thinking = {};
      return {};
    }
    Reading reading = *reading_;
    reading.options.thinking_open = made.thinking_open;
    if (request_.may_end_thought) sampling.thinking.end_now = service_.open_thoughts->open(made.job.id, made.job.key);
    limit_thinking(service_, made.thinking_open, sampling.thinking);
    TRY(constrain_calls(service_, reading, request_.tools, sampling.grammar));
    // A format applies to the part that a client sees as the answer.
    const bool after = made.thinking_open && !sampling.grammar.text.empty();
    if (after) sampling.grammar.after = service_.reply_format.thinking_close.spelling();
    return {};
  }

  std::shared_ptr<JobSink> open_choice(Answer& answer, Prepared& made, std::size_t number) {
    std::optional<Reading> reading = reading_;
    if (reading) {
      reading->options.thinking_open = made.thinking_open;
      if (number > 0) reading->options.id_seed += fmt::format("/{}", number);  // calls of all choices differ
    }
    NextRequest next(service_, made.job.id, std::exchange(made.history, std::nullopt), made.job.prompt, made.remembered,
                     tenant_, adapters_);
    return answer.open(std::move(next), {request_.stop, request_.lines}, std::move(reading));
  }

  const Service& service_;
  Generation& generation_;
  api::GenerationRequest& request_;
  const engine::AdapterScales adapters_;
  const Tenant tenant_;
  const std::optional<Reading> reading_;
  ReplyRoom room_;
  std::vector<Prepared> prepared_;
};

}  // namespace

void generate(const Service& service, Generation generation) {
  const api::GenerationRequest& request = generation.request;
  ResponseWriter& writer = generation.writer;
  if (service.only_embeds) {
    const Error only = unsupported("this server's model computes embeddings and generates no text");
    return send_error(writer, generation.reply->error(only));
  }
  if (const Status known = check_model(service, request.model); !known) {
    return send_error(writer, generation.reply->error(known.error()));
  }
  Starter starter(service, generation);
  if (const auto refused = starter.prepare()) return send_refusal(service, writer, *refused);
  AnswerForm form{request.stream,
                  request.return_progress,
                  request.return_tokens,
                  request.timings_per_token,
                  tell_of_unknown_fields(service, generation.http, generation.dialect, request.unknown_fields),
                  request.score_prompt,
                  request.scored_tokens.has_value(),
                  request.choices_per_prompt};
  const auto answer = std::make_shared<Answer>(service, std::move(form), writer.keep(), std::move(generation.reply));
  std::vector<Submission> jobs = starter.open(*answer);
  // From here on the answer makes the reply, on the thread that serves all connections.
  if (const Status accepted = service.scheduler->submit(std::move(jobs)); !accepted) {
    send_refusal(service, writer, answer->error(accepted.error()));
  }
}

std::string take_body(const Service& service, HttpRequest& http) {
  return service.traced_parts.prompt ? http.body : std::exchange(http.body, {});
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

void send_refusal(const Service& service, ResponseWriter& writer, const api::ErrorReply& error) {
  if (!is_for_now(error.status)) return send_error(writer, error);
  const SchedulerStats stats = service.scheduler->stats();
  if (stats.closed) return send_error(writer, error);  // nothing that waits says when there will be a server again
  writer.send(error.status, error.is_stream ? api::kSseContentType : api::kJsonContentType, error.body,
              {{"Retry-After", std::to_string(stats.retry_after_s)}});
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
