#pragma once

// Two things that minja leaves undone, done by a node that stands in front of a template's root:
//
// - A macro holds the context it was defined in, and that context holds the macro: neither is ever freed, nor are the
//   messages beside them. Here the context is emptied after each rendering, also after one that failed. (A macro
//   defined within a loop or another macro lives in a context of its own, which is out of reach and stays.)
// - range() makes as many numbers as it is asked for. Here it refuses more than anyone needs, with an exception as
// minja
//   throws them. Other loops run over what is already there.

#include <memory>
#include <minja/chat-template.hpp>

namespace kvkeep::chat {

inline constexpr double kMaxRangeNumbers = 1e6;    // of one call: 80 MB
inline constexpr double kMaxRangesNumbers = 10e6;  // of all calls in one rendering: a few seconds

// Puts the node in place. Renderings by the same `engine` may then run on several threads, as before.
void guard_rendering(minja::chat_template& engine);

}  // namespace kvkeep::chat
