// Questions about the cache, answered on the engine thread between two calls of the model.

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "policy/reach.h"
#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

// Each costs as much as the start of a request (milliseconds for a long prompt), and running requests wait meanwhile.
constexpr std::size_t kQuestionsPerRound = 4;
constexpr std::size_t kMostQuestions = 64;

}  // namespace

Status Scheduler::inspect(InspectedPrompt prompt, std::shared_ptr<InspectionSink> sink) {
  KVKEEP_ASSERT(!prompt.tokens.empty(), "a question without a prompt");
  MutexLock lock(mutex_);
  if (stopping_) return busy("the server is shutting down");
  if (questions_.size() >= kMostQuestions) return busy("too many lookups are waiting; try again later");
  questions_.push_back({std::move(prompt), std::move(sink)});
  wake_.notify_one();
  return {};
}

void Scheduler::answer_questions() {
  std::vector<Question> asked;
  {
    MutexLock lock(mutex_);
    while (!questions_.empty() && asked.size() < kQuestionsPerRound) {
      asked.push_back(std::move(questions_.front()));
      questions_.pop_front();
    }
  }
  if (!asked.empty()) note_audit(audit_.abandon());  // what it holds is as good as free
  for (Question& question : asked) {
    if (!question.sink->gone()) question.sink->on_answer(inspection(std::move(question.prompt)));
  }
}

void Scheduler::refuse_questions() {
  std::deque<Question> asked;
  {
    MutexLock lock(mutex_);
    asked.swap(questions_);
  }
  for (Question& question : asked) question.sink->on_answer(aborted("the server is shutting down"));
}

// As start() would begin, were it a request.
Inspection Scheduler::inspection(InspectedPrompt prompt) {
  Active asked;
  asked.job.prompt = std::move(prompt.tokens);
  asked.job.cache_prompt = prompt.cache_prompt;
  asked.job.tenant = prompt.tenant;
  take_prompt(asked, asked.job.prompt, {});
  match_text(asked);
  if (cached(asked)) asked.lease = cache_.lease(asked.tokens, prompt.tenant);
  const policy::PlanView view = view_of(asked);
  const policy::Plan plan = policy::make_plan(view);
  const policy::Reach reach = policy::choose_reach(view);  // a plan to wait does not tell
  note_known(asked, view);
  count_reach(asked, reach);
  if (asked.text_from && *asked.text_from < reach.to) asked.stats.source = as_text(asked.stats.source);
  if (reach.too_slow) asked.forced_miss = MissReason::kLoadTooSlow;
  asked.stats.miss = miss_reason(asked, reach.to.value());
  return {asked.stats, asked.job.prompt.size(), explain(asked, view, plan.start)};
}

// What count_restored() and count_points() will say when it is done.
void Scheduler::count_reach(Active& asked, const policy::Reach& reach) {
  JobStats& stats = asked.stats;
  stats.cached_tokens = reach.to.value();
  stats.memory_tokens = reach.from_memory.value();
  if (stats.memory_tokens > 0) stats.source = CacheSource::kMemoryToken;
  asked.restore_to = reach.to;
  if (asked.lease == nullptr) return;
  for (const cache::LeasedStep& step : asked.lease->steps()) {
    const Position from = std::max(step.range.begin, reach.from_memory);
    const Position to = std::min(step.range.end, reach.to);
    if (from >= to) continue;
    const bool disk = step.tier == cache::Tier::kDisk;
    (disk ? stats.disk_tokens : stats.ram_tokens) += to - from;
    stats.source = disk ? CacheSource::kDiskToken : CacheSource::kRamToken;
  }
  if (reach.point) count_points(asked);
}

}  // namespace kvkeep::server
