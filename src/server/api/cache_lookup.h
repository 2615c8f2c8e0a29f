#pragma once

// Bodies of requests about the cache. POST /cache/lookup: the prompt to look up; the reply is in
// server/trace/trace_file.h. POST /cache/warm has the same body.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/known_fields.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// The API of which a body with a prompt is a request. It shapes the prompt: the same field may be known to one and
// ignored by another.
enum class PromptApi : std::uint8_t { kChat, kMessages, kResponses };

// By the parameter `dialect`; "": kChat.
Result<PromptApi> prompt_api_of(std::string_view dialect);
// The fields of a lookup's body.
Dialect lookup_fields(PromptApi of);

struct LookupRequest {
  PromptSource prompt;
  bool cache_prompt = true;     // false: as for a request that would not use the cache
  std::string cache_salt = {};  // as in a request
  std::vector<std::string> unknown_fields = {};
  std::optional<engine::AdapterScales> adapters = {};  // empty: the server's
  bool index_only = false;                             // the index alone answers, without the engine thread
};

// The body has exactly one of {messages, ...} as in /v1/chat/completions, {prompt} as in /v1/completions, and {tokens};
// or is a request of another API. It has optionally {cache_prompt}, {cache_salt} and {lora} as in all of them, and
// {index_only}. All errors are kInvalid (400).
Result<LookupRequest> parse_lookup(std::string body, const RequestDefaults& defaults, PromptApi of = PromptApi::kChat);

// Reads the prompt out of such a body.
Result<PromptSource> read_lookup_prompt(Json& json, MediaReader media, const RequestDefaults& defaults, PromptApi of);
// kInvalid if the body, which is read as `of`, is plainly a request of another API: read as this one it would lose its
// system text, for instance, and still have a prompt.
Status refuse_other_api(const Json& body, PromptApi of);

// ---- cache_orders.cc: POST /cache/pin, /cache/unpin and /cache/clear (docs/cache-api.md). A field that is not known
// is refused: these requests change what is kept, and a slip would change something else than was meant. ----

// The prefix that a request names: by its id, or by a prompt, as in /cache/lookup, also as the whole request that sent
// it.
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

// All errors are kInvalid. The body has exactly one of {id}, {messages, ...}, {prompt} and {tokens}, or the prompt of
// another API; and optionally {cache_salt} and {lora}.
Result<NamedPrefix> parse_named_prefix(std::string body, const RequestDefaults& defaults,
                                       PromptApi of = PromptApi::kChat);

// The body has {all: true}, a prefix as above, or {unused_s}; the last two may come together. {cache_salt} and {lora}
// may come with each.
Result<ClearRequest> parse_clear(std::string body, const RequestDefaults& defaults, PromptApi of = PromptApi::kChat);

}  // namespace kvkeep::server::api
