#pragma once

// The text in a tool's result that replaces a part that the model cannot read. A user's own picture is refused, since
// the answer would not be about it; but a tool's result stays in the conversation, which a client could not continue.

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace kvkeep::server::api {

inline std::string left_out(std::string_view type) {
  return fmt::format("[{} left out: this model reads text only]", type);
}

}  // namespace kvkeep::server::api
