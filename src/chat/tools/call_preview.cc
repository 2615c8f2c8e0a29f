#include "chat/tools/call_preview.h"

#include <fmt/format.h>

#include "chat/tools/call_body.h"
#include "chat/tools/json_text.h"

namespace kvkeep::chat::tools {
namespace {

// A body that takes longer to begin its arguments is read at its end.
constexpr std::size_t kLongestPreviewBytes = 1024;

// Arguments that are JSON in the model's own words.
class JsonArgumentsPreview : public CallPreview {
 public:
  void text(std::string_view bytes) final {
    for (const char byte : bytes) {
      if (!call() && !is_over_) look_for_arguments(byte);
      if (call()) feed(byte);
    }
  }

 protected:
  // The next byte before the arguments. begin() is called with their first brace.
  virtual void look_for_arguments(char byte) = 0;
  void give_up() { is_over_ = true; }

 private:
  void feed(char byte) {
    if (object_.state() != JsonObjectStream::State::kOpen) return;
    const bool is_whole = object_.feed(byte) == JsonObjectStream::State::kWhole;
    std::string passed = object_.take();
    if (is_whole) passed.pop_back();  // the last brace
    pass(passed);
  }

  JsonObjectStream object_;
  bool is_over_ = false;
};

class NamedPreview final : public JsonArgumentsPreview {
 public:
  explicit NamedPreview(std::string name) : name_(std::move(name)) {}

 private:
  void look_for_arguments(char byte) override {
    if (is_white(byte)) return;
    auto call = byte == '{' ? named_call(name_, "{}") : std::nullopt;
    if (!call) return give_up();
    begin(*std::move(call));
  }

  const std::string name_;
};

// {"name":"f","arguments":{..., or a head and a separator before the arguments.
class JsonPreview final : public JsonArgumentsPreview {
 public:
  JsonPreview(FormatKind format, const ToolSet& tools, bool is_bare)
      : format_(format), tools_(tools), is_bare_(is_bare) {}

 private:
  void look_for_arguments(char byte) override {
    if (byte == '{' && !scanner_.in_string()) try_to_begin();
    if (call()) return;
    head_ += byte;
    scanner_.feed(byte);
    if (head_.size() > kLongestPreviewBytes) give_up();
  }

  // The text that would close the call if its arguments began here; nullopt if they do not.
  std::optional<std::string_view> closing() const {
    const std::string_view separator = row_of(format_).separator;
    if (scanner_.depth() == 0) {
      const bool is_behind = !separator.empty() && head_.find(separator) != std::string::npos;
      return is_behind ? std::optional<std::string_view>("") : std::nullopt;
    }
    std::string_view before = trimmed(head_);
    const bool in_list = before.front() == '[';
    if (scanner_.depth() != (in_list ? 2U : 1U) || !before.ends_with(':')) return std::nullopt;
    before = trimmed(before.substr(0, before.size() - 1));
    if (!before.ends_with("\"arguments\"") && !before.ends_with("\"parameters\"")) return std::nullopt;
    return in_list ? "}]" : "}";
  }

  void try_to_begin() {
    const auto end = closing();
    if (!end) return;
    const std::string shortest = fmt::format("{}{{}}{}", head_, *end);
    auto calls = parse_call_body(format_, {.body = shortest, .values = {}, .is_bare = is_bare_}, tools_);
    if (!calls || calls->size() != 1 || may_change_behind(calls->front(), !end->empty())) return give_up();
    begin(std::move(calls->front()));
  }

  // Text after the arguments may show that a bare object is not a call of a known tool, and in Mistral's lists, that
  // the call has an id of its own: their template writes it there.
  bool may_change_behind(const ParsedCall& call, bool in_object) const {
    if (is_bare_ && tools_.find(call.name) == nullptr) return true;
    return format_ == FormatKind::kMistral && in_object && call.id.empty();
  }

  const FormatKind format_;
  const ToolSet& tools_;
  const bool is_bare_;
  std::string head_;
  JsonScanner scanner_;
};

// Literals of other languages are JSON only once they are read, so everything comes at the end.
class NoPreview final : public CallPreview {
 public:
  void text(std::string_view /*bytes*/) override {}
};

void append_escaped(std::string& json, char byte) {
  switch (byte) {
    case '"': json += "\\\""; return;
    case '\\': json += "\\\\"; return;
    case '\b': json += "\\b"; return;
    case '\f': json += "\\f"; return;
    case '\n': json += "\\n"; return;
    case '\r': json += "\\r"; return;
    case '\t': json += "\\t"; return;
    default: break;
  }
  if (static_cast<unsigned char>(byte) < 0x20) {
    json += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
  } else {
    json += byte;
  }
}

// Parameters between tags. Those that are certainly strings are passed on as they come.
class ValuesPreview final : public CallPreview {
 public:
  ValuesPreview(FormatKind format, const ToolSet& tools) : format_(format), tools_(tools) {}

  void text(std::string_view bytes) override {
    if (state_ == State::kOver) return;
    outside_ += bytes;
    if (outside_.size() > kLongestPreviewBytes) state_ = State::kOver;
  }

  void open_value() override {
    if (state_ == State::kOver) return;
    std::string_view gap = trimmed(outside_);
    if (!call()) {
      const auto head = tagged_head(format_, outside_, false);
      auto named = head ? named_call(head->name, "{}") : std::nullopt;
      if (!named) return give_up();
      gap = head->rest;
      begin(*std::move(named));
    }
    gap_ = gap;
    outside_.clear();
    inside_.clear();
    state_ = State::kAttributes;
    if (!has_attributes(format_)) begin_value({});
  }

  void value(std::string_view bytes) override {
    if (state_ == State::kOver) return;
    if (state_ == State::kAttributes) {
      const std::size_t end = bytes.find('>');
      inside_ += bytes.substr(0, end);
      if (inside_.size() > kLongestPreviewBytes) return give_up();
      if (end == std::string_view::npos) return;
      begin_value(std::exchange(inside_, {}));
      if (state_ == State::kOver) return;
      bytes.remove_prefix(end + 1);
    }
    if (state_ == State::kString) return write_string(bytes);
    inside_ += bytes;
    if (state_ != State::kUndecided) return;
    if (types_.is_string(inside_)) return begin_string(std::exchange(inside_, {}));
    if (inside_.size() > kLongestPreviewBytes) state_ = State::kJson;
  }

  void close_value() override {
    if (state_ == State::kAttributes) return give_up();
    if (state_ == State::kString) pass("\"");
    if (state_ == State::kUndecided || state_ == State::kJson) {
      pass(parameter_json(parameter_, call()->name, inside_, tools_));
    }
    if (state_ != State::kOver) state_ = State::kOutside;
  }

 private:
  enum class State {
    kOutside,
    kAttributes,
    kUndecided,  // the schema says whether it is a string, and the text has not shown it yet
    kJson,       // known at the end
    kString,
    kOver,  // nothing more is passed on
  };

  void give_up() { state_ = State::kOver; }

  void begin_value(std::string_view attributes) {
    auto head = parameter_head(format_, gap_, attributes);
    if (!head) return give_up();
    parameter_ = *std::move(head);
    pass(std::exchange(has_values_, true) ? "," : "{");
    pass(json_string(parameter_.key) + ":");
    switch (parameter_.writing) {
      case ParameterHead::Writing::kText: return begin_string({});
      case ParameterHead::Writing::kJson: state_ = State::kJson; return;
      case ParameterHead::Writing::kBySchema: break;
    }
    types_ = tools_.types_of(call()->name, parameter_.key);
    state_ = types_.string ? State::kUndecided : State::kJson;
  }

  void begin_string(std::string_view beginning) {
    state_ = State::kString;
    at_first_ = true;
    holds_line_end_ = false;
    pass("\"");
    write_string(beginning);
  }

  void write_string(std::string_view bytes) {
    std::string json;
    for (const char byte : bytes) {
      const bool is_first = std::exchange(at_first_, false);
      if (parameter_.in_lines && byte == '\n') {
        if (is_first) continue;
        if (holds_line_end_) json += "\\n";
        holds_line_end_ = true;
        continue;
      }
      if (std::exchange(holds_line_end_, false)) json += "\\n";
      append_escaped(json, byte);
    }
    pass(json);
  }

  const FormatKind format_;
  const ToolSet& tools_;
  State state_ = State::kOutside;
  std::string outside_;  // since the last value
  std::string gap_;      // before the present one
  std::string inside_;   // of the present one: attributes, or text that is not passed on yet
  ParameterHead parameter_;
  ValueTypes types_;
  bool has_values_ = false;
  bool at_first_ = false;        // of a string
  bool holds_line_end_ = false;  // it may be the one before the closing tag
};

}  // namespace

std::string CallPreview::take() {
  std::string fresh = passed_.substr(taken_);
  taken_ = passed_.size();
  return fresh;
}

std::optional<std::string> CallPreview::rest_of(const ParsedCall& whole) const {
  const std::string_view taken = std::string_view(passed_).substr(0, taken_);
  if (whole.name != call_->name || !whole.arguments.starts_with(taken)) return std::nullopt;
  if (!call_->id.empty() && whole.id != call_->id) return std::nullopt;
  return whole.arguments.substr(taken_);
}

std::unique_ptr<CallPreview> make_preview(FormatKind format, const ToolSet& tools, bool is_bare) {
  switch (row_of(format).body) {
    case CallBody::kParameters:
    case CallBody::kKeyValues: return std::make_unique<ValuesPreview>(format, tools);
    case CallBody::kPython:
    case CallBody::kGemma: return std::make_unique<NoPreview>();
    case CallBody::kJson:
    case CallBody::kNamedJson: break;
  }
  if (format == FormatKind::kNone || format == FormatKind::kHarmony) return nullptr;
  return std::make_unique<JsonPreview>(format, tools, is_bare);
}

std::unique_ptr<CallPreview> make_named_preview(std::string name) {
  return std::make_unique<NamedPreview>(std::move(name));
}

}  // namespace kvkeep::chat::tools
