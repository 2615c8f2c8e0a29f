#pragma once

#include <string>
#include <string_view>

namespace kvkeep::server {

// One line per request: refusals and failures with the body's beginning (an error's words) for whoever runs the server,
// the rest for debugging. What clients send is shortened, and control characters are shown as '?'.
void log_exchange(std::string_view method, std::string_view path, int status, std::string_view body);

// Says what the exception that is being handled is about, whatever was thrown. Only within a catch block.
std::string current_exception_text();

}  // namespace kvkeep::server
