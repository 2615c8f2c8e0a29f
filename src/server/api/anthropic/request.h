#pragma once

// POST /v1/messages and /v1/messages/count_tokens: body -> GenerationRequest. In this folder replies and errors are in
// reply.h, conversation and tools in messages.h. docs/anthropic.md says what is obeyed, refused and
// ignored.
//
// Two bodies that mean the same give the same prompt: cache_control, the order of keys, and a string in place of one
// text block do not change it. Values that templates print as they are, the input of calls and the schemas of tools,
// keep their order of keys.

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// Clients mark which part of their prompt is worth keeping. This server keeps every prompt anyway, so marks change
// neither the prompt nor the kept state. Their rules are the API's, so that a client that breaks one learns it here,
// too.
//
// The lifetime that the last mark of a request asks for; kNone if there is no mark.
enum class CacheLifetime { kNone, kFiveMinutes, kOneHour };

// Reads tools, system and messages, in this order, and the top level last. kInvalid if there are more than four marks,
// one on reasoning or empty text, or one of an hour after one of five minutes. Values of other shapes than the API's
// are ignored here: the readers of their fields report them.
Result<CacheLifetime> read_cache_control(const Json& body);

struct MessagesRequest {
  GenerationRequest generation;
  CacheLifetime cache = CacheLifetime::kNone;  // for the counts in `usage`
};

// All errors are kInvalid (400). llama-server's fields (seed, min_p, cache_prompt, chat_template_kwargs...) are read as
// in the other dialects.
Result<MessagesRequest> parse_messages(std::string body, const RequestDefaults& defaults);

// Reads the prompt out of such a body, and checks the fields that belong to it.
Result<chat::RenderInput> read_messages_prompt(const Json& body, MediaReader media, const RequestDefaults& defaults);

// Parses the same body; max_tokens and all fields that do not shape the prompt may be missing.
Result<CountRequest> parse_count_tokens(std::string body, const RequestDefaults& defaults);

}  // namespace kvkeep::server::api
