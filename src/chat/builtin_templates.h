#pragma once

// Chat templates by name, as llama-server's --chat-template takes them: for models that carry none, or a wrong one.
//
// They have no tools and no thinking, as in llama-server; those that are no Jinja texts there are written as such here,
// so that each byte of a prompt keeps its origin. Immutable, thread safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::chat {

// In alphabetical order.
std::vector<std::string> builtin_template_names();
// Returns the Jinja source; nullopt if no template has that name.
std::optional<std::string> builtin_template(std::string_view name);

}  // namespace kvkeep::chat
