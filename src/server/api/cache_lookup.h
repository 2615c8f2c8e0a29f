#pragma once

// Bodies of requests about the cache. POST /cache/lookup: the prompt to look up; the reply is in
// server/trace/trace_file.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

struct LookupRequest {
  PromptSource prompt;
  bool cache_prompt = true;     // false: as for a request that would not use the cache
  std::string cache_salt = {};  // as in a request
  std::vector<std::string> unknown_fields = {};
  std::optional<engine::AdapterScales> adapters = {};  // empty: the server's
  bool index_only = false;                             // the index alone answers, without the engine thread
};

// The body has exactly one of {messages, ...} as in /v1/chat/completions, {prompt} as in /v1/completions, and {tokens};
// and optionally {cache_prompt}, {cache_salt} and {lora} as in both, and {index_only}. All errors are kInvalid (400).
Result<LookupRequest> parse_lookup(std::string body, const RequestDefaults& defaults);

// Reads the prompt out of such a body.
Result<PromptSource> read_lookup_prompt(Json& json, MediaReader media, const RequestDefaults& defaults);

// ---- cache_orders.cc: POST /cache/pin, /cache/unpin and /cache/clear (docs/cache-api.md). A field that is not known
// is refused: these requests change what is kept, and a slip would change something else than was meant. ----

// The prefix that a request names: by its id, or by a prompt, as in /cache/lookup.
struct NamedPrefix {
  std::string id = {};  // hexadecimal digits; empty: by the prompt
  PromptSource prompt = {};
  std::string cache_salt = {};
  std::optional<engine::AdapterScales> adapters = {};  // empty: by an id, whatever they are; by a prompt, the server's
};

struct ClearRequest {
  std::optional<NamedPrefix> prefix = {};     // only this one and everything that goes on from it
  std::optional<std::int64_t> unused_s = {};  // only state that was unused for so long
  std::string cache_salt = {};
  std::optional<engine::AdapterScales> adapters = {};  // only state of these scales; of a prefix, see there
};

inline constexpr std::size_t kFewestIdDigits = 8;

// All errors are kInvalid. The body has exactly one of {id}, {messages, ...}, {prompt} and {tokens}, and optionally
// {cache_salt} and {lora}.
Result<NamedPrefix> parse_named_prefix(std::string body, const RequestDefaults& defaults);

// The body has {all: true}, a prefix as above, or {unused_s}; the last two may come together. {cache_salt} and {lora}
// may come with each.
Result<ClearRequest> parse_clear(std::string body, const RequestDefaults& defaults);

}  // namespace kvkeep::server::api
