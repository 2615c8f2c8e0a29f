#pragma once

// A call while it is written: its name as soon as it is certain, and its arguments as they come.
//
// A preview sees a body from its first byte on. If the call turns out well formed, its name and arguments are those
// that parse_call_body() finds in the whole body; the last brace of the arguments is held back until that is checked.
// So a client that has a call's arguments whole has a whole call.
//
// Some things are known only at the end: arguments that come before the name or in a string, the second of several
// calls in one list, values that may be no string, Mistral's lists with ids after the arguments, calls whose arguments
// are no JSON (literal_calls.h).
//
// Not thread safe.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/tools/call_body.h"

namespace kvkeep::chat::tools {

class CallPreview {
 public:
  CallPreview() = default;
  virtual ~CallPreview() = default;
  CallPreview(const CallPreview&) = delete;
  CallPreview& operator=(const CallPreview&) = delete;

  // Text outside of values; text inside one, between its tags. It may be cut anywhere.
  virtual void text(std::string_view bytes) = 0;
  virtual void open_value() {}
  virtual void value(std::string_view /*bytes*/) {}
  virtual void close_value() {}

  // Name and id, once they are certain and arguments have begun.
  const std::optional<ParsedCall>& call() const { return call_; }
  // Takes the arguments that are certain.
  std::string take();
  // Takes the rest of the whole call's arguments. Returns nullopt if it is another call than the one that was begun,
  // because its name, its id or its arguments came twice.
  std::optional<std::string> rest_of(const ParsedCall& whole) const;

 protected:
  void begin(ParsedCall call) { call_ = std::move(call); }
  void pass(std::string_view arguments) { passed_ += arguments; }

 private:
  std::optional<ParsedCall> call_;
  std::string passed_;
  std::size_t taken_ = 0;  // bytes of passed_
};

// `tools` outlives it. `is_bare`: CallText::is_bare. Null for formats without bodies (kNone, kHarmony).
std::unique_ptr<CallPreview> make_preview(FormatKind format, const ToolSet& tools, bool is_bare);
// For a call whose name stands apart from its arguments.
std::unique_ptr<CallPreview> make_named_preview(std::string name);

}  // namespace kvkeep::chat::tools
