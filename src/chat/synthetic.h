#pragma once

// Messages for invented conversations, rendered to learn what a template does. In OpenAI's shape; contents are words
// that no template prints by itself.

#include <nlohmann/json.hpp>
#include <string_view>

namespace kvkeep::chat::synthetic {

// How clients send an answer's thinking back.
enum class Thinking {
  kField,    // reasoning_content
  kContent,  // <think>...</think> before the answer
};

nlohmann::ordered_json message(std::string_view role, std::string_view content);
nlohmann::ordered_json answer(std::string_view thinking, std::string_view content, Thinking form);
// An answer that is one call of tools()[0].
nlohmann::ordered_json call(std::string_view thinking, Thinking form);
// The result of that call.
nlohmann::ordered_json result(std::string_view content);
// One tool.
nlohmann::ordered_json tools(std::string_view description);

}  // namespace kvkeep::chat::synthetic
