// POST /cache/warm: prefills a prompt ahead of time and keeps its state, so that the first request that begins so finds
// it. The prompt waits its turn as any request does.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/api/cache_lookup.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"
#include "server/routes/prompt.h"
#include "server/routes/routes.h"
#include "server/routes/sender.h"

namespace kvkeep::server {
namespace {

// Answers when the prompt's state is there.
class WarmAnswer final : public JobSink, public std::enable_shared_from_this<WarmAnswer> {
 public:
  explicit WarmAnswer(std::shared_ptr<ResponseWriter> writer) : writer_(std::move(writer)) {}

  void on_prefill(const JobStats& /*stats*/, std::size_t /*processed*/, double /*elapsed_ms*/) override {}
  bool on_token(TokenId /*token*/, const JobStats& /*stats*/) override { return false; }
  void on_done(Finish /*finish*/, const JobStats& stats, const std::optional<Error>& error) override {
    writer_->post([self = shared_from_this(), stats, error] { self->reply(stats, error); });
  }
  bool gone() const override { return writer_->client_gone(); }

 private:
  void reply(const JobStats& stats, const std::optional<Error>& error) {
    if (error) return send_error(*writer_, api::error_reply(*error));
    writer_->send(200, api::kJsonContentType,
                  api::to_line({{"prompt_tokens", stats.prompt_tokens},
                                {"cached_tokens", stats.cached_tokens},
                                {"prefilled_tokens", stats.prefilled_tokens},
                                {"queue_ms", stats.queue_ms},
                                {"prompt_ms", stats.prompt_ms}}));
  }

  const std::shared_ptr<ResponseWriter> writer_;
};

constexpr std::int64_t kLongestKeepS = 86'400;

Result<std::int64_t> keep_s_of(const HttpRequest& http) {
  const std::string text(http.parameter("keep_s"));
  if (text.empty()) return std::int64_t{0};
  const bool is_number = text.size() <= 5 && text.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t keep_s = is_number ? std::stoll(text) : kLongestKeepS + 1;
  if (keep_s > kLongestKeepS) return invalid("'keep_s' must be a number of seconds, at most 86400");
  return keep_s;
}

Result<Job> job_for(const Service& service, HttpRequest& http) {
  if (service.only_embeds) return unsupported("this server's model computes embeddings and has no state to keep");
  TRY_ASSIGN(const std::int64_t keep_s, keep_s_of(http));
  TRY_ASSIGN(const api::PromptApi of, api::prompt_api_of(http.parameter("dialect")));
  TRY_ASSIGN(api::LookupRequest read, api::parse_lookup(take_body(service, http), service.defaults, of));
  Job job;
  job.adapters = service.adapters->for_job(read.adapters);
  job.tenant = tenant_of(service, http, read.cache_salt, job.adapters);
  TRY_ASSIGN(Prompt prompt, read_prompt(service, read.prompt, job.tenant, http.client_gone));
  if (prompt.tokens_min == 0) return invalid("the prompt is empty");
  if (prompt.tokens_min >= service.context_tokens) {
    return invalid(fmt::format("the prompt has at least {} tokens and does not fit into the context of {}; raise -c",
                               prompt.tokens_min, service.context_tokens));
  }
  job.id = reply_header(service, "warm-").id;
  job.kind = "warm";
  job.prompt = std::move(prompt.ids);
  job.media = std::move(prompt.media);
  job.asker = std::make_shared<Asker>(Asker{std::move(prompt.parts),
                                            owner_of(service, http, tenant_of(service, http, read.cache_salt)),
                                            named_session_of(http), conversation_of(http), program_of(http)});
  job.max_tokens = 0;
  job.client = client_of(http, job.tenant);
  job.key = key_of(service, http);
  job.owner = sender_of(service, http);
  job.session = session_of(service, http, {}, job.tenant);
  job.keep_s = keep_s;
  job.markers = markers_of(job.prompt, service.turn_openings);
  return job;
}

}  // namespace

void warm_cache(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  Result<Job> job = job_for(service, http);
  if (!job) return send_error(writer, api::error_reply(job.error()));
  const Status accepted = service.scheduler->submit(*std::move(job), std::make_shared<WarmAnswer>(writer.keep()));
  if (!accepted) send_refusal(service, writer, api::error_reply(accepted.error()));
}

}  // namespace kvkeep::server
