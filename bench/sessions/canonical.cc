#include "bench/sessions/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

// Base64 of a picture is no text: a hash tells it from others, and no tokenizer has to read megabytes of it.
void shorten_files(Json& value) {
  constexpr std::size_t kLeastBytes = 1'024;
  if (value.is_structured()) {
    for (Json& member : value) shorten_files(member);
  } else if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    const std::size_t head = text.starts_with("data:") ? text.find(',') + 1 : 0;
    const bool is_file = text.size() >= kLeastBytes &&
                         std::string_view(text).substr(head).find_first_not_of(kBase64) == std::string::npos;
    if (is_file) text.replace(head, std::string::npos, fmt::format("{:016x}", std::hash<std::string>()(text)));
  }
}

std::string sorted_json(const Json& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Returns the JSON of a text in one form, or the text if it is no JSON.
std::string same_for_same(const std::string& text) {
  const Result<Json> parsed = parse_json(text);
  return parsed ? sorted_json(*parsed) : text;
}

// Returns a role or name unchanged, unless it could break its line.
std::string word(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789_-.:/") == std::string::npos;
  return plain ? text : to_line(text);
}

Json without(const Json& object, std::initializer_list<std::string_view> names) {
  Json rest = object;
  if (rest.is_object()) {
    for (const std::string_view name : names) rest.erase(std::string(name));
  }
  return rest;
}

bool is_system(std::string_view role) { return role == "system" || role == "developer"; }

// The billing line differs between conversations, and a well-meaning server drops it.
std::string_view without_billing_line(std::string_view text) {
  if (!text.starts_with(kBillingLine)) return text;
  return text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
}

// Fields that the writer prints itself, or that have nothing to do with the content.
constexpr std::array kMessageFields = {"role",      "content",      "cache_control", "tool_calls", "reasoning_content",
                                       "reasoning", "tool_call_id", "type",          "id",         "status"};

class Writer {
 public:
  explicit Writer(CanonicalForm form) : form_(form) {}

  void tools(const Json& body) {
    const Json* list = field(body, "tools");
    if (list == nullptr || !list->is_array()) return;
    for (const Json& tool : *list) section("tool", json(without(tool, {"cache_control"})), "%end\n");
  }

  // System text outside the messages; empty if there is none.
  void system(const Json* content) {
    if (content == nullptr) return;
    open("system");
    this->content(*content, "system");
    close();
  }

  // Messages or items from place `begin` on.
  void turns(const Json* list, std::size_t begin) {
    if (list == nullptr) return;
    if (list->is_string()) return message({{"role", "user"}, {"content", *list}});
    if (!list->is_array()) return;
    for (std::size_t i = begin; i < list->size(); ++i) item((*list)[i]);
  }
  // Writes the messages before the first that is no system message, and returns how many they are.
  std::size_t leading_system(const Json* list) {
    std::size_t count = 0;
    if (list == nullptr || !list->is_array()) return count;
    for (; count < list->size() && is_system(text_field((*list)[count], "role")); ++count) item((*list)[count]);
    return count;
  }

  void prompt(const Json& body) {
    const Json* prompt = field(body, "prompt");
    if (prompt != nullptr) out_ += prompt->is_string() ? escaped(prompt->get_ref<const std::string&>()) : json(*prompt);
    if (const Json* suffix = field(body, "suffix")) out_ += "\n%suffix\n" + json(*suffix);
  }

  std::string take() { return std::move(out_); }

 private:
  std::string json(const Json& value) const { return form_.as_sent ? to_line(value) : sorted_json(value); }

  static std::string escaped(std::string_view text) {
    std::string out;
    bool at_line_begin = true;
    for (const char c : text) {
      if (at_line_begin && c == '%') out += '%';
      out += c;
      at_line_begin = c == '\n';
    }
    return out;
  }

  void open(const std::string& role) { out_ += "%message " + word(role) + "\n"; }
  void close() { out_ += "%end\n"; }
  void section(std::string_view name, std::string_view text, std::string_view end = "") {
    out_.append("%").append(name).append("\n").append(escaped(text)).append("\n").append(end);
  }
  void text(std::string_view text) {
    if (!text.empty()) section("text", text);
  }

  // Returns the number of a call in the conversation, by its id: ids themselves are random.
  std::size_t number_of(const std::string& id) { return numbers_.try_emplace(id, numbers_.size() + 1).first->second; }

  void call(const std::string& id, const std::string& name, const Json* arguments) {
    std::string body;
    if (arguments != nullptr && arguments->is_string()) {
      const auto& raw = arguments->get_ref<const std::string&>();
      body = form_.as_sent ? raw : same_for_same(raw);
    } else if (arguments != nullptr) {
      body = json(*arguments);
    }
    section(fmt::format("call {} {}", number_of(id), word(name)), body);
  }

  void content(const Json& content, const std::string& role) {
    if (content.is_string()) return text_of(content.get_ref<const std::string&>(), role);
    if (!content.is_array()) return section("part", json(content));
    for (const Json& block : content) this->block(block, role);
  }

  void text_of(std::string_view text, const std::string& role) {
    this->text(is_system(role) && !form_.billing_line ? without_billing_line(text) : text);
  }

  void block(const Json& block, const std::string& role) {
    if (block.is_string()) return text_of(block.get_ref<const std::string&>(), role);
    const std::string type = text_field(block, "type");
    const bool is_text = type == "text" || type == "input_text" || type == "output_text";
    if (const Json* text = field(block, "text"); is_text && text != nullptr && text->is_string()) {
      text_of(text->get_ref<const std::string&>(), role);
      const Json rest = without(block, {"type", "text", "cache_control", "annotations", "logprobs"});
      if (!rest.empty()) section("part", json(rest));
    } else if (type == "thinking") {
      section("reasoning", text_field(block, "thinking"));
    } else if (type == "tool_use") {
      call(text_field(block, "id"), text_field(block, "name"), field(block, "input"));
    } else if (type == "tool_result") {
      result(block, text_field(block, "tool_use_id"), field(block, "content"));
    } else {
      Json part = without(block, {"cache_control"});
      shorten_files(part);
      section("part", json(part));
    }
  }

  void result(const Json& block, const std::string& id, const Json* content) {
    const Json* failed = field(block, "is_error");
    const bool is_error = failed != nullptr && failed->is_boolean() && failed->get<bool>();
    out_ += fmt::format("%result {}{}\n", number_of(id), is_error ? " error" : "");
    if (content != nullptr) this->content(*content, "tool");
    out_ += "%end\n";
  }

  void message(const Json& message) {
    if (!message.is_object()) return section("part", json(message));
    const std::string role = text_field(message, "role");
    open(role);
    if (const Json* id = field(message, "tool_call_id"); id != nullptr && id->is_string()) {
      out_ += fmt::format("%result {}\n", number_of(id->get_ref<const std::string&>()));
    }
    for (const char* name : {"reasoning_content", "reasoning"}) {
      if (std::string reasoning = text_field(message, name); !reasoning.empty()) section("reasoning", reasoning);
    }
    if (const Json* content = field(message, "content")) this->content(*content, role);
    calls(message);
    other_fields(message);
    close();
  }

  void calls(const Json& message) {
    const Json* list = field(message, "tool_calls");
    if (list == nullptr || !list->is_array()) return;
    for (const Json& one : *list) {
      const Json* function = field(one, "function");
      if (function == nullptr) {
        section("part", json(without(one, {"id"})));
      } else {
        call(text_field(one, "id"), text_field(*function, "name"), field(*function, "arguments"));
      }
    }
  }

  void other_fields(const Json& message) {
    const nlohmann::json sorted(message);
    for (const auto& [name, value] : sorted.items()) {
      if (value.is_null() || std::ranges::find(kMessageFields, name) != kMessageFields.end()) continue;
      section("field " + word(name), json(message.at(name)));
    }
  }

  void item(const Json& item) {
    const std::string type = text_field(item, "type");
    if (type == "function_call") {
      open("assistant");
      call(text_field(item, "call_id"), text_field(item, "name"), field(item, "arguments"));
      close();
    } else if (type == "function_call_output") {
      open("tool");
      result(item, text_field(item, "call_id"), field(item, "output"));
      close();
    } else if (field(item, "role") != nullptr || type.empty()) {
      message(item);
    } else {
      section("part", json(without(item, {"id", "status", "encrypted_content"})), "%end\n");
    }
  }

  const CanonicalForm form_;
  std::string out_;
  std::map<std::string, std::size_t> numbers_;  // ids of tool calls
};

}  // namespace

std::string canonical_text(Dialect dialect, const nlohmann::ordered_json& body, CanonicalOrder order,
                           CanonicalForm form) {
  if (!body.is_object() || dialect == Dialect::kOther) return "";
  Writer writer(form);
  if (dialect == Dialect::kOpenAiCompletion) {
    writer.prompt(body);
    return writer.take();
  }
  const bool is_responses = dialect == Dialect::kOpenAiResponses;
  const Json* system =
      dialect == Dialect::kOpenAiChat ? nullptr : field(body, is_responses ? "instructions" : "system");
  const Json* turns = field(body, is_responses ? "input" : "messages");
  std::size_t written = 0;
  if (order == CanonicalOrder::kToolsFirst) writer.tools(body);
  writer.system(system);
  if (order == CanonicalOrder::kSystemFirst) {
    written = writer.leading_system(turns);
    writer.tools(body);
  }
  writer.turns(turns, written);
  return writer.take();
}

std::vector<std::string_view> canonical_pieces(std::string_view text) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1) {
    if (text[at] != '%' || text.substr(at).starts_with("%%") || at == begin) continue;
    pieces.push_back(text.substr(begin, at - begin));
    begin = at;
  }
  if (begin < text.size()) pieces.push_back(text.substr(begin));
  return pieces;
}

std::string_view canonical_reply_begin(Dialect dialect) {
  return dialect == Dialect::kOpenAiCompletion || dialect == Dialect::kOther ? "" : "%message assistant\n";
}

nlohmann::ordered_json with_reply(Dialect dialect, const nlohmann::ordered_json& body,
                                  const nlohmann::ordered_json& message) {
  Json longer = body;
  if (!longer.is_object() || message.is_null()) return longer;
  const char* name = dialect == Dialect::kOpenAiResponses ? "input" : "messages";
  Json& turns = longer[dialect == Dialect::kOpenAiCompletion ? "prompt" : name];
  if (dialect == Dialect::kOpenAiCompletion) {
    if (turns.is_string() && message.is_string()) turns = turns.get<std::string>() + message.get<std::string>();
  } else if (dialect == Dialect::kOpenAiResponses) {
    if (turns.is_string()) turns = Json::array({{{"role", "user"}, {"content", turns}}});
    if (turns.is_array() && message.is_array()) turns.insert(turns.end(), message.begin(), message.end());
  } else if (turns.is_array()) {
    turns.push_back(message);
  }
  return longer;
}

}  // namespace kvkeep::bench
