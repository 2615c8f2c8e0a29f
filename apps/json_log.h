#pragma once

// Lines of the log as JSON, for programs that collect logs (--log-format json).

#include <cstdint>
#include <string>
#include <string_view>

namespace kvkeep::cli {

// Returns one object without a line end: "time" (UTC, milliseconds), "level", "message", and, if the message has words
// such as prompt=123, "fields": each word's value, a number where it is one. A time with its unit (0.120s) is a number
// of seconds. Of words with one name the first counts. Invalid UTF-8 is replaced. Pure.
std::string json_log_line(std::int64_t time_ms, std::string_view level, std::string_view message);

}  // namespace kvkeep::cli
