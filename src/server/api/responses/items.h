#pragma once

// `instructions` and `input` of the Responses API -> messages in OpenAI's older shape, which templates know.
//
//   instructions, and system and developer messages   system messages; those before everything else are one
//   user messages                                      those in a row are one, with a blank line between them
//   reasoning, assistant messages, calls               in a row they are one message by the assistant
//   function_call_output, custom_tool_call_output      a message with role "tool"
//
// A text and one part with that text are the same. Items that tell of what OpenAI's servers ran by themselves
// (web_search_call...) leave no trace.

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// kInvalid for what is malformed, for what this server cannot read (images, files), and for references to items that
// were stored. Not empty.
Result<Json> read_input(const Json& body);

// `encrypted_content` of a reasoning item: the thoughts in clear, marked as ours. Clients that send no `store: true`
// drop reasoning without it, and send it back as it is.
std::string sealed_thoughts(std::string_view thoughts);

}  // namespace kvkeep::server::api
