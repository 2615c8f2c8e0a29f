#include "chat/tools/call_body.h"

#include <algorithm>
#include <array>
#include <utility>

#include "chat/tools/json_text.h"
#include "chat/tools/literal_calls.h"

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

namespace {

using Calls = std::optional<std::vector<ParsedCall>>;

constexpr std::size_t kLongestNameBytes = 256;
constexpr std::string_view kBetweenCalls = " \t\r\n,;";

std::optional<std::string> name_of(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text.size() > kLongestNameBytes) return std::nullopt;
  if (text.find_first_of(" \t\r\n<>\"{}") != std::string_view::npos) return std::nullopt;
  return std::string(text);
}

// Arguments may be an object, an object in a string, or absent.
std::optional<std::string> arguments_of(std::string_view value) {
  value = trimmed(value);
  if (value.empty() || value == "null") return "{}";
  if (value.front() != '"') return object_text(value);
  const auto inner = string_of(value);
  if (!inner) return std::nullopt;
  return trimmed(*inner).empty() ? std::optional<std::string>("{}") : object_text(*inner);
}

std::optional<ParsedCall> parse_json_call(std::string_view object, int depth = 0) {
  const auto members = members_of(object);
  if (!members) return std::nullopt;
  ParsedCall call;
  std::optional<std::string> arguments = "{}";
  for (const JsonMember& member : *members) {
    if (member.key == "name" || member.key == "tool_name") call.name = string_of(member.value).value_or("");
    if (member.key == "arguments" || member.key == "parameters") arguments = arguments_of(member.value);
    if (member.key == "id") call.id = string_of(member.value).value_or("");
    if (member.key != "function") continue;
    if (member.value.starts_with('{')) return depth == 0 ? parse_json_call(member.value, depth + 1) : std::nullopt;
    call.name = string_of(member.value).value_or("");
  }
  const auto name = name_of(call.name);
  if (!name || !arguments) return std::nullopt;
  return ParsedCall{.name = *name, .arguments = std::move(*arguments), .id = call.id};
}

Calls one(std::optional<ParsedCall> call) {
  if (!call) return std::nullopt;
  return std::vector<ParsedCall>{std::move(*call)};
}

Calls named_json(std::string_view name, std::string_view arguments, std::string_view id = {}) {
  auto call = named_call(name, arguments);
  if (call) call->id = id;
  return one(std::move(call));
}

// name[CALL_ID]id[ARGS]{...}, or JSON.
Calls parse_mistral(std::string_view body) {
  body = trimmed(body);
  const std::size_t separator = body.find("[ARGS]");
  const std::size_t json = body.find_first_of("{");
  if (separator == std::string_view::npos || separator > json) return parse_json_calls(body);
  if (json == std::string_view::npos) return std::nullopt;  // the separator's letters, and not its token
  std::string_view name = body.substr(0, separator);
  std::string_view id;
  if (const std::size_t at = name.find("[CALL_ID]"); at != std::string_view::npos) {
    id = trimmed(name.substr(at + std::string_view("[CALL_ID]").size()));
    name = name.substr(0, at);
  }
  return named_json(name, body.substr(separator + std::string_view("[ARGS]").size()), id);
}

// name<sep>{...}; the older form: function<sep>name, and the arguments in a code block.
Calls parse_deepseek(std::string_view body) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  const std::size_t separator = body.find(kSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  std::string_view name = body.substr(0, separator);
  std::string_view arguments = trimmed(body.substr(separator + kSeparator.size()));
  const std::size_t block = arguments.find("```json");
  if (block != std::string_view::npos && block < arguments.find('{')) {
    name = arguments.substr(0, block);
    arguments = trimmed(arguments.substr(block + std::string_view("```json").size()));
    if (arguments.ends_with("```")) arguments.remove_suffix(3);
  }
  return named_json(name, arguments);
}

// functions.name:0<separator>{...}; the whole first part is the call's id.
Calls parse_kimi(std::string_view body) {
  const std::string_view separator = row_of(FormatKind::kKimi).separator;
  const std::size_t at = body.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view id = trimmed(body.substr(0, at));
  std::string_view name = id.substr(0, id.rfind(':'));
  if (name.starts_with("functions.")) name.remove_prefix(std::string_view("functions.").size());
  return named_json(name, body.substr(at + separator.size()), id);
}

// Writes {"key":value,...}.
class ObjectWriter {
 public:
  void add(std::string_view key, std::string_view value_json) {
    text_ += text_.empty() ? "{" : ",";
    text_.append(json_string(key)).append(":").append(value_json);
  }
  std::string take() { return text_.empty() ? "{}" : std::move(text_) + "}"; }

 private:
  std::string text_;
};

std::string_view part(const CallText& text, std::size_t begin, std::size_t end) {
  return text.body.substr(begin, end - begin);
}

// Before the first value.
std::string_view head_of(const CallText& text) {
  return trimmed(text.values.empty() ? text.body : part(text, 0, text.values.front().open));
}

// After the last value; without a value, the head.
std::string_view tail_of(const CallText& text) {
  return text.values.empty() ? std::string_view() : trimmed(text.body.substr(text.values.back().after));
}

// Between value `index` and the one before it.
std::string_view gap_before(const CallText& text, std::size_t index) {
  return index == 0 ? std::string_view() : trimmed(part(text, text.values[index - 1].after, text.values[index].open));
}

// The attributes in a value's tag, and the value: `key>value`.
struct Attributed {
  std::string_view attributes;
  std::string_view value;
};

std::optional<Attributed> attributed(FormatKind format, std::string_view inside) {
  if (!has_attributes(format)) return Attributed{{}, inside};
  const std::size_t end = inside.find('>');
  if (end == std::string_view::npos) return std::nullopt;
  return Attributed{inside.substr(0, end), inside.substr(end + 1)};
}

// A head, and parameters between tags.
Calls parse_tagged_call(FormatKind format, const CallText& text, const ToolSet& tools) {
  const bool is_empty = text.values.empty();
  const auto head = tagged_head(format, head_of(text), is_empty);
  const auto name = head ? name_of(head->name) : std::nullopt;
  const std::string_view tail = format == FormatKind::kQwenCoder && !is_empty ? "</function>" : "";
  if (!name || tail_of(text) != tail) return std::nullopt;
  ObjectWriter arguments;
  for (std::size_t i = 0; i < text.values.size(); ++i) {
    const auto inside = attributed(format, part(text, text.values[i].begin, text.values[i].end));
    const std::string_view gap = i == 0 ? head->rest : gap_before(text, i);
    const auto parameter = inside ? parameter_head(format, gap, inside->attributes) : std::nullopt;
    if (!parameter) return std::nullopt;
    arguments.add(parameter->key, parameter_json(*parameter, *name, inside->value, tools));
  }
  return one(ParsedCall{.name = *name, .arguments = arguments.take()});
}

// A bare JSON object may be the model's answer. It is a call if it names a known tool, or has only keys of a call.
bool is_bare_call(std::string_view object, const ParsedCall& call, const ToolSet& tools) {
  if (tools.find(call.name) != nullptr) return true;
  const auto members = members_of(object);
  if (!members) return false;
  constexpr std::array kOfCalls = std::to_array<std::string_view>({"name", "type", "id"});
  bool has_arguments = false;
  for (const JsonMember& member : *members) {
    const bool is_arguments = member.key == "parameters" || member.key == "arguments";
    has_arguments |= is_arguments;
    if (!is_arguments && std::ranges::find(kOfCalls, member.key) == kOfCalls.end()) return false;
  }
  return has_arguments;
}

Calls parse_llama(const CallText& text, const ToolSet& tools) {
  Calls calls = parse_json_calls(text.body);
  if (!calls || !text.is_bare || is_bare_call(text.body, calls->front(), tools)) return calls;
  return std::nullopt;
}

bool agrees(std::string_view beginning, std::string_view expected) {
  const std::size_t known = std::min(beginning.size(), expected.size());
  return beginning.substr(0, known) == expected.substr(0, known);
}

}  // namespace

std::optional<ParsedCall> named_call(std::string_view name, std::string_view arguments) {
  auto checked = name_of(name);
  auto object = arguments_of(arguments);
  if (!checked || !object) return std::nullopt;
  return ParsedCall{.name = std::move(*checked), .arguments = std::move(*object)};
}

std::optional<std::vector<ParsedCall>> parse_json_calls(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<ParsedCall> calls;
  for (std::size_t at = text.find_first_not_of(kBetweenCalls); at != std::string_view::npos;
       at = text.find_first_not_of(kBetweenCalls, at)) {
    const auto end = value_end(text, at);
    auto call = end ? parse_json_call(text.substr(at, *end - at)) : std::nullopt;
    if (!call) return std::nullopt;
    calls.push_back(std::move(*call));
    at = *end;
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

std::optional<std::vector<ParsedCall>> parse_call_body(FormatKind format, const CallText& text, const ToolSet& tools) {
  switch (format) {
    case FormatKind::kHermes:
    case FormatKind::kCommandR:
    case FormatKind::kCommandA: return parse_json_calls(text.body);
    case FormatKind::kLfm2: return parse_python_calls(text.body);
    case FormatKind::kGemma4: return parse_gemma_call(text.body, text.values);
    case FormatKind::kLlama: return parse_llama(text, tools);
    case FormatKind::kMistral: return parse_mistral(text.body);
    case FormatKind::kDeepSeek: return parse_deepseek(text.body);
    case FormatKind::kKimi: return parse_kimi(text.body);
    case FormatKind::kGlm:
    case FormatKind::kQwenCoder:
    case FormatKind::kDsml:
    case FormatKind::kDsmlV3:
    case FormatKind::kMiniMax: return parse_tagged_call(format, text, tools);
    case FormatKind::kHarmony:  // its calls are messages: harmony_reply.cc
    case FormatKind::kNone: return std::nullopt;
  }
  return std::nullopt;
}

bool may_be_call_body(FormatKind format, std::string_view beginning) {
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return true;
  const std::string_view rest = beginning.substr(first);
  switch (format) {
    case FormatKind::kHermes:
    case FormatKind::kCommandA: return rest.front() == '{' || rest.front() == '[';
    case FormatKind::kLfm2:
    case FormatKind::kCommandR: return rest.front() == '[';
    case FormatKind::kGemma4: return agrees(rest, "call:");
    case FormatKind::kQwenCoder: return agrees(rest, "<function=");
    case FormatKind::kDsml:
    case FormatKind::kDsmlV3:
    case FormatKind::kMiniMax: return first > 0 && agrees(rest, "name=\"");
    default: return true;
  }
}

bool is_whole_without_tag(FormatKind format, std::string_view body) {
  switch (format) {
    case FormatKind::kHermes:
    case FormatKind::kCommandR:
    case FormatKind::kCommandA:
    case FormatKind::kLfm2: return true;  // an object or a list that ends has all its members
    case FormatKind::kGemma4: return trimmed(body).ends_with('}');
    case FormatKind::kDeepSeek:
    case FormatKind::kKimi:  // theirs as well, but it may not have begun
      return trimmed(body).ends_with('}') || trimmed(body).ends_with("```");
    case FormatKind::kQwenCoder: return trimmed(body).ends_with("</function>");
    default: return false;
  }
}

}  // namespace kvkeep::chat::tools
