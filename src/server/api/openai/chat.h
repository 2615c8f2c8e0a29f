#pragma once

// POST /v1/chat/completions: body -> GenerationRequest. Replies are in reply.h.
//
// Validation is strict where a client could be misled (types, roles, parts that are not understood) and lenient where
// it could not (unknown fields).

#include <string_view>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// All errors are kInvalid (400).
Result<GenerationRequest> parse_chat(std::string body, const RequestDefaults& defaults);

// POST /v1/chat/completions/control. Returns the id of the reply whose thought is to end.
Result<std::string> parse_chat_control(std::string body);
// `found`: such a reply is being written. As in llama-server, its absence is no error: it may just have ended.
std::string chat_control_reply(bool found);

// Reads the part that /apply-template shares: messages, with the pictures and sounds that `media` reads, tools,
// tool_choice, chat_template_kwargs, add_generation_prompt. Moves messages and tools out of the body, whose template
// variables replace the server's `kwargs`. A last message by the assistant becomes RenderInput::assistant_prefix, which
// the answer continues.
Result<chat::RenderInput> read_chat_prompt(Json& body, MediaReader media, const Json& kwargs = nullptr);

}  // namespace kvkeep::server::api
