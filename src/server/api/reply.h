#pragma once

// What goes back to the client, whatever the dialect.
//
// A ReplyWriter turns events into bytes and keeps no state but what it was built with. For a stream:
//   first(), progress()..., delta()..., finish()      each returns the SSE bytes to send, maybe none
// with progress() before or after first(), and stream_error() in the place of finish() if generation fails. For one
// body: whole(). Content types: kSseContentType, kJsonContentType. An error before anything was sent is error_reply()
// in errors.h. Text passed in is valid UTF-8 (chat::Utf8Stream), with stop strings already cut (chat::StopStrings).
//
// Times and ids come from the caller; nothing here reads a clock. Thread safe in the sense of const.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

inline constexpr std::string_view kSseContentType = "text/event-stream";
inline constexpr std::string_view kJsonContentType = "application/json; charset=utf-8";

// The same in every chunk of a reply.
struct ReplyHeader {
  std::string id;                  // "chatcmpl-..."
  std::int64_t created_s = 0;      // seconds since 1970
  std::string model;               // the name the model is served under
  std::string system_fingerprint;  // "b<build>-kvkeep..."
};

// llama-server's timings, and where the cached tokens came from.
struct Timings {
  std::size_t cache_n = 0;   // tokens of the prompt that were not prefilled
  std::size_t prompt_n = 0;  // tokens that were
  double prompt_ms = 0;      // until the first token was sampled
  std::size_t predicted_n = 0;
  double predicted_ms = 0;            // from the first sampled token to the last
  std::string cache_source = "none";  // tier and match of the deepest token: "memory-token", "disk-text"
  std::size_t memory_tokens = 0;      // cache_n by tier
  std::size_t ram_tokens = 0;
  std::size_t disk_tokens = 0;
  std::string cache_point = "none";  // tier of the point that was restored beside the rows
  std::string cache_miss_reason;     // why cache_n is not larger; "" leaves the field out
};

struct PrefillProgress {
  std::size_t total = 0;      // tokens of the prompt
  std::size_t cached = 0;     // of these from the cache
  std::size_t processed = 0;  // done so far, cached ones included
  double time_ms = 0;
};

struct Delta {
  std::string_view text;
  std::span<const TokenId> tokens = {};  // sent if the request asked for return_tokens
  const Timings* timings = nullptr;      // sent if the request asked for timings_per_token
};

enum class FinishReason { kStop, kLength };

struct GenerationResult {
  FinishReason finish = FinishReason::kStop;
  std::string text;             // whole() only
  std::vector<TokenId> tokens;  // whole() only, with return_tokens
  std::size_t prompt_tokens = 0;
  Timings timings;  // usage takes cached and completion tokens from here
};

class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  virtual std::string first() const = 0;
  virtual std::string progress(const PrefillProgress& progress) const = 0;
  virtual std::string delta(const Delta& delta) const = 0;
  // The last chunks, "[DONE]" included. result.text is not looked at.
  virtual std::string finish(const GenerationResult& result) const = 0;
  // The JSON body of a reply that is not streamed.
  virtual std::string whole(const GenerationResult& result) const = 0;
};

// Building blocks for the dialects.
std::string sse(const Json& data);  // "data: {...}\n\n"
std::string_view sse_done();        // "data: [DONE]\n\n"
std::string_view sse_keep_alive();  // a comment: keeps proxies and clients from giving up during a long prefill
std::string_view to_string(FinishReason finish);
Json timings_json(const Timings& timings);
Json usage_json(const GenerationResult& result);
Json progress_json(const PrefillProgress& progress);

}  // namespace kvkeep::server::api
