#pragma once

// The tools of a request, as far as they decide how a reply is read: in formats that write parameters as bare text the
// tool's schema decides whether `5` is a number or a string.
//
// Immutable, thread safe.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvkeep::chat::tools {

// The kinds of value that a parameter's schema allows.
struct ValueTypes {
  bool string = false;
  bool boolean = false;
  bool structured = false;  // an object or an array
  bool null = false;

  // ToolSet::value_json() makes a string of every text that begins so.
  bool is_string(std::string_view beginning) const;
};

// Copies share the definitions: each of many replies to a prompt has one.
class ToolSet {
 public:
  ToolSet() : ToolSet(nullptr) {}  // no tools
  // `tools`: OpenAI's shape: [{"type":"function","function":{"name":...,"parameters":schema}}]; null: none.
  // `is_closed`: no other tool may be called.
  explicit ToolSet(nlohmann::ordered_json tools, bool is_closed = false)
      : tools_(std::make_shared<const nlohmann::ordered_json>(std::move(tools))), is_closed_(is_closed) {}

  bool empty() const { return tools_->empty(); }
  const nlohmann::ordered_json& json() const { return *tools_; }
  // The tool's function object; null if there is no such tool.
  const nlohmann::ordered_json* find(std::string_view name) const;
  // Returns true also for an unknown tool: the client answers such calls. Returns false if the call is text.
  bool may_be_called(std::string_view name) const { return !is_closed_ || find(name) != nullptr; }
  // A parameter's value as JSON. A value that the schema allows to be a string stays one, unless it may also be null,
  // an array or an object and the text is that. Everything else is JSON if it parses, else a string.
  std::string value_json(std::string_view tool, std::string_view parameter, std::string_view text) const;
  ValueTypes types_of(std::string_view tool, std::string_view parameter) const;

 private:
  std::shared_ptr<const nlohmann::ordered_json> tools_;
  bool is_closed_ = false;
};

}  // namespace kvkeep::chat::tools
