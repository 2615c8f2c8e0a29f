#pragma once

// The errors this room raises itself, in the shape of OpenAI and llama-server unless the routes say otherwise:
// {"error":{"code":404,"message":"...","type":"not_found_error"}}.

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/http_message.h"

namespace kvkeep::server {

inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
// Refusals for which a client is told to try again.
inline constexpr std::string_view kNoRoomText = "The server holds as many bytes of requests as it may; try again";
inline constexpr std::string_view kStoppingText = "The server is shutting down";

struct HttpError {
  int status = 500;
  std::string body;  // JSON
};

// How errors look to one family of clients. Both functions are called from any thread.
struct ErrorShape {
  std::function<bool(const HttpRequest&)> applies;  // looks at the head alone
  std::function<HttpError(int status, std::string_view message, std::string_view request_id)> make;
};

// llama-server's name for the kind of trouble a status means.
std::string_view error_type(int status);

// `message` may hold any bytes; invalid UTF-8 is replaced.
std::string error_body(int status, std::string_view message);

// The message for a status that came up without one of its own (a malformed request line, say).
std::string_view default_error_message(int status);

// Why a server cannot listen; `reason`: errno, or 0 for a host name that nobody knows.
Error listen_error(const std::string& host, int port, int reason);

}  // namespace kvkeep::server
