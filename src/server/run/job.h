#pragma once

// What the HTTP side hands to the engine thread, and what comes back.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tenant.h"
#include "base/types.h"
#include "engine/sampling.h"
#include "policy/cut.h"

namespace kvkeep::server {

struct RequestOrigin;

struct Job {
  std::string id;               // as the client is told it; for the log
  std::string kind;             // "chat" or "completion", for the log
  std::vector<TokenId> prompt;  // not empty, shorter than the context; text matching may put other ids in its place
  engine::SamplingParams sampling;
  std::optional<std::int64_t> max_tokens = {};       // empty: until the context is full
  bool cache_prompt = true;                          // false: neither reads nor writes any tier
  Tenant tenant = kNoTenant;                         // shares cached state, of whatever tier, with its own jobs alone
  std::uint64_t client = 0;                          // which program asks, and for whom: prompts of one are alike
  std::int64_t keep_s = 0;                           // prompt and reply stay so long, if there is room: Cache::keep
  policy::PromptMarkers markers = {};                // where turns begin, if the prompt's template tells
  std::shared_ptr<const RequestOrigin> origin = {};  // for the trace (trace.h), if there is one
  // For a request that may come: runs while nothing else is there to do, and ends (kGone) when something comes; what it
  // computed is kept.
  bool ahead = false;
};

// Which tier the deepest reused token came from: its rows, or, of models without rows, the point that holds all of
// them. And whether all that was reused are the prompt's own ids (token) or some of it ids that this server sampled for
// the same text (text). The tier's count in JobStats is never 0.
enum class CacheSource { kNone, kMemoryToken, kRamToken, kDiskToken, kMemoryText, kRamText, kDiskText };
std::string_view to_string(CacheSource source);
// The same tier, matched as text.
CacheSource as_text(CacheSource source);

// Where the point or window came from that the cache put the sequence on; kNone: the model's memory stood there, or
// rows were enough.
enum class CachePoint { kNone, kRam, kDisk };
std::string_view to_string(CachePoint point);

// Why no more of the prompt was reused.
enum class MissReason {
  kWholePrompt,    // everything was known, and all but what must be decoded reused: the last token, or from a point on
  kNewTokens,      // the rest was never seen under this prefix
  kNoPoint,        // more was computed once, but no state is kept from which a sequence could go on there
  kNothingCached,  // the first token is already unknown, or too few are known for a point (CutOptions::min_tokens)
  kCacheOff,       // cache_prompt was false
  kNotCacheable,   // this model's state cannot be saved
  kLoadFailed,     // a deeper match was known but could not be loaded
  kLoadTooSlow,    // --restore auto: prefilling was faster
  kNoCells,        // the model's memory could not take the rows
};
std::string_view to_string(MissReason reason);

struct JobStats {
  std::size_t prompt_tokens = 0;  // of the effective prompt
  std::size_t cached_tokens = 0;  // memory + ram + disk
  std::size_t memory_tokens = 0;
  std::size_t ram_tokens = 0;
  std::size_t disk_tokens = 0;
  CacheSource source = CacheSource::kNone;
  CachePoint point = CachePoint::kNone;
  MissReason miss = MissReason::kNothingCached;
  std::size_t known_tokens = 0;      // of the prompt, computed once, though perhaps nothing is kept of it
  std::size_t prefilled_tokens = 0;  // given to the model for this prompt
  std::size_t predicted_tokens = 0;
  double queue_ms = 0;      // from submit to start: other requests came first, or held the cells
  double load_ms = 0;       // restoring rows, disk included
  double prompt_ms = 0;     // from start to the first sampled token
  double predicted_ms = 0;  // from the first sampled token to the last
};

enum class Finish {
  kStop,    // end of generation or a stop string
  kLength,  // max_tokens or the context's end
  kGone,    // the client left
  kError,   // see the error
};
// For the log.
std::string_view to_string(Finish how);

// Receives a job's events. Every call comes from the engine thread and must return at once.
class JobSink {
 public:
  virtual ~JobSink() = default;
  // Prefill has reached `processed` of stats.prompt_tokens (first call: what was reused).
  virtual void on_prefill(const JobStats& stats, std::size_t processed, double elapsed_ms) = 0;
  // A sampled token. False: generation ends here (end of generation, stop string).
  virtual bool on_token(TokenId token, const JobStats& stats) = 0;
  // The last call.
  virtual void on_done(Finish finish, const JobStats& stats, const std::optional<Error>& error) = 0;
  // True: nobody reads any more.
  virtual bool gone() const = 0;
};

}  // namespace kvkeep::server
