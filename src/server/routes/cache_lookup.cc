#include "server/routes/cache_lookup.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "server/api/cache_lookup.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"
#include "server/routes/prompt.h"
#include "server/routes/tenant.h"
#include "server/routes/unknown_fields.h"
#include "server/trace/trace_json.h"

namespace kvkeep::server {

namespace {

// How often a waiting HTTP thread looks whether its client is still there.
constexpr std::chrono::milliseconds kGoneCheck{100};

// From the engine thread to the HTTP thread of one lookup. Thread safe.
class Answer final : public InspectionSink {
 public:
  void on_answer(Result<Inspection> answer) override {
    const MutexLock lock(mutex_);
    answer_ = std::move(answer);
    arrived_.notify_one();
  }
  bool gone() const override { return gone_; }

  // HTTP thread: the answer, or nothing within the time.
  std::optional<Result<Inspection>> take() {
    const MutexLock lock(mutex_);
    if (!answer_) arrived_.wait_for(mutex_, kGoneCheck);
    return std::exchange(answer_, std::nullopt);
  }
  void leave() { gone_ = true; }

 private:
  std::atomic<bool> gone_{false};
  Mutex mutex_;
  CondVar arrived_;
  std::optional<Result<Inspection>> answer_ GUARDED_BY(mutex_);
};

Result<InspectedPrompt> prompt_of(const Service& service, const HttpRequest& http,
                                  std::optional<api::ErrorReply>& too_long, HeaderList& told) {
  TRY_ASSIGN(api::LookupRequest asked, api::parse_lookup(http.body, service.defaults));
  told = tell_of_unknown_fields(service, http, api::Dialect::kLookup, asked.unknown_fields);
  const Tenant tenant = tenant_of(service, http, asked.cache_salt);
  TRY_ASSIGN(Prompt prompt, read_prompt(service, asked.prompt, tenant));
  if (prompt.tokens_min == 0) return invalid("the prompt is empty");
  if (prompt.tokens_min >= service.context_tokens) {
    too_long = api::context_exceeded_reply(prompt.tokens_min, prompt.is_counted, service.context_tokens);
  }
  return InspectedPrompt{std::move(prompt.ids), asked.cache_prompt, tenant};
}

}  // namespace

void cache_lookup(const Service& service, const HttpRequest& http, ResponseWriter& writer) {
  std::optional<api::ErrorReply> too_long;
  HeaderList told;
  Result<InspectedPrompt> prompt = prompt_of(service, http, too_long, told);
  if (too_long) return send_error(writer, *too_long);
  if (!prompt) return send_error(writer, api::error_reply(prompt.error()));
  auto answer = std::make_shared<Answer>();
  if (const Status asked = service.scheduler->inspect(std::move(*prompt), answer); !asked) {
    return send_error(writer, api::error_reply(asked.error()));
  }
  while (!http.client_gone()) {
    const std::optional<Result<Inspection>> found = answer->take();
    if (!found) continue;
    if (!*found) return send_error(writer, api::error_reply(found->error()));
    const api::Json reply = lookup_json(**found, *service.vocabulary, service.trace_prompts);
    return writer.send(200, api::kJsonContentType, api::to_line(reply), told);
  }
  answer->leave();
}

}  // namespace kvkeep::server
