#include "server/routes/next_request.h"

#include <algorithm>
#include <utility>

#include "chat/turns.h"
#include "server/routes/prompt.h"
#include "server/run/scheduler_stats.h"

namespace kvkeep::server {
namespace {

using chat::tools::DeltaKind;

// Stands for the user's next message; it is cut off again.
constexpr const char* kNextQuestion = "kvkeepnextquestion";

// With fewer new tokens than this, beyond the opening of the question, no job is worth it.
constexpr std::size_t kLeastAhead = 8;

class NobodyListens final : public JobSink {
 public:
  void on_prefill(const JobStats&, std::size_t, double) override {}
  bool on_token(TokenId, const JobStats&) override { return false; }
  void on_done(Finish, const JobStats&, const std::optional<Error>&) override {}
  bool gone() const override { return false; }
};

// Messages are several times as large as their tokens: while so many requests wait, no more are kept for the next idle
// time.
constexpr std::size_t kMostHistories = 16;

// If nothing was learnt, the next prompt is compared with the sampled tokens after each reply.
bool may_change(chat::Change change) { return change != chat::Change::kNothing; }

}  // namespace

bool NextRequest::wants_history(const Service& service, const api::GenerationRequest& request) {
  const auto* chat = std::get_if<chat::RenderInput>(&request.prompt);
  // The ids of a text differ from the sampled ones: without remembered turns, each turn is written otherwise.
  const bool changes = service.turns == nullptr || may_change(service.history_changes.next_message) ||
                       may_change(service.history_changes.after_tools);
  return service.prefill_ahead && request.cache_prompt && chat != nullptr && chat->add_generation_prompt &&
         !chat->goes_on() && changes && service.scheduler->stats().waiting < kMostHistories;
}

NextRequest::NextRequest(const Service& service, std::string id, std::optional<chat::RenderInput> history,
                         TokenSpan prompt, bool remembered, const Tenant& tenant, engine::AdapterScales adapters)
    : service_(service),
      id_(std::move(id)),
      tenant_(tenant),
      adapters_(std::move(adapters)),
      history_(std::move(history)) {
  if (remembered) recorder_.emplace(service, prompt, tenant);
  if (history_) known_.assign(prompt.begin(), prompt.end());
}

void NextRequest::add_token(TokenId token) {
  if (recorder_) recorder_->add_token(token);
  if (history_) known_.push_back(token);
}

void NextRequest::add(const chat::tools::ReplyDelta& delta) {
  if (recorder_ && delta.kind == DeltaKind::kCallBegin) recorder_->add_call(delta.call_id);
  if (!history_) return;
  if (delta.kind == DeltaKind::kText) text_ += delta.text;
  if (delta.kind == DeltaKind::kReasoning) reasoning_ += delta.text;
}

void NextRequest::remember(const std::string& stop_string) {
  if (recorder_) recorder_->finish(stop_string);
}

void NextRequest::prefill_ahead() {
  if (!service_.scheduler->idle()) return;
  chat::RenderInput next = *std::move(history_);
  history_.reset();
  nlohmann::ordered_json answer = {{"role", "assistant"}, {"content", std::move(text_)}};
  if (!reasoning_.empty()) answer["reasoning_content"] = std::move(reasoning_);
  next.messages.push_back(std::move(answer));
  next.messages.push_back({{"role", "user"}, {"content", kNextQuestion}});
  api::PromptSource source = std::move(next);
  Result<Prompt> prompt = read_prompt(service_, source, tenant_);
  if (!prompt || prompt->ids.size() >= service_.context_tokens) return;
  const std::vector<Position> questions = chat::find_turns(prompt->ids, service_.turn_openings).user;
  if (questions.empty()) return;
  prompt->ids.resize(questions.back().value() + service_.turn_openings.user.size());
  // If the template writes the turn as it was sampled, only the opening of the question is new.
  const std::size_t common = common_prefix(prompt->ids, known_);
  if (prompt->ids.size() - common <= service_.turn_openings.user.size() + kLeastAhead) return;
  Job job;
  job.id = id_;
  job.kind = "ahead";
  job.max_tokens = 0;
  job.ahead = true;
  job.adapters = adapters_;
  job.tenant = tenant_;
  job.markers = markers_of(prompt->ids, service_.turn_openings);
  job.prompt = std::move(prompt->ids);
  job.media = std::move(prompt->media);
  (void)service_.scheduler->submit(std::move(job), std::make_shared<NobodyListens>());  // refused: others are there
}

}  // namespace kvkeep::server
