#pragma once

// Where the prefill of one request pauses so that state can be captured (policy/cut.h), and what one prompt teaches
// about the next: where prompts of a client are likely to part (policy/likely_cuts.h). Engine thread only.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "cache/model_memory.h"
#include "policy/cut.h"
#include "policy/likely_cuts.h"
#include "server/run/job.h"
#include "server/run/sequences.h"

namespace kvkeep::cache {
class Cache;
}
namespace kvkeep::index {
class TokenTexts;
}

namespace kvkeep::server {

// The cuts of one request, ascending, and how far its prefill has come.
class PrefillCuts {
 public:
  PrefillCuts() = default;
  explicit PrefillCuts(std::vector<policy::Cut> cuts) : cuts_(std::move(cuts)) {}

  std::optional<Position> next() const;
  // Returns the cut at `at` if that is the next one, and goes to the one after it.
  std::optional<policy::Cut> take(Position at);

 private:
  std::vector<policy::Cut> cuts_;
  std::size_t next_ = 0;
};

// Learns lines on which prompts part, and finds them in the text of later prompts.
class LikelyCutFinder {
 public:
  // With null `texts` nothing is learnt and nothing found. `texts` must outlive this.
  explicit LikelyCutFinder(const index::TokenTexts* texts) : texts_(texts) {}

  // A prompt of the client left the known tokens at `at`, and many before `at` were prefilled for lack of a point.
  void learn(std::uint64_t client, TokenSpan prompt, Position at);
  // Finds positions in prompt[range) where prompts are likely to part. Cost: O(range).
  policy::LikelyCuts find(std::uint64_t client, TokenSpan prompt, TokenRange range, Position first_answer);

 private:
  std::vector<policy::TextLine> lines(TokenSpan prompt, TokenRange range) const;

  const index::TokenTexts* texts_;
  policy::ChangedLines changed_;
};

struct CutPlannerOptions {
  policy::CutOptions cuts = {};
  // for finding where prompts are likely to part; null: not looked for. Outlives the planner.
  const index::TokenTexts* texts = nullptr;
  bool fine_points = false;  // also where they may branch off, as far as memory has room: see CutView::fine
};

// A request that begins its prefill.
struct PrefillStart {
  const Job& job;
  TokenSpan tokens;  // the effective prompt, and the sampled ids of a reply that was interrupted
  std::size_t prompt_tokens = 0;
  const policy::PromptMarkers& markers;
  std::span<const TokenRange> media = {};  // chunks of pictures and sounds: no cut goes through one
  const policy::KnownPath& known;
  bool first = true;  // false if it was interrupted
};

class CutPlanner {
 public:
  // All arguments must outlive this.
  CutPlanner(const CutPlannerOptions& options, const cache::ModelMemory& memory, cache::Cache& cache)
      : options_(options), memory_(memory), cache_(cache), likely_(options.texts) {}

  // Plans the cuts of a request on sequence `seq`. Reports to the cache which points of the path leave, and which one
  // is awaited.
  PrefillCuts plan(const PrefillStart& start, SeqId seq, const Sequence& held);

 private:
  void add_likely(policy::CutView& view, const PrefillStart& start, SeqId seq);

  const CutPlannerOptions options_;
  const cache::ModelMemory& memory_;
  cache::Cache& cache_;
  LikelyCutFinder likely_;
};

}  // namespace kvkeep::server
