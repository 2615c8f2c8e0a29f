#pragma once

// A question about the cache: how much would a prompt reuse if it came now? The answer changes nothing.

#include <vector>

#include "server/run/job.h"
#include "server/run/trace.h"

namespace kvkeep::server {

struct InspectedPrompt {
  std::vector<TokenId> tokens;
  bool cache_prompt = true;   // as of a job: false reuses nothing
  Tenant tenant = kNoTenant;  // the tenant who asks
  Position beginning = {};    // as in policy::PromptMarkers
};

struct Inspection {
  JobStats stats;  // of the effective prompt: tokens by tier, source and miss reason; no times
  std::size_t sent_tokens = 0;
  Explanation explanation;  // start "wait": the prompt would wait for running requests
};

// Receives the answer. Called once, on the engine thread; must return at once.
class InspectionSink {
 public:
  virtual ~InspectionSink() = default;
  virtual void on_answer(Result<Inspection> answer) = 0;
  // Returns true if nobody waits for the answer any more.
  virtual bool gone() const = 0;
};

}  // namespace kvkeep::server
