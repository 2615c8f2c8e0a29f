#pragma once

// HTTP Archive 1.2 (the W3C draft that browsers and proxies write), as a session.

#include "bench/session.h"

namespace kvkeep::bench {

// Errors and what is left out: parse_session().
Result<Session> parse_har(const std::string& file_name, std::string_view text);

}  // namespace kvkeep::bench
