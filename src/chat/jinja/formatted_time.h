#pragma once

// Times as Python's strftime writes them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvkeep::chat::jinja {

// `local_time_s`: seconds since 1970, shifted to the local time zone. Unknown conversions stay as they are; nullopt for
// a time that no calendar has. Pure but for the C locale's names of days and months.
std::optional<std::string> formatted_time(std::string_view format, std::int64_t local_time_s);

}  // namespace kvkeep::chat::jinja
