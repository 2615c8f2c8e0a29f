#include "chat/stabilize.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat/chat_template.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBillingLine = "billing-line";
constexpr std::string_view kToolsFirst = "tools-first";
constexpr std::string_view kLateSystem = "late-system";
constexpr std::string_view kAll = "all";
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";

bool is_system(const ordered_json& message) {
  if (!message.is_object()) return false;
  const auto role = message.find("role");
  return role != message.end() && (*role == "system" || *role == "developer");
}

// The first text of a message, or null if it has none or begins with something else.
ordered_json* first_text(ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return nullptr;
  if (content->is_string()) return &*content;
  if (!content->is_array() || content->empty() || !content->front().is_object()) return nullptr;
  const auto text = content->front().find("text");
  return text != content->front().end() && text->is_string() ? &*text : nullptr;
}

void drop_billing_line(ordered_json& messages) {
  if (!messages.is_array() || messages.empty() || !is_system(messages.front())) return;
  ordered_json& message = messages.front();
  ordered_json* text = first_text(message);
  if (text == nullptr) return;
  auto& line = text->get_ref<std::string&>();
  if (!line.starts_with(kBillingHeader)) return;
  line.erase(0, std::min(line.find('\n'), line.size() - 1) + 1);
  if (!line.empty()) return;
  ordered_json& content = message["content"];
  if (content.is_array()) content.erase(0);
  if (content.empty() || content == "") messages.erase(0);
}

bool is_user(const ordered_json& message) {
  return message.is_object() && message.contains("role") && message["role"] == "user";
}

// Moves only messages right after the first user message: later ones were said at their place in the conversation.
void move_late_system(ordered_json& messages) {
  if (!messages.is_array()) return;
  const auto user = std::ranges::find_if(messages, is_user);
  if (user == messages.end()) return;
  const auto last = std::find_if_not(user + 1, messages.end(), is_system);
  std::rotate(user, user + 1, last);
}

}  // namespace

void stabilize(const Stabilizers& rules, ordered_json& messages) {
  if (rules.billing_line) drop_billing_line(messages);
  if (rules.late_system) move_late_system(messages);
}

void stabilize(const Stabilizers& rules, RenderInput& input) {
  stabilize(rules, input.messages);
  input.tools_first = rules.tools_first;
}

Result<Stabilizers> parse_stabilizers(const std::string& names) {
  Stabilizers rules{.billing_line = false, .tools_first = false, .late_system = false};
  if (names == "none") return rules;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (name != kBillingLine && name != kToolsFirst && name != kLateSystem && name != kAll) {
      return invalid("'" + name +
                     "' is no stabiliser; there are billing-line, tools-first, all (both), late-system, none");
    }
    rules.billing_line |= name == kBillingLine || name == kAll;
    rules.tools_first |= name == kToolsFirst || name == kAll;
    rules.late_system |= name == kLateSystem;
    begin = end + 1;
  }
  return rules;
}

std::string describe(const Stabilizers& rules) {
  std::string all;
  const auto append = [&](bool holds, std::string_view name, std::string_view what) {
    if (holds) all.append(all.empty() ? "" : ", ").append(name).append(" (").append(what).append(")");
  };
  append(rules.billing_line, kBillingLine, "a leading x-anthropic-billing-header line is left out of system prompts");
  append(rules.tools_first, kToolsFirst, "tools come before system prompts where the template knows no tools");
  append(rules.late_system, kLateSystem, "system messages after the first user message come before it");
  return "stabilisers: " + (all.empty() ? "none" : all);
}

}  // namespace kvkeep::chat
