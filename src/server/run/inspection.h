#pragma once

// A question about the cache: what would a prompt reuse if it came now? The answer touches nothing.

#include <vector>

#include "server/run/job.h"
#include "server/run/trace.h"

namespace kvkeep::server {

struct InspectedPrompt {
  std::vector<TokenId> tokens;
  bool cache_prompt = true;   // as of a job: false reuses nothing
  Tenant tenant = kNoTenant;  // who asks
};

struct Inspection {
  JobStats stats;  // of the effective prompt: tokens by tier, source and miss reason; no times
  std::size_t sent_tokens = 0;
  Explanation explanation;  // start "wait": it would wait for running requests
};

// Where an answer goes. Called once, from the engine thread; must return at once.
class InspectionSink {
 public:
  virtual ~InspectionSink() = default;
  virtual void on_answer(Result<Inspection> answer) = 0;
  // True: nobody waits for it any more.
  virtual bool gone() const = 0;
};

}  // namespace kvkeep::server
