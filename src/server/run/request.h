#pragma once

// A request from submit to its end, as the engine thread sees it.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "policy/cut.h"
#include "policy/next_call.h"
#include "server/run/job.h"
#include "server/run/lookup.h"
#include "server/run/prefill_cuts.h"
#include "server/run/restore.h"
#include "server/run/trace.h"

namespace kvkeep::server {

struct Request {
  using Phase = policy::ScheduledRequest::Phase;

  Job job;
  std::shared_ptr<JobSink> sink;  // null: it ended in this round
  JobStats stats;
  Phase phase = Phase::kWaiting;
  EffectiveTokens effective;
  std::unique_ptr<engine::Sampler> sampler;
  std::optional<SeqId> seq;  // none while kLoading: its cells were given back, it starts again
  Restore restore;
  policy::KnownPath known;               // of its prompt, as it was looked up last
  std::optional<Difference> difference;  // where it leaves the nearest known one, as it was looked up at first
  PrefillCuts cuts;
  bool load_too_slow = false;  // more is cached, but prefilling was faster
  std::int64_t submitted_ns = 0;
  std::int64_t started_ns = 0;  // when its first plan was carried out
  std::int64_t load_started_ns = 0;
  std::int64_t first_token_ns = 0;
  bool fork_refused = false;  // the model's memory refused to share a prefix with it: no second try
  int failures = 0;           // decode calls that failed under it
  bool reported = false;      // the first on_prefill was sent
  bool must_wait = false;     // its plan found no room, and nothing changed since
  bool told_to_wait = false;
  std::size_t told_tokens = 0;          // of the prompt, by the last on_prefill
  std::unique_ptr<RequestTrace> trace;  // null: not wanted
};

// Precondition: the prompt is not empty.
std::unique_ptr<Request> make_request(Job job, std::shared_ptr<JobSink> sink);

// The sampler, which has seen what penalties look back at. Does nothing if there is one. Errors as make_sampler.
Status prepare_sampler(Request& request, engine::Engine& engine);

// For policy/next_call.h. `held`: tokens in the model's memory. `cached`: what it computes is captured.
policy::ScheduledRequest as_scheduled(const Request& request, std::size_t held, bool cached);

}  // namespace kvkeep::server
