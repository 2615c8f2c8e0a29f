#pragma once

#include <string_view>

namespace kvkeep::gguf {

// ChatML. The system turn lists the tools, calls are <tool_call> blocks, results are <tool_response> blocks in a user
// turn (consecutive results share one). Message text is never trimmed: generated text renders unchanged.
std::string_view chat_template();

}  // namespace kvkeep::gguf
