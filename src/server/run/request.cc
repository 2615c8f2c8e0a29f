#include "server/run/request.h"

#include <algorithm>
#include <cstdint>

#include "base/assert.h"

namespace kvkeep::server {

namespace {

// Penalties look back this far at most; feeding the sampler more of a long prompt would cost time and change nothing.
std::size_t sampler_window(const engine::SamplingParams& params) {
  if (params.repeat_last_n < 0) return SIZE_MAX;
  return static_cast<std::size_t>(std::max(64, params.repeat_last_n));
}

}  // namespace

std::unique_ptr<Request> make_request(Job job, std::shared_ptr<JobSink> sink) {
  KVKEEP_ASSERT(!job.prompt.empty(), "a job without a prompt");
  auto request = std::make_unique<Request>();
  request->effective = as_sent(job);
  request->stats.prompt_tokens = job.prompt.size();
  request->job = std::move(job);
  request->sink = std::move(sink);
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

policy::ScheduledRequest as_scheduled(const Request& request, std::size_t held, bool cached) {
  return {.phase = request.phase,
          .ended = request.sink == nullptr,
          .must_wait = request.must_wait,
          .ahead = request.job.ahead,
          .captured_by_window = cached,
          .tokens = request.effective.tokens.size(),
          .held = held,
          .next_cut = request.cuts.next()};
}

}  // namespace kvkeep::server
