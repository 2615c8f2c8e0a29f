#pragma once

// A request from submit to its end, as the engine thread sees it.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "policy/cut.h"
#include "policy/next_call.h"
#include "server/run/break_finder.h"
#include "server/run/encoded_media.h"
#include "server/run/found_break.h"
#include "server/run/job.h"
#include "server/run/lookup.h"
#include "server/run/prefill_cuts.h"
#include "server/run/request_figures.h"
#include "server/run/request_log.h"
#include "server/run/restore.h"
#include "server/run/search.h"
#include "server/run/sequences.h"
#include "server/run/trace.h"

namespace kvkeep::server {

// A prefix that another request is prefilling or restoring (awaited_prefix.h).
struct AwaitedPrefix {
  std::uint64_t number = 0;  // of that request; further replies to one prompt share it
  SeqId seq = SeqId{0};      // that it runs on
  Position until = {};
  bool restored = false;  // and not computed
};

struct Request {
  using Phase = policy::ScheduledRequest::Phase;

  ~Request() {
    if (search != nullptr) search->abandon();
  }

  Job job;
  std::shared_ptr<JobSink> sink;  // null: the request ended; its object stays while state is read for it
  JobStats stats;
  Phase phase = Phase::kWaiting;
  EffectiveTokens effective;
  std::unique_ptr<engine::Sampler> sampler;
  std::optional<SeqId> seq;  // none while kLoading if its cells were given back: it starts again
  Restore restore;
  policy::KnownPath known;               // of its prompt, by the last lookup
  std::optional<Difference> difference;  // where it leaves the nearest known prompt, by the first lookup
  std::vector<TokenId> known_rest = {};  // of that prompt, from the difference on; until its prefill begins
  std::shared_ptr<const FoundBreak> found_break = {};  // why it reuses no more, once its prefill has begun
  PrefillCuts cuts;
  bool load_too_slow = false;  // more is cached, but prefilling was faster
  std::int64_t submitted_ns = 0;
  std::int64_t started_ns = 0;  // when its first plan began to be carried out
  std::int64_t load_started_ns = 0;
  std::int64_t first_token_ns = 0;  // moved on by the time that it could not decode since
  std::int64_t paused_ns = 0;       // since when it cannot decode, although it has a token; 0: it can
  bool from_beginning = false;      // its logits were not finite: known state is not to be trusted
  bool fork_refused = false;        // the model's memory refused to share a prefix with it: do not try again
  bool reported = false;            // the first on_prefill was sent
  bool start_counted = false;       // its figures say what a start of its own reused
  bool is_late = false;             // a further reply that found no place when its prompt ended: it starts by itself
  bool must_wait = false;           // its plan found no room, and nothing has changed since
  bool told_to_wait = false;
  std::shared_ptr<Encoding> encoding = {};  // of the next file in its prompt; null: none is under way
  bool must_encode = false;                 // its next slice is of that file
  NamedEncodings encoded = {};              // of files that have chunks still to be computed
  std::uint64_t number = 0;                 // by arrival, from 1 on
  std::shared_ptr<Search> search = {};      // of the shared tier; null: none is under way
  std::optional<AwaitedPrefix> awaits = {};
  std::uint32_t awaited = 0;            // so often
  std::uint32_t passed = 0;             // in the queue as policy::QueuedRequest, then as policy::ScheduledRequest
  std::uint32_t overtaken = 0;          // see policy::QueuedRequest
  Position captured_to = {};            // its last slice that was captured ended there
  std::size_t told_tokens = 0;          // tokens of the prompt that the last on_prefill reported
  std::size_t counted_to = 0;           // the end of those that count_prefilled() counted
  std::unique_ptr<RequestTrace> trace;  // null: no trace is wanted
  // Further replies to the prompt (branches.h). They are here until its prefill ends, and ended by whatever ends it.
  std::vector<std::unique_ptr<Request>> branches;
  std::vector<TokenId> reply_before = {};  // sampled before the context shifted last
  std::size_t scored_tokens = 0;           // of the prompt, as far as on_prompt_scores() told

  // Returns true if cached rows would leave tokens of the prompt without the scores that the job wants.
  bool wants_scores() const { return job.scored_prompt && scored_tokens < stats.prompt_tokens; }
  // Returns true if it prefills, and waits for the encoder.
  bool encodes() const { return phase == Phase::kPrefill && must_encode && encoding != nullptr && !encoding->done(); }
  // Returns true if a call of the model, or of its memory, can bring it forward.
  bool has_work() const {
    return phase == Phase::kDecode || phase == Phase::kRestoring || (phase == Phase::kPrefill && !encodes());
  }
  LookupTiers tiers() const {
    const bool any = !from_beginning && !wants_scores();
    return {.memory = any && !fork_refused, .cache = any && !restore.gave_up()};
  }
  // A lookup found so much known. A later one may leave the cache out, which does not make the prompt less known.
  void note_known(const policy::KnownPath& path);
  // Returns what prevented the restore of more, if anything did.
  std::optional<MissReason> restore_failure() const;
};

// Preconditions: the prompt is not empty, and there is a sink.
std::unique_ptr<Request> make_request(Submission submission);

// Looks in its prompt for text whose ids were sampled. Until the client knows how much is reused, every start looks
// again: the state found before may have left, and others may have computed more.
void match_text(Request& request, const PromptLookup& lookup);

// Takes the result of its search of the shared tier, if it had one.
void note_search(Request& request, policy::RateMeter& rates);

// State was read for it, or could not be.
void note_loaded(Request& request, const cache::LoadResult& result, std::int64_t now_ns, policy::RateMeter& rates);

// Removes from `active` the requests that have ended. Those for which state is being read go to `reading`, since the
// reader still fills their leases, until forget() is called for them.
void erase_ended(std::vector<std::unique_ptr<Request>>& active, std::vector<std::unique_ptr<Request>>& reading);
void forget(std::vector<std::unique_ptr<Request>>& reading, const Request& request);

// Shows a sequence which request takes it. `cached`: its state may be captured and shared.
Occupant occupant(const Request& request, bool cached);

// Makes a sampler and shows it the tokens that penalties look back at. Errors as Engine::make_sampler.
Result<std::unique_ptr<engine::Sampler>> make_sampler(const engine::SamplingParams& sampling, TokenSpan tokens,
                                                      engine::Engine& engine);
// Makes the request's, unless there is one. Errors as make_sampler.
Status prepare_sampler(Request& request, engine::Engine& engine);

// Its prefill begins: the first `held` tokens are reused. Notes also why no more are.
void note_reused(Request& request, Position held, const PromptLookup& lookup, BreakFinder& breaks);
// Its first plan, or a later one, is carried out.
void note_started(Request& request, std::int64_t now_ns);
// Another request starts: those that wait for room let it go first.
void note_overtaken(std::span<const std::unique_ptr<Request>> admitted);
// It ends: also one that ends early waited, or prefilled, for so long.
void note_ended(Request& request, std::int64_t now_ns);
// Returns true if it ends without a token because its first prefill takes longer than it may.
bool is_prefill_too_long(Request& request, std::int64_t now_ns);
// All of its prompt is in the model's memory, perhaps once more.
void note_prompt_done(Request& request, std::int64_t now_ns);

// How a request ends before its reply does: one that takes longer than it may in all (Job::longest_ms) with the tokens
// that it has, or kBusy.
struct Overdue {
  Finish how = Finish::kLength;
  std::optional<Error> error = {};
};
// Returns nullopt as long as there is time.
std::optional<Overdue> overdue(const Request& request, std::int64_t now_ns);

// Lets go of the bytes of files whose rows the cache has, all of them: others may have the room while a reply is made.
// Takes those of other files again, whose rows the cache had and has lost.
void claim_files(Request& request, const Sequence& held);

// It gave its sequence back, and waits for cells.
void note_set_aside(Request& request, std::int64_t now_ns);
// A further reply to a prompt whose prefill ended now: it finds no place, and starts by itself later.
void note_late(Request& branch, std::int64_t now_ns);
// It begins to decode, or does so again: the time since `paused_ns` does not count as predicting.
void note_decodes(Request& request, std::int64_t now_ns);

// The batch that decodes the last token of each.
std::vector<engine::BatchToken> decode_batch(const std::vector<Request*>& requests, const Sequences& sequences);
// Tells the sink how far the prompt is. Tokens that are prefilled again, after a failure or for lack of cells, are no
// progress.
void tell_prefilled(Request& request, std::size_t held, double ms_since_start);
// The same while a picture is encoded, if it is: as much of it counts as the encoder has done.
void tell_encoded(Request& request, std::size_t held, std::int64_t now_ns);
// Why a call of the model failed, and why all that runs ends with the server.
Error failure_of(engine::DecodeStatus status);
Error bad_logits();
Error stopped();
// After a failed read: returns true if the state before the failure is taken, for a sequence that holds [0, from).
bool take_less(Request& request, Position from);
// The batch that decodes `range` of the effective tokens; logits are wanted after its last token.
std::vector<engine::BatchToken> slice_batch(const Request& request, TokenRange range);

// Further replies of these requests, whose prompts are still to be computed.
std::size_t branches_of(std::span<const std::unique_ptr<Request>> requests);

// Cells that requests will take whose rows are being read or restored, or whose prompts are being prefilled.
std::uint32_t cells_promised(std::span<const std::unique_ptr<Request>> requests, const Sequences& sequences);

// Splits requests into groups that may decode in one call, which has one set of scales of adapters.
std::vector<std::vector<Request*>> by_adapters(const std::vector<Request*>& requests);

// A model call prefilled this many tokens, after which the request's sequence holds `held`.
PrefilledTokens count_prefilled(Request& request, std::size_t held, std::size_t tokens);

// Counts and appends a sampled token, `ms` after the first one. Returns the time since the token before it.
double note_sampled(Request& request, TokenId token, double ms);

// Returns true if the reply has the tokens that were asked for, or the context has no cell for its last token. Contexts
// that may shift have one, unless there is a picture: no part of it may leave.
bool is_enough(const Request& request, std::size_t context_tokens, bool shifts);

bool any_in(std::span<const std::unique_ptr<Request>> requests, Request::Phase phase);

// Returns the trace of the request that runs on `seq`; null if none runs there or wants one.
RequestTrace* trace_of(std::span<const std::unique_ptr<Request>> requests, SeqId seq);

// The request as policy/next_call.h sees it. `held`: tokens in the model's memory, without `part` of the chunk that is
// being computed. `capture`: how far apart its captures are.
struct CaptureStride {
  std::size_t tokens = 0;
  bool bounds = false;   // no slice goes beyond the next capture: rows of a window would slide off uncaptured
  std::size_t grid = 0;  // no slice goes beyond the next multiple of it, where other servers look for state; 0: none
};
// Captures the rows that a slice of `tokens` computed and those of the slices before it, and a point if it ends at a
// cut; a window with all rows; nothing if it ends within a chunk. Returns the part of the time that falls to the slice:
// a capture may copy the rows of many.
double capture_slice(Request& request, Sequences& sequences, const CaptureStride& stride, std::size_t tokens,
                     os::Clock& clock);
policy::ScheduledRequest as_scheduled(const Request& request, std::size_t held, std::size_t part,
                                      const CaptureStride& capture);

// The request as the log and the trace show it; the result refers to all three arguments.
EndedRequest as_ended(const Request& request, Finish how, const std::optional<Error>& error);

}  // namespace kvkeep::server
