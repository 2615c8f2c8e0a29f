#include "server/routes/cache_lookup.h"

#include <memory>
#include <optional>
#include <utility>

#include "server/api/cache_lookup.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"
#include "server/routes/prompt.h"
#include "server/routes/tenant.h"
#include "server/routes/unknown_fields.h"
#include "server/trace/trace_json.h"

namespace kvkeep::server {

namespace {

// Carries an answer from the engine thread to its client. The scheduler's sink owns it, and it owns the HTTP writer.
class LookupAnswer final : public InspectionSink, public std::enable_shared_from_this<LookupAnswer> {
 public:
  LookupAnswer(const Service& service, std::shared_ptr<ResponseWriter> writer, HeaderList told)
      : service_(service), writer_(std::move(writer)), told_(std::move(told)) {}

  void on_answer(Result<Inspection> answer) override {
    answer_.emplace(std::move(answer));
    writer_->post_work([self = shared_from_this()] { self->reply(); });
  }
  bool gone() const override { return writer_->client_gone(); }

 private:
  void reply() {
    if (!*answer_) return send_error(*writer_, api::error_reply(answer_->error()));
    const api::Json json = lookup_json(**answer_, *service_.vocabulary, service_.trace_prompts);
    writer_->send(200, api::kJsonContentType, api::to_line(json), told_);
  }

  const Service& service_;
  const std::shared_ptr<ResponseWriter> writer_;
  const HeaderList told_;  // header that names ignored fields
  std::optional<Result<Inspection>> answer_;
};

Result<InspectedPrompt> prompt_of(const Service& service, HttpRequest& http, std::optional<api::ErrorReply>& too_long,
                                  HeaderList& told) {
  TRY_ASSIGN(api::LookupRequest asked, api::parse_lookup(take_body(service, http), service.defaults));
  told = tell_of_unknown_fields(service, http, api::Dialect::kLookup, asked.unknown_fields);
  const Tenant tenant = tenant_of(service, http, asked.cache_salt);
  TRY_ASSIGN(Prompt prompt, read_prompt(service, asked.prompt, tenant, http.client_gone));
  if (prompt.tokens_min == 0) return invalid("the prompt is empty");
  if (prompt.tokens_min >= service.context_tokens) {
    too_long = api::context_exceeded_reply(prompt.tokens_min, prompt.is_counted, service.context_tokens);
  }
  const Position beginning = Position{} + chat::beginning_size(prompt.ids, service.turn_openings);
  return InspectedPrompt{std::move(prompt.ids), asked.cache_prompt, tenant, beginning};
}

}  // namespace

void cache_lookup(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  std::optional<api::ErrorReply> too_long;
  HeaderList told;
  Result<InspectedPrompt> prompt = prompt_of(service, http, too_long, told);
  if (too_long) return send_error(writer, *too_long);
  if (!prompt) return send_error(writer, api::error_reply(prompt.error()));
  const auto answer = std::make_shared<LookupAnswer>(service, writer.keep(), std::move(told));
  if (const Status asked = service.scheduler->inspect(std::move(*prompt), answer); !asked) {
    send_error(writer, api::error_reply(asked.error()));
  }
}

}  // namespace kvkeep::server
