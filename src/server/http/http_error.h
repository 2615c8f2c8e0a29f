#pragma once

// The errors of this room, in the shape of OpenAI and llama-server unless the routes set another:
// {"error":{"code":404,"message":"...","type":"not_found_error"}}.

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/http_message.h"

namespace kvkeep::server {

inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
inline constexpr std::string_view kNoRoomText = "The server has no room for more request bodies now; try again";
inline constexpr std::string_view kStoppingText = "The server is shutting down";
inline constexpr std::string_view kLateText = "The request did not arrive in time";
inline constexpr std::string_view kFailedText = "Internal server error";

struct HttpError {
  int status = 500;
  std::string body;  // JSON
};

// The shape of errors that one family of clients expects. Both functions are called from any thread.
struct ErrorShape {
  std::function<bool(const HttpRequest&)> applies;  // reads only the head
  std::function<HttpError(int status, std::string_view message, std::string_view request_id)> make;
};

// llama-server's name for the kind of error that a status means.
std::string_view error_type(int status);

// `message` may contain any bytes; invalid UTF-8 is replaced.
std::string error_body(int status, std::string_view message);

// Why a server cannot listen; `reason`: errno, or 0 if the host name is unknown.
Error listen_error(const std::string& host, int port, int reason);

}  // namespace kvkeep::server
