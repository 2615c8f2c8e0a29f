#pragma once

// The tools of a request, as far as what the model writes depends on them: formats that write parameters as bare text
// leave it to the tool's schema whether `5` is a number or a string.
//
// Immutable, thread safe.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvkeep::chat::tools {

// What a parameter's schema lets its value be.
struct ValueTypes {
  bool string = false;
  bool boolean = false;
  bool structured = false;  // an object or an array
  bool null = false;

  // Whatever follows, ToolSet::value_json() makes a string of a text that begins so.
  bool is_string(std::string_view beginning) const;
};

class ToolSet {
 public:
  // None.
  ToolSet() = default;
  // OpenAI's shape: [{"type":"function","function":{"name":...,"parameters":schema}}]; null: none.
  explicit ToolSet(nlohmann::ordered_json tools) : tools_(std::move(tools)) {}

  // `is_closed`: no other tool may be called.
  ToolSet(nlohmann::ordered_json tools, bool is_closed) : tools_(std::move(tools)), is_closed_(is_closed) {}

  bool empty() const { return tools_.empty(); }
  const nlohmann::ordered_json& json() const { return tools_; }
  // Its function object; null: not among them.
  const nlohmann::ordered_json* find(std::string_view name) const;
  // Also of tools that are not among them: the client answers such calls. False: the call is text.
  bool may_be_called(std::string_view name) const { return !is_closed_ || find(name) != nullptr; }
  // A parameter's value as JSON. What the schema says may be a string stays one, unless it may also be null, an array
  // or an object and the text is that. Everything else is JSON if it parses, else a string.
  std::string value_json(std::string_view tool, std::string_view parameter, std::string_view text) const;
  ValueTypes types_of(std::string_view tool, std::string_view parameter) const;

 private:
  nlohmann::ordered_json tools_;
  bool is_closed_ = false;
};

}  // namespace kvkeep::chat::tools
