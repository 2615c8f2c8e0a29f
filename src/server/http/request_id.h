#pragma once

#include <cstdint>
#include <string>

namespace kvkeep::server {

// "req_" and 24 hexadecimal digits: the name that a client shows with an error. It is unique, also among those of
// earlier processes.
std::string request_id(std::int64_t wall_ns, std::uint64_t count);

}  // namespace kvkeep::server
