#include "server/run/request.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "server/run/branches.h"

namespace kvkeep::server {

namespace {

// Penalties look back this far at most; feeding the sampler more of a long prompt would cost time and change nothing.
std::size_t sampler_window(const engine::SamplingParams& params) {
  const auto tokens = [](std::int32_t last_n) { return last_n < 0 ? SIZE_MAX : static_cast<std::size_t>(last_n); };
  const std::size_t sequences = params.dry_multiplier != 0.0F ? tokens(params.dry_penalty_last_n) : 0;
  return std::max({std::size_t{64}, tokens(params.repeat_last_n), sequences});
}

}  // namespace

std::unique_ptr<Request> make_request(Submission submission) {
  Job& job = submission.job;
  KVKEEP_ASSERT(!job.prompt.empty(), "a job without a prompt");
  KVKEEP_ASSERT(!submission.replies.empty(), "a job without a sink");
  auto request = std::make_unique<Request>();
  request->effective = as_sent(job);
  request->stats.prompt_tokens = job.prompt.size();
  request->sink = std::move(submission.replies.front());
  for (std::size_t i = 1; i < submission.replies.size(); ++i) {
    request->branches.push_back(make_branch(job, i, std::move(submission.replies[i])));
  }
  request->job = std::move(job);
  return request;
}

Status prepare_sampler(Request& request, engine::Engine& engine) {
  if (request.sampler != nullptr) return {};
  TRY_ASSIGN(request.sampler, engine.make_sampler(request.job.sampling));
  const TokenSpan tokens = request.effective.tokens;
  const std::size_t window = std::min(sampler_window(request.job.sampling), tokens.size());
  for (const TokenId token : tokens.last(window)) request.sampler->accept(token);
  return {};
}

std::vector<std::vector<Request*>> by_adapters(const std::vector<Request*>& requests) {
  std::vector<std::vector<Request*>> groups;
  for (Request* request : requests) {
    const auto same = std::ranges::find_if(
        groups, [&](const auto& group) { return group.front()->job.adapters == request->job.adapters; });
    same == groups.end() ? groups.push_back({request}) : same->push_back(request);
  }
  return groups;
}

std::optional<MissReason> Request::restore_failure() const {
  const std::optional<MissReason> failed = restore.miss();
  return !failed && load_too_slow ? MissReason::kLoadTooSlow : failed;
}

void note_started(Request& request, std::int64_t now_ns) {
  if (request.started_ns != 0) return;
  request.started_ns = now_ns;
  request.stats.queue_ms = os::elapsed_ms(request.submitted_ns, now_ns);
}

void note_reused(Request& request, Position held) {
  JobStats& stats = request.stats;
  stats.cached_tokens = request.told_tokens = held.value();
  stats.known_tokens = request.known.end.value();
  const auto& text_from = request.effective.text_from;
  if (text_from && *text_from < held) stats.source = as_text(stats.source);
}

std::vector<engine::BatchToken> decode_batch(const std::vector<Request*>& requests, const Sequences& sequences) {
  std::vector<engine::BatchToken> batch;
  for (const Request* request : requests) {
    batch.push_back({*request->seq, request->effective.tokens.back(), sequences[*request->seq].end(), true});
  }
  return batch;
}

std::vector<engine::BatchToken> slice_batch(const Request& request, TokenRange range) {
  const TokenSpan tokens = request.effective.tokens;
  std::vector<engine::BatchToken> batch;
  for (std::size_t i = range.begin.value(); i < range.end.value(); ++i) {
    batch.push_back({*request.seq, tokens[i], Position{} + i, request.wants_scores() || i + 1 == tokens.size()});
  }
  return batch;
}

std::size_t waiting_replies(std::span<const std::unique_ptr<Request>> waiting,
                            std::span<const std::unique_ptr<Request>> active) {
  std::size_t replies = waiting.size();
  for (const auto& request : waiting) replies += request->branches.size();
  for (const auto& request : active) replies += request->branches.size();
  return replies;
}

std::uint32_t cells_promised(std::span<const std::unique_ptr<Request>> requests, const Sequences& sequences) {
  std::size_t promised = 0;
  for (const auto& request : requests) {
    const bool grows = request->phase == Request::Phase::kLoading || request->phase == Request::Phase::kPrefill;
    if (!grows || !request->seq) continue;
    promised += request->effective.tokens.size() - sequences[*request->seq].tokens.size();
  }
  return static_cast<std::uint32_t>(promised);
}

EndedRequest as_ended(const Request& request, Finish how, const std::optional<Error>& error) {
  return {.stats = request.stats,
          .started = request.reported,
          .difference = request.difference ? &*request.difference : nullptr,
          .markers = request.effective.markers,
          .how = how,
          .error = error};
}

double note_sampled(Request& request, TokenId token, double ms) {
  request.effective.tokens.push_back(token);
  ++request.stats.predicted_tokens;
  return ms - std::exchange(request.stats.predicted_ms, ms);
}

bool is_enough(const Request& request, std::size_t context_tokens) {
  const std::optional<std::int64_t> most = request.job.max_tokens;
  // The sampled token needs a cell to be decoded in; the context's last cell ends the reply.
  return (most && static_cast<std::int64_t>(request.stats.predicted_tokens) >= *most) ||
         request.effective.tokens.size() > context_tokens;
}

RequestTrace* trace_of(std::span<const std::unique_ptr<Request>> requests, SeqId seq) {
  const auto found = std::ranges::find_if(requests, [&](const auto& each) { return each->seq == seq; });
  return found == requests.end() ? nullptr : (*found)->trace.get();
}

// Logits are large, and scoring a token takes as long as its vocabulary: running requests wait for a slice.
constexpr std::size_t kScoredSlice = 32;

policy::ScheduledRequest as_scheduled(const Request& request, std::size_t held, const CaptureStride& capture) {
  std::optional<Position> end = request.cuts.next();
  const Position scored = Position{} + held + kScoredSlice;
  if (request.wants_scores()) end = std::min(end.value_or(scored), scored);
  const Position capture_at = request.captured_to + capture.tokens;
  if (capture.bounds && capture_at > Position{} + held) end = std::min(end.value_or(capture_at), capture_at);
  return {.phase = request.phase,
          .ended = request.sink == nullptr,
          .must_wait = request.must_wait,
          .awaits = request.awaits.has_value(),
          .ahead = request.job.ahead,
          .session = request.job.session,
          .priority = request.job.priority,
          .tokens = request.effective.tokens.size(),
          .held = held,
          .next_cut = end,
          .passed = request.passed};
}

}  // namespace kvkeep::server
