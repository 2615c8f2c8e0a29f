#include "server/run/embeddings.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace kvkeep::server {
namespace {

// A shorter wait is not worth a word.
constexpr double kLoggedQueueMs = 10;

std::string done_line(const EmbeddingStats& stats, const Status& how, bool gone) {
  std::string text = fmt::format("end={}", gone ? "client-left" : how ? "stop" : "error");
  if (!how && !gone) text += fmt::format(" ({})", how.error().message);
  text += fmt::format(" inputs={} tokens={}", stats.inputs, stats.tokens);
  if (stats.queue_ms >= kLoggedQueueMs) text += fmt::format(" queue={:.3f}s", stats.queue_ms / 1e3);
  return text + fmt::format(" computed in {:.3f}s", stats.compute_ms / 1e3);
}

}  // namespace

struct Embeddings::Running {
  EmbeddingJob job;
  std::shared_ptr<EmbeddingSink> sink;
  EmbeddingStats stats;
  InputValues values;        // of the inputs that are done
  std::size_t computed = 0;  // tokens of the next input
  std::int64_t submitted_ns = 0;
  bool started = false;
};

Embeddings::Embeddings(engine::Embedder& embedder, os::Clock& clock) : embedder_(embedder), clock_(clock) {}
Embeddings::~Embeddings() = default;

Status Embeddings::submit(EmbeddingJob job, std::shared_ptr<EmbeddingSink> sink) {
  KVKEEP_ASSERT(!job.inputs.empty(), "a job without inputs");
  auto running = std::make_unique<Running>();
  running->stats.inputs = job.inputs.size();
  for (const auto& input : job.inputs) running->stats.tokens += input.size();
  const std::size_t tokens = running->stats.tokens;
  running->job = std::move(job);
  running->sink = std::move(sink);
  running->submitted_ns = clock_.monotonic_ns();
  {
    MutexLock lock(mutex_);
    if (closed_ || stopping_) return busy("the server is shutting down");
    const bool too_much = jobs_in_ >= kMostJobs || (jobs_in_ > 0 && tokens_in_ + tokens > kMostTokens);
    if (too_much) return busy("too many inputs are waiting to be embedded; try again later");
    tokens_in_ += tokens;
    ++jobs_in_;
    arrived_.push_back(std::move(running));
  }
  wake_();
  return {};
}

void Embeddings::close() { closed_ = true; }

void Embeddings::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  embedder_.cancel();
}

EmbeddingCounts Embeddings::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

void Embeddings::collect() {
  MutexLock lock(mutex_);
  for (auto& running : arrived_) jobs_.push_back(std::move(running));
  arrived_.clear();
}

void Embeddings::drop_gone() {
  std::deque<std::unique_ptr<Running>> staying;
  for (auto& running : jobs_) {
    running->sink->gone() ? finish(std::move(running), aborted("the client left"))
                          : staying.push_back(std::move(running));
  }
  jobs_.swap(staying);
}

bool Embeddings::turn(bool contended) {
  if (!any()) return false;
  collect();
  drop_gone();
  if (jobs_.empty()) return false;
  had_turn_ = !contended || !had_turn_;
  if (!had_turn_) return false;
  compute();
  return true;
}

void Embeddings::compute() {
  const Status computed = advance(*jobs_.front());
  if (computed && jobs_.front()->computed > 0) return;  // the rest of this input comes before another's beginning
  std::unique_ptr<Running> running = std::move(jobs_.front());
  jobs_.pop_front();
  const bool is_over = !computed || running->values.size() == running->job.inputs.size();
  is_over ? finish(std::move(running), computed) : jobs_.push_back(std::move(running));
}

Status Embeddings::advance(Running& running) {
  if (!std::exchange(running.started, true)) {
    running.stats.queue_ms = os::elapsed_ms(running.submitted_ns, clock_.monotonic_ns());
  }
  const TokenSpan input = running.job.inputs[running.values.size()];
  const std::size_t count = std::min(input.size() - running.computed, description().slice_tokens);
  const bool last = running.computed + count == input.size();
  const std::int64_t begin_ns = clock_.monotonic_ns();
  Result<std::vector<float>> values =
      embedder_.compute(input.subspan(running.computed, count), Position{} + running.computed, last);
  running.stats.compute_ms += os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  if (!values) return values.error();
  running.computed = last ? 0 : running.computed + count;
  if (last) running.values.push_back(std::move(*values));
  return {};
}

void Embeddings::finish(std::unique_ptr<Running> running, Status how) {
  const EmbeddingStats& stats = running->stats;
  const bool gone = running->sink->gone();
  spdlog::log(how || gone ? spdlog::level::info : spdlog::level::warn, "{} done {} id={}", running->job.kind,
              done_line(stats, how, gone), running->job.id);
  {
    MutexLock lock(mutex_);
    --jobs_in_;
    tokens_in_ -= stats.tokens;
    ++counts_.requests;
    counts_.inputs += running->values.size();
    if (how) counts_.tokens += stats.tokens;
    counts_.compute_ms += stats.compute_ms;
  }
  if (!how) return running->sink->on_done(how.error(), stats);
  running->sink->on_done(std::move(running->values), stats);
}

void Embeddings::end() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  collect();
  for (auto& running : jobs_) finish(std::move(running), aborted("the server is shutting down"));
  jobs_.clear();
}

}  // namespace kvkeep::server
