#pragma once

// Where the prefill of one request pauses so that state can be captured (policy/cut.h), and what of that is learnt from
// one prompt for the next: where prompts of a client are likely to part (policy/parting.h). Engine thread only.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "cache/model_memory.h"
#include "index/text_match.h"
#include "policy/cut.h"
#include "policy/parting.h"
#include "policy/parting_memory.h"
#include "server/run/job.h"
#include "server/run/sequences.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

// The cuts of one request, ascending, and how far its prefill has come.
class PrefillCuts {
 public:
  PrefillCuts() = default;
  explicit PrefillCuts(std::vector<policy::Cut> cuts) : cuts_(std::move(cuts)) {}

  std::optional<Position> next() const;
  // The cut at `at`, if that is the next one: the one after it is next then.
  std::optional<policy::Cut> take(Position at);

 private:
  std::vector<policy::Cut> cuts_;
  std::size_t next_ = 0;
};

// The text of ids beside what is known and was learnt of lines on which prompts part.
class Partings {
 public:
  // `texts` may be null: then nothing is found and nothing learnt. Outlives this.
  explicit Partings(const index::TokenTexts* texts) : texts_(texts) {}

  // A prompt of the client left what is known at `at`, and much before it was computed again for want of a point.
  void learn(std::uint64_t client, TokenSpan prompt, Position at);
  // Of prompt[range). Cost: O(range).
  policy::LikelyPartings find(std::uint64_t client, TokenSpan prompt, TokenRange range, Position first_answer);

 private:
  std::vector<policy::TextLine> lines(TokenSpan prompt, TokenRange range) const;

  const index::TokenTexts* texts_;
  policy::PartingMemory memory_;
};

struct CutPlannerOptions {
  policy::CutOptions cuts = {};
  // For finding where prompts are likely to part; null: not looked for. Outlives the planner.
  const index::TokenTexts* texts = nullptr;
  bool fine_points = false;  // also where they may part, as far as memory has room: see CutView::fine
};

// A request that begins to prefill.
struct PrefillStart {
  const Job& job;
  TokenSpan tokens;  // the effective prompt, and what was sampled of a reply that was interrupted
  std::size_t prompt_tokens = 0;
  const policy::PromptMarkers& markers;
  const policy::KnownPath& known;
  bool first = true;  // it was not interrupted
};

class CutPlanner {
 public:
  // All outlive this.
  CutPlanner(const CutPlannerOptions& options, const cache::ModelMemory& memory, cache::Cache& cache)
      : options_(options), memory_(memory), cache_(cache), partings_(options.texts) {}

  // Of a request on sequence `seq`, where it ends. Tells the cache which points of the path leave, and which one is
  // awaited.
  PrefillCuts plan(const PrefillStart& start, SeqId seq, const Sequence& held);

 private:
  void add_likely(policy::CutView& view, const PrefillStart& start, SeqId seq);

  const CutPlannerOptions options_;
  const cache::ModelMemory& memory_;
  cache::Cache& cache_;
  Partings partings_;
};

}  // namespace kvkeep::server
