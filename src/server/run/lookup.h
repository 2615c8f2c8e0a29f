#pragma once

// Looks up what a prompt can reuse now: the ids that its text has in the cache, the leased path, the facts that
// its plan is made of, and the reason why no more is reused. A question about the cache is answered in the same way.
// Engine thread only; nothing here changes what is cached or held.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/shared_tokens.h"
#include "cache/lease.h"
#include "policy/cached_prefix.h"
#include "policy/cut.h"
#include "policy/plan.h"
#include "policy/restore.h"
#include "server/run/job.h"
#include "server/run/sequences.h"
#include "server/run/trace.h"

namespace kvkeep::cache {
class Cache;
}
namespace kvkeep::index {
class TokenTexts;
}

namespace kvkeep::server {

// A question about the cache: how much would a prompt reuse if it came now? The answer changes nothing.
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

// The ids that are evaluated for a request: its effective prompt, then the sampled ids.
struct EffectiveTokens {
  SharedTokens tokens;                      // with the job, as long as they are those of its prompt
  std::vector<TokenRange> sampled;          // the ids that this server sampled, including those to come
  policy::PromptMarkers markers;            // of the effective prompt
  std::vector<TokenRange> media = {};       // chunks of pictures and sounds among the tokens
  std::optional<Position> text_from = {};   // the first id that replaces others of the same text
  std::shared_ptr<const Asker> asker = {};  // the job's, with the parts of the effective prompt
};
// The last position at or before `at` where a sequence of them may end: not within a chunk.
Position outside_media(std::span<const TokenRange> media, Position at);
// The prompt as it was sent.
EffectiveTokens as_sent(const Job& job);

struct LookupOptions {
  const index::TokenTexts* texts = nullptr;  // null: prompts match by ids only
  std::size_t context_tokens = 0;
  std::size_t least_point_tokens = 0;  // CutOptions::min_tokens
};

// The other inputs of a plan.
struct PlanTerms {
  policy::RestoreMode restore = policy::RestoreMode::kAuto;
  policy::Rates rates = {};
  std::uint32_t cells_promised = 0;  // free cells that requests will take whose rows are being read
};

struct LookupTiers {
  bool memory = true;  // the model's own
  bool cache = true;
};

struct FoundPath {
  std::shared_ptr<cache::Lease> lease;  // null: nothing can come from the cache
  policy::PlanView view;
  policy::KnownPath known;
};

class PromptLookup {
 public:
  // All arguments must outlive this.
  PromptLookup(const LookupOptions& options, const cache::ModelMemory& memory, cache::Cache& cache,
               const Sequences& sequences);

  // Returns true if the job's state may be kept and shared.
  bool cached(const Job& job) const { return job.cache_prompt && memory_.shape().cacheable; }
  // Matches the prompt as text, if that is on and the job may use cached state.
  EffectiveTokens match_text(const Job& job) const;
  // For a plan; kLeaveOut: for its prefix only.
  FoundPath find(const Job& job, TokenSpan tokens, const PlanTerms& terms, const LookupTiers& tiers = {},
                 Sequences::Cells cells = Sequences::Cells::kCount) const;
  // Returns how many of the tokens a request that starts now would prefill.
  std::size_t work(const Job& job, TokenSpan tokens, const PlanTerms& terms, const LookupTiers& tiers) const;
  // Compares with the known run of tokens that shares most with the prompt; of equal ones, with the one in memory.
  std::optional<Difference> difference(const Job& job, TokenSpan tokens,
                                       std::vector<TokenId>* known_rest = nullptr) const;
  Explanation explain(const Job& job, const FoundPath& found, policy::Plan::Start start,
                      const EffectiveTokens& effective, const std::optional<Difference>& difference) const;
  // Why no more than `reused` tokens of the effective prompt are reused. `failed`: what prevented it, if anything did.
  MissReason miss_reason(const Job& job, std::size_t prompt_tokens, Position known, std::size_t reused,
                         const std::optional<MissReason>& failed) const;
  // Returns what the prompt would reuse as a request that starts now.
  Inspection inspect(InspectedPrompt prompt, const PlanTerms& terms) const;

 private:
  void count_prefix(const policy::CachedPrefix& prefix, std::shared_ptr<cache::Lease> lease, JobStats& stats) const;

  const LookupOptions options_;
  const cache::ModelMemory& memory_;
  cache::Cache& cache_;
  const Sequences& sequences_;
};

}  // namespace kvkeep::server
