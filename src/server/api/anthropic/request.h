#pragma once

// POST /v1/messages and /v1/messages/count_tokens: body -> GenerationRequest. Replies are in anthropic_reply.h, errors
// in anthropic_errors.h, the conversation in anthropic_messages.h, tools in anthropic_tools.h. docs/anthropic.md says
// what is obeyed, refused and ignored.
//
// Two bodies that mean the same give the same prompt: cache_control, the order of keys, and a string in the place of
// one text block leave no trace in it. What templates print as it is, the input of calls and the schemas of tools,
// keeps its order of keys.

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/anthropic/cache_control.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

struct MessagesRequest {
  GenerationRequest generation;
  CacheLifetime cache = CacheLifetime::kNone;  // for the counts in `usage`
};

// All errors are kInvalid (400). llama-server's fields (seed, min_p, cache_prompt, chat_template_kwargs...) are read as
// in the other dialects.
Result<MessagesRequest> parse_messages(std::string body, const RequestDefaults& defaults);

struct CountRequest {
  chat::RenderInput prompt;
  std::string model;
  std::string cache_salt;
  std::vector<std::string> unknown_fields;
};
// The same body, of which max_tokens and all that does not shape the prompt may be missing.
Result<CountRequest> parse_count_tokens(std::string body, const RequestDefaults& defaults);

}  // namespace kvkeep::server::api
