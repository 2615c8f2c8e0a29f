#pragma once

#include <string>
#include <string_view>

namespace kvkeep::server {

// Writes one line per request: for refusals and failures with the beginning of the body (an error's words), for the
// operator; others at debug level. Texts of clients are shortened, with control characters shown as '?'. The line has
// the fields `method`, `path`, `status` and, of an error, `error`: its message.
void log_exchange(std::string_view method, std::string_view path, int status, std::string_view body);

// Returns the text of the exception that is being handled, whatever was thrown. Call it only within a catch block.
std::string current_exception_text();

}  // namespace kvkeep::server
