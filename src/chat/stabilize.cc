#include "chat/stabilize.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat/chat_template.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBillingLine = "billing-line";
constexpr std::string_view kToolsFirst = "tools-first";
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

}  // namespace

void stabilize(const Stabilizers& rules, ordered_json& messages) {
  if (rules.billing_line) drop_billing_line(messages);
}

void stabilize(const Stabilizers& rules, RenderInput& input) {
  stabilize(rules, input.messages);
  input.tools_first = rules.tools_first;
}

Result<Stabilizers> parse_stabilizers(const std::string& names) {
  Stabilizers rules{.billing_line = false, .tools_first = false};
  if (names == "none") return rules;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (name != kBillingLine && name != kToolsFirst) {
      return invalid("'" + name + "' is no stabiliser; there are billing-line and tools-first, or none");
    }
    (name == kBillingLine ? rules.billing_line : rules.tools_first) = true;
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
  append(rules.tools_first, kToolsFirst, "tools stand before system prompts where the template knows none");
  return "stabilisers: " + (all.empty() ? "none" : all);
}

}  // namespace kvkeep::chat
