#pragma once

// What stands in a tool's result for what the model cannot read. A user's own picture is refused, for the answer would
// be about nothing; but a tool's result is in the conversation for good, and a client could not go on with it.

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace kvkeep::server::api {

inline std::string left_out(std::string_view type) {
  return fmt::format("[{} left out: this model reads text only]", type);
}

}  // namespace kvkeep::server::api
