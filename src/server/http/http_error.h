#pragma once

// The error bodies this room raises itself, in the shape of OpenAI and llama-server:
// {"error":{"code":404,"message":"...","type":"not_found_error"}}.

#include <string>
#include <string_view>

namespace kvkeep::server {

// llama-server's name for the kind of trouble a status means.
std::string_view error_type(int status);

// `message` may hold any bytes; invalid UTF-8 is replaced.
std::string error_body(int status, std::string_view message);

// The message for a status that came up without one of its own (a malformed request line, say).
std::string_view default_error_message(int status);

}  // namespace kvkeep::server
