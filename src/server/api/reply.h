#pragma once

// The reply to a client, in whatever dialect.
//
// A ReplyWriter turns the events of one request into bytes. For a stream:
//   first(), progress()..., delta()..., finish()      each returns the SSE bytes to send, maybe none
// and stream_error() in place of finish() if generation fails; comments that keep the connection alive may be sent at
// any time, also before first(). For one body: whole(). Content types: kSseContentType, kJsonContentType. An error
// before anything was sent is error() or context_exceeded(). Text passed in is valid UTF-8 (chat::Utf8Stream), with
// stop strings already cut (chat::StopStrings).
//
// A reply may have several choices: other continuations of the prompt, and those of further prompts. Their events come
// in any order, each with the number of its choice; end_choice() ends each one but the last.
//
// Times and ids come from the caller; nothing here reads a clock. Used by one thread at a time.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "chat/tools/reply_parser.h"
#include "server/api/errors.h"
#include "server/api/json_body.h"
#include "server/api/json_pieces.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

inline constexpr std::string_view kSseContentType = "text/event-stream";
inline constexpr std::string_view kJsonContentType = "application/json; charset=utf-8";

// The same in every chunk of a reply.
struct ReplyHeader {
  std::string id;                  // "chatcmpl-..."
  std::int64_t created_s = 0;      // seconds since 1970
  std::string model;               // the name under which the model is served
  std::string system_fingerprint;  // "b<build>-kvkeep..."
};

// llama-server's timings, and where the cached tokens came from.
struct Timings {
  std::size_t cache_n = 0;   // tokens of the prompt that were not prefilled
  std::size_t prompt_n = 0;  // tokens of the prompt that were prefilled
  double prompt_ms = 0;      // until the first token was sampled
  std::size_t predicted_n = 0;
  double predicted_ms = 0;            // from the first sampled token to the last
  std::string cache_source = "none";  // tier and match of the deepest token: "memory-token", "disk-text"
  std::size_t memory_tokens = 0;      // cache_n by tier
  std::size_t ram_tokens = 0;
  std::size_t disk_tokens = 0;
  std::size_t shared_tokens = 0;
  std::string cache_point = "none";      // tier of the point that was restored next to the rows
  std::string cache_miss_reason = {};    // why cache_n is not larger; "" leaves the field out
  std::optional<Json> cache_break = {};  // the same with its place, price and advice; empty leaves the field out
  std::optional<std::size_t> slot = {};  // where the request ran; empty leaves the field out
};

struct PrefillProgress {
  std::size_t total = 0;      // tokens of the prompt
  std::size_t cached = 0;     // of these, tokens from the cache
  std::size_t processed = 0;  // done so far, including cached ones
  double time_ms = 0;
  std::size_t choice = 0;  // the first one of the prompt
  std::optional<std::size_t> slot = {};
};

// A token as replies show it, and how likely the model found it.
struct TokenScore {
  TokenId id = 0;
  std::string text = {};                   // may be a part of a code point
  float logprob = 0;                       // NaN: it has none
  std::vector<TokenScore> likeliest = {};  // of a sampled token: the likeliest ones at its place
};

// The scores of tokens that follow each other. Each is made when it is written: with their texts, those of a long reply
// would take ten times the memory of their numbers.
struct ScoreList {
  std::size_t size = 0;
  std::function<TokenScore(std::size_t number)> at = {};  // precondition: below `size`
};

// The facts about the prompt that are known when its prefill begins.
struct ReplyStart {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // of these, tokens from the cache
  std::size_t choice = 0;
  ScoreList prompt_scores = {};  // of its tokens, if the request asked for them
};

// The model's output, piece by piece; the order is the parser's.
using DeltaKind = chat::tools::DeltaKind;

struct Delta {
  DeltaKind kind = DeltaKind::kText;
  std::string_view text = {};            // for kText, kReasoning, kCallArguments; may be empty if `tokens` are not
  std::size_t call_index = 0;            // number among the reply's calls, from 0; for the three call kinds
  std::string_view call_id = {};         // for kCallBegin
  std::string_view call_name = {};       // for kCallBegin
  bool call_is_whole = true;             // for kCallEnd; false: the end of its arguments is missing
  std::span<const TokenId> tokens = {};  // sent if the request asked for return_tokens
  const Timings* timings = nullptr;      // sent if the request asked for timings_per_token
  const TokenScore* score = nullptr;     // of the token that released this; sent if the request asked for scores
  std::size_t choice = 0;
  std::optional<std::size_t> slot = {};
};

enum class FinishReason { kStop, kLength, kToolCalls };

enum class PartKind { kText, kReasoning, kCall };

struct ReplyPart {
  PartKind kind = PartKind::kText;
  std::string text = {};  // of a call: its arguments, a JSON text
  std::string call_id = {};
  std::string call_name = {};
  bool is_whole = true;  // of a call: its arguments are complete
  bool operator==(const ReplyPart&) const = default;
};

// Adds a delta to those before it: whole() gets the sum of a stream's deltas.
void append_delta(std::vector<ReplyPart>& content, const Delta& delta);
// Joins the texts of all parts of one kind.
std::string joined_text(std::span<const ReplyPart> content, PartKind kind);

// Tokens of all choices; choices of the same prompt share it.
struct Usage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // of the prompts'
  std::size_t completion_tokens = 0;
  std::size_t reasoning_tokens = 0;  // of the completions'
};

struct GenerationResult {
  FinishReason finish = FinishReason::kStop;
  std::string stop_string = {};         // the one that ended the reply; "": none did
  bool by_line_limit = false;           // with kLength: a limit of time or of indentation ended it
  bool truncated = false;               // the context was full, and some of it left
  std::vector<ReplyPart> content = {};  // for whole() only; in the order in which the model wrote it
  std::vector<TokenId> tokens = {};     // for whole() only, with return_tokens
  ScoreList scores = {};                // for whole() only, of each token
  ScoreList prompt_scores = {};         // for whole() only, as in ReplyStart
  std::size_t prompt_tokens = 0;
  std::size_t reasoning_tokens = 0;  // among the generated tokens
  Timings timings = {};              // usage takes cached and completion tokens from these
  std::size_t choice = 0;
  std::optional<std::size_t> slot = {};    // the place where the request runs; none: it has not begun to
  std::optional<Usage> usage_of_all = {};  // in the last one of a stream, and in the first one of a whole reply
};

// One object per request.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  virtual std::string first(const ReplyStart& start) = 0;
  virtual std::string progress(const PrefillProgress& progress) = 0;
  virtual std::string delta(const Delta& delta) = 0;
  // Returns the last chunks, with "[DONE]". Does not read result.content.
  virtual std::string finish(const GenerationResult& result) = 0;
  // Returns the last chunks of a choice while others go on. Only for dialects that have several choices.
  virtual std::string end_choice(const GenerationResult& result);
  // Returns the JSON body of a reply that is not streamed.
  virtual std::string whole(const GenerationResult& result) = 0;
  // The same for all choices, in their order, made piece by piece as long as this lives. Precondition: one, or the
  // dialect has several.
  virtual JsonPieces whole_of_all(std::vector<GenerationResult> results);

  // For a silent stream: a comment, or an event after those that open the stream; then first() is empty.
  virtual std::string keep_alive();

  // Errors in the dialect's own shape; the defaults are OpenAI's (errors.h).
  virtual ErrorReply error(const Error& error) const;
  virtual ErrorReply context_exceeded(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens) const;
  virtual std::string stream_error(const ErrorReply& reply) const;
};

// Building blocks for the dialects.
std::string sse(const Json& data);  // "data: {...}\n\n"
std::string_view sse_done();        // "data: [DONE]\n\n"
std::string_view sse_keep_alive();  // a comment: proxies and clients would close a connection that is silent for long
std::string_view to_string(FinishReason finish);
Json timings_json(const Timings& timings);
Json usage_json(const GenerationResult& result);  // of all choices
Json progress_json(const PrefillProgress& progress);
// An entry of llama-server's list: a token's id, text, bytes, "logprob", and "top_logprobs" with the likeliest; or, if
// the request asked for post_sampling_probs, "prob" and "top_probs".
enum class ScoreKind { kLogprobs, kDrawn };
ScoreKind score_kind(const GenerationRequest& request);
// JSON has no infinity: a token that cannot come is shown with OpenAI's least value. NaN stays, and becomes null.
float shown_logprob(float logprob);
Json score_json(const TokenScore& score, ScoreKind kind);
void add_scores(JsonPieces& pieces, ScoreList scores, ScoreKind kind);

}  // namespace kvkeep::server::api
