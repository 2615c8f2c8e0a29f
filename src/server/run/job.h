#pragma once

// A job, which the HTTP side hands to the engine thread, and its events, which come back.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/figures.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/shared_tokens.h"
#include "base/types.h"
#include "engine/sampling.h"
#include "policy/cut.h"
#include "server/run/waits.h"

namespace kvkeep::server {

// Returns a run of tokens as quoted text that is safe in a log.
using ShowTokens = std::function<std::string(TokenSpan)>;

struct Asker;
struct FoundBreak;
struct RequestOrigin;
struct TokenScores;

struct PromptFile;

// Where the embeddings of a chunk of a prompt come from, if its rows are not known.
struct ChunkSource {
  std::shared_ptr<const PromptFile> file;  // encoded_media.h
  std::uint32_t number = 0;                // of the chunk in the file
};

struct Job {
  std::string id;    // as the client knows it; for the log
  std::string kind;  // "chat" or "completion", for the log
  // Not empty, shorter than the context, and ends with a token; text matching may put other ids in its place.
  SharedTokens prompt;
  std::vector<ChunkSource> media = {};  // of each chunk among the prompt's ids, in their order
  engine::SamplingParams sampling;
  std::optional<std::int64_t> max_tokens = {};       // empty: until the context is full
  bool cache_prompt = true;                          // false: neither reads nor writes any tier
  engine::AdapterScales adapters = {};               // not the fingerprint's: `tenant` is with_adapters() then
  Tenant tenant = kNoTenant;                         // jobs share cached state, in every tier, within it only
  std::optional<std::size_t> place = {};             // where monitors and slot orders find it, if that place is free
  std::uint64_t client = 0;                          // the program that asks, and its user: its prompts are alike
  std::uint64_t session = 0;                         // policy::kNoSession; else those of one session take turns as one
  std::uint64_t key = 0;                             // policy::kNoKey; else the API key: keys share places evenly
  std::uint64_t owner = 0;                           // policy::kNoKey; else key or address: others find room, too
  int priority = 0;                                  // of those that wait the lowest come first
  std::int64_t keep_s = 0;                           // how long prompt and reply stay, if there is room: Cache::keep
  policy::PromptMarkers markers = {};                // where turns begin, if the prompt's template shows it
  std::shared_ptr<const RequestOrigin> origin = {};  // for the trace (trace.h); null: none
  std::shared_ptr<const Asker> asker = {};           // for explanations (found_break.h); null: none
  // A prefill ahead, for a request that may come: it runs while there is nothing else to do, and ends (kGone) when a
  // request comes; the state that it computed is kept.
  bool ahead = false;
  std::optional<std::size_t> scored_tokens = {};  // with each sampled token, see on_scores(); empty: no scores
  // The same for each token of the prompt. All of it is then prefilled, since cached rows have no probabilities.
  std::optional<std::size_t> scored_prompt = {};
  std::size_t kept_tokens = 0;       // stay at the beginning of a full context that shifts (context_shift.h)
  std::size_t discarded_tokens = 0;  // leave it after those; 0: half of the others
  double longest_prefill_ms = 0;     // prefill ends the request after this time, at the end of a slice; 0: no limit
  double longest_ms = 0;             // from submit to the last token; the request ends after this time; 0: no limit
};

// The tier of the deepest reused token: where its rows came from, or, for models without rows, the point that holds all
// tokens. "token": all reused ids are the prompt's own; "text": some are ids that this server sampled for the same
// text. The tier's count in JobStats is never 0.
enum class CacheSource {
  kNone,
  kMemoryToken,
  kRamToken,
  kDiskToken,
  kSharedToken,
  kMemoryText,
  kRamText,
  kDiskText,
  kSharedText
};
std::string_view to_string(CacheSource source);
// Returns the source of rows in that tier, matched by token.
CacheSource source_of(policy::CacheTier tier);
// Returns the same tier, matched as text.
CacheSource as_text(CacheSource source);

// Where the restored point or window came from; kNone if the sequence was complete there already, or rows were enough.
enum class CachePoint { kNone, kRam, kDisk, kShared };
std::string_view to_string(CachePoint point);
CachePoint point_of(policy::CacheTier tier);

// Why no more of the prompt was reused.
enum class MissReason {
  kWholePrompt,    // all was known, and all reused but what must be decoded: the last token, or from a point on
  kNewTokens,      // the rest was never seen after this prefix
  kNoPoint,        // more was computed once, but no restorable position is kept there
  kNothingCached,  // no more is known than the template's beginning, or too little for a point (CutOptions::min_tokens)
  kCacheOff,       // cache_prompt was false
  kPromptScored,   // Job::scored_prompt
  kNotCacheable,   // this model's state cannot be saved
  kLoadFailed,     // a deeper match was known but could not be loaded
  kLoadTooSlow,    // --restore auto: prefilling was faster
  kNoCells,        // the model's memory could not take the rows
};
inline constexpr std::size_t kMissReasons = static_cast<std::size_t>(MissReason::kNoCells) + 1;
std::string_view to_string(MissReason reason);

struct JobStats {
  std::size_t sent_tokens = 0;    // of the prompt as it was sent; 0: a further reply to a prompt, which has its own
  std::size_t prompt_tokens = 0;  // of the effective prompt
  std::size_t cached_tokens = 0;  // memory + ram + disk + shared
  std::size_t memory_tokens = 0;
  std::size_t ram_tokens = 0;
  std::size_t disk_tokens = 0;
  std::size_t shared_tokens = 0;
  CacheSource source = CacheSource::kNone;
  CachePoint point = CachePoint::kNone;
  MissReason miss = MissReason::kNothingCached;
  std::size_t known_tokens = 0;      // tokens of the prompt that were computed once, though their state may be gone
  std::size_t prefilled_tokens = 0;  // given to the model for this prompt
  std::size_t predicted_tokens = 0;
  std::optional<std::size_t> place = {};  // where it runs (places.h); none: it has not begun to run
  bool truncated = false;                 // tokens left the full context
  std::uint32_t preemptions = 0;          // times that its prefill paused for a slice of another request
  Waits waits = {};                       // from submit to its first token, and while it was set aside
  double queue_ms = 0;                    // from submit to start, while other requests came first or held the cells
  double search_ms = 0;                   // of that, until the shared tier had answered
  double load_ms = 0;                     // restoring rows, disk and shared tier included
  double prompt_ms = 0;                   // from start to the first sampled token
  double predicted_ms = 0;                // from the first sampled token to the last
  Moved read = {};                        // from disk, before it was restored
  Moved shared_read = {};                 // from the shared tier, before it was restored
  Moved restored = {};                    // into the model's memory
  std::uint32_t failed_reads = 0;         // of state from disk or the shared tier
  std::uint32_t refused_restores = 0;     // state that the model's memory did not take
  std::uint32_t failed_calls = 0;         // model calls that failed
  // So many are reused from the model's memory, none from other tiers yet.
  void count_memory(std::size_t tokens, CachePoint restored_point = CachePoint::kNone);
  std::size_t& tokens_in(policy::CacheTier tier);
};

enum class Finish {
  kStop,    // end of generation, or a stop string
  kLength,  // max_tokens or the context's end
  kGone,    // the client left
  kError,   // see the error
};
inline constexpr std::size_t kFinishes = static_cast<std::size_t>(Finish::kError) + 1;
std::string_view to_string(Finish how);  // for the log

// Receives a job's events. Every call comes from the engine thread and must return at once.
class JobSink {
 public:
  virtual ~JobSink() = default;
  virtual void on_break(std::shared_ptr<const FoundBreak> /*found*/) {}  // once, before on_prefill(), if explained
  // Prefill has reached `processed` of stats.prompt_tokens (in the first call: the reused tokens).
  virtual void on_prefill(const JobStats& stats, std::size_t processed, double elapsed_ms) = 0;
  virtual void on_scores(const TokenScores& /*scores*/) {}  // of the next on_token(), if the job wants them
  // Of the prompt's next tokens, if the job wants them. The first of all has NaN as its logprob.
  virtual void on_prompt_scores(std::vector<TokenScores> /*scores*/) {}
  // A sampled token. Returns false to end the reply here (end of generation, stop string).
  virtual bool on_token(TokenId token, const JobStats& stats) = 0;
  virtual void on_done(Finish finish, const JobStats& stats, const std::optional<Error>& error) = 0;  // the last call
  virtual bool gone() const = 0;  // returns true if nobody reads the reply any more
};

// A prompt, and one sink for each reply to it. All replies begin where one prefill of the prompt ends. The first one
// has the job's seed, and each further one a greater seed, so that they differ.
struct Submission {
  Job job;
  std::vector<std::shared_ptr<JobSink>> replies;  // not empty
};

}  // namespace kvkeep::server
