#pragma once

// Learns what a template supports by rendering with it, and adapts conversations to that (chat_template.h).

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "chat/chat_template.h"

namespace kvkeep::chat {

// Text of messages and tools as the template prints them; "" if it refuses them.
using Probe = std::function<std::string(nlohmann::ordered_json messages, nlohmann::ordered_json tools)>;

TemplateTraits learn_traits(std::string_view source, const Probe& probe);

bool needs_adapting(const TemplateTraits& traits, const RenderInput& input);
nlohmann::ordered_json adapted_messages(const TemplateTraits& traits, const RenderInput& input);

}  // namespace kvkeep::chat
