#include "chat/tools/call_values.h"

#include <algorithm>

#include "chat/tools/json_text.h"

namespace kvkeep::chat::tools {
namespace {

std::optional<std::string_view> unwrapped(std::string_view text, std::string_view open, std::string_view close) {
  if (text.size() < open.size() + close.size() || !text.starts_with(open) || !text.ends_with(close)) {
    return std::nullopt;
  }
  return text.substr(open.size(), text.size() - open.size() - close.size());
}

// The value of name="value" in a tag's attributes.
std::optional<std::string_view> attribute(std::string_view attributes, std::string_view name) {
  const std::string sign = std::string(" ").append(name).append("=\"");
  const std::size_t at = attributes.find(sign);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view value = attributes.substr(at + sign.size());
  const std::size_t end = value.find('"');
  return end == std::string_view::npos ? std::nullopt : std::optional(value.substr(0, end));
}

std::string_view without_line_ends(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

// name <arg_key>key</arg_key>
std::optional<TaggedHead> glm_head(std::string_view head, bool is_all) {
  const std::size_t key_at = std::min(head.find("<arg_key>"), head.size());
  if (is_all && key_at < head.size()) return std::nullopt;
  return TaggedHead{std::string(head.substr(0, key_at)), head.substr(key_at)};
}

// <function=name>, or, without values, <function=name></function>
std::optional<TaggedHead> qwen_coder_head(std::string_view head, bool is_all) {
  auto name = unwrapped(head, "<function=", is_all ? "</function>" : ">");
  if (name && is_all) name = unwrapped(trimmed(*name), "", ">");
  if (!name) return std::nullopt;
  return TaggedHead{std::string(*name), {}};
}

//  name="...">
std::optional<TaggedHead> invoke_head(std::string_view head) {
  const std::string attributes = std::string(" ").append(head);
  const auto name = attributes.ends_with('>') ? attribute(attributes, "name") : std::nullopt;
  if (!name) return std::nullopt;
  return TaggedHead{std::string(*name), {}};
}

//  name="key" string="true": a parameter says itself whether it is a string, or leaves it to the schema.
std::optional<ParameterHead> invoke_parameter(std::string_view attributes) {
  using Writing = ParameterHead::Writing;
  const auto key = attribute(attributes, "name");
  if (!key) return std::nullopt;
  const auto is_string = attribute(attributes, "string");
  if (!is_string) return ParameterHead{std::string(*key), Writing::kBySchema, true};
  return ParameterHead{std::string(*key), *is_string == "false" ? Writing::kJson : Writing::kText, false};
}

}  // namespace

std::optional<TaggedHead> tagged_head(FormatKind format, std::string_view head, bool is_all) {
  head = trimmed(head);
  if (format == FormatKind::kGlm) return glm_head(head, is_all);
  if (format == FormatKind::kQwenCoder) return qwen_coder_head(head, is_all);
  return invoke_head(head);
}

bool has_attributes(FormatKind format) { return format != FormatKind::kGlm; }

std::optional<ParameterHead> parameter_head(FormatKind format, std::string_view gap, std::string_view attributes) {
  if (format == FormatKind::kGlm) {
    const auto key = unwrapped(gap, "<arg_key>", "</arg_key>");
    if (!key) return std::nullopt;
    return ParameterHead{.key = std::string(trimmed(*key))};
  }
  if (!gap.empty()) return std::nullopt;
  if (format != FormatKind::kQwenCoder) return invoke_parameter(attributes);
  return ParameterHead{.key = std::string(trimmed(attributes)), .in_lines = true};
}

std::string parameter_json(const ParameterHead& head, std::string_view tool, std::string_view value,
                           const ToolSet& tools) {
  if (head.in_lines) value = without_line_ends(value);
  const std::string_view bare = trimmed(value);
  switch (head.writing) {
    case ParameterHead::Writing::kBySchema: return tools.value_json(tool, head.key, value);
    case ParameterHead::Writing::kJson: return is_json(bare) ? std::string(bare) : json_string(value);
    case ParameterHead::Writing::kText: break;
  }
  return json_string(value);
}

}  // namespace kvkeep::chat::tools
