#pragma once

// `instructions` and `input` of the Responses API -> messages in the shape of chat completions, which templates know.
//
//   instructions, and system and developer messages   system messages; those before everything else are one
//   user messages                                      those in a row are one, with a blank line between them
//   reasoning, assistant messages, calls               in a row they are one message by the assistant
//   function_call_output, custom_tool_call_output      a message with role "tool"
//
// A text and one part with that text are the same. Items about tools that OpenAI's servers ran (web_search_call...) are
// dropped.

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/media_parts.h"

namespace kvkeep::server::api {

// Pictures become the names that `media` gives them. kInvalid for malformed input, for content that this server cannot
// read (images if its model does not see them, files), and for references to stored items. The result is not empty.
Result<Json> read_input(const Json& body, MediaReader& media);

// Returns `encrypted_content` of a reasoning item: the thoughts in clear, marked as kvkeep's. Clients that do not send
// `store: true` drop reasoning without this field, and send the field back unchanged.
std::string sealed_thoughts(std::string_view thoughts);

}  // namespace kvkeep::server::api
