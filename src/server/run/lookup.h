#pragma once

// What a prompt can reuse now: the ids that stand for its text in the cache, the path that is leased, what its plan is
// made of, and why no more is reused. A question about the cache is answered in the same way. Engine thread only;
// nothing here changes what is cached or held.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/lease.h"
#include "index/text_match.h"
#include "policy/cut.h"
#include "policy/plan.h"
#include "policy/reach.h"
#include "policy/restore.h"
#include "server/run/inspection.h"
#include "server/run/job.h"
#include "server/run/sequences.h"
#include "server/run/trace.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

// The ids that are evaluated for a request: its effective prompt, then what was sampled.
struct EffectiveTokens {
  std::vector<TokenId> tokens;
  std::vector<TokenRange> sampled;         // which of them this server sampled, those to come included
  policy::PromptMarkers markers;           // of the effective prompt
  std::optional<Position> text_from = {};  // the first id that stands for others of the same text
};
// The prompt as it was sent.
EffectiveTokens as_sent(const Job& job);

struct LookupOptions {
  const index::TokenTexts* texts = nullptr;  // null: prompts match as ids alone
  std::size_t context_tokens = 0;
  std::size_t least_point_tokens = 0;  // CutOptions::min_tokens
};

// What else a plan depends on.
struct PlanTerms {
  policy::RestoreMode restore = policy::RestoreMode::kAuto;
  policy::Rates rates = {};
  std::uint32_t cells_promised = 0;  // free cells that requests will take whose rows are being read
};

// Where to look.
struct LookupTiers {
  bool memory = true;  // the model's own
  bool cache = true;
};

struct FoundPath {
  std::shared_ptr<cache::Lease> lease;  // null: nothing may come from the cache
  policy::PlanView view;
  policy::KnownPath known;
};

class PromptLookup {
 public:
  // All outlive this.
  PromptLookup(const LookupOptions& options, const cache::ModelMemory& memory, cache::Cache& cache,
               const Sequences& sequences);

  // Whether the job's state may be kept and shared.
  bool cached(const Job& job) const { return job.cache_prompt && memory_.shape().cacheable; }
  // Matched as text, where that is on and the job may use what is cached.
  EffectiveTokens match_text(const Job& job) const;
  FoundPath find(const Job& job, TokenSpan tokens, const PlanTerms& terms, const LookupTiers& tiers = {}) const;
  // From the known run of tokens that shares most with the prompt; of two, from the model's memory.
  std::optional<Difference> difference(const Job& job, TokenSpan tokens) const;
  Explanation explain(const Job& job, const FoundPath& found, policy::Plan::Start start,
                      const EffectiveTokens& effective, const std::optional<Difference>& difference) const;
  // Why no more than `reused` tokens of the effective prompt are reused. `failed`: what went wrong, if something did.
  MissReason miss_reason(const Job& job, std::size_t prompt_tokens, Position known, std::size_t reused,
                         const std::optional<MissReason>& failed) const;
  // What the prompt would reuse as a request that starts now.
  Inspection inspect(InspectedPrompt prompt, const PlanTerms& terms) const;

 private:
  void count_reach(const policy::Reach& reach, std::shared_ptr<cache::Lease> lease, JobStats& stats) const;

  const LookupOptions options_;
  const cache::ModelMemory& memory_;
  cache::Cache& cache_;
  const Sequences& sequences_;
};

}  // namespace kvkeep::server
