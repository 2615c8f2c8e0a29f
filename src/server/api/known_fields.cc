#include "server/api/known_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>

#include "base/edit_distance.h"
#include "server/api/generation_fields.h"

namespace kvkeep::server::api {
namespace {

using Names = std::span<const std::string_view>;

// Fields that read_generation_fields() reads, besides sampling_fields(), in every dialect that generates.
constexpr std::string_view kGenerating[] = {"model",
                                            "max_completion_tokens",
                                            "max_tokens",
                                            "n_predict",
                                            "n_keep",
                                            "n_discard",
                                            "stream",
                                            "stream_options",
                                            "stop",
                                            "seed",
                                            "logit_bias",
                                            "t_max_prompt_ms",
                                            "t_max_predict_ms",
                                            "t_max_total_ms",
                                            "n_indent",
                                            "ignore_eos",
                                            "response_format",
                                            "json_schema",
                                            "grammar",
                                            "cache_prompt",
                                            "id_slot",
                                            "cache_salt",
                                            "lora",
                                            "prompt_cache_retention",
                                            "prompt_cache_options",
                                            "return_progress",
                                            "post_sampling_probs",
                                            "timings_per_token",
                                            "return_tokens",
                                            "user",
                                            "prompt_cache_key",
                                            "priority"};

constexpr std::string_view kChat[] = {"messages",
                                      "tools",
                                      "tool_choice",
                                      "parallel_tool_calls",
                                      "chat_template_kwargs",
                                      "reasoning_effort",
                                      "thinking_budget_tokens",
                                      "reasoning_budget_tokens",
                                      "reasoning_control",
                                      "enable_thinking",
                                      "reasoning_format",
                                      "add_generation_prompt",
                                      "logprobs",
                                      "top_logprobs",
                                      "n_probs"};

constexpr std::string_view kCompletions[] = {"prompt", "logprobs", "n_probs"};

constexpr std::string_view kInfill[] = {"input_prefix", "input_suffix", "input_extra", "prompt", "logprobs", "n_probs"};

constexpr std::string_view kResponses[] = {"input",
                                           "instructions",
                                           "tools",
                                           "tool_choice",
                                           "parallel_tool_calls",
                                           "max_output_tokens",
                                           "text",
                                           "reasoning",
                                           "include",
                                           "truncation",
                                           "top_logprobs",
                                           "previous_response_id",
                                           "conversation",
                                           "prompt",
                                           "background",
                                           "chat_template_kwargs",
                                           "enable_thinking",
                                           "metadata",
                                           "safety_identifier"};

constexpr std::string_view kMessages[] = {
    "messages",       "system",   "tools",         "tool_choice",          "thinking",       "output_config",
    "stop_sequences", "metadata", "cache_control", "chat_template_kwargs", "enable_thinking"};

constexpr std::string_view kTokenize[] = {"content", "add_special", "parse_special", "with_pieces"};
constexpr std::string_view kTokens[] = {"tokens"};
constexpr std::string_view kLookup[] = {"tokens", "index_only"};
constexpr std::string_view kEmbeddings[] = {"input",           "content",    "model",
                                            "encoding_format", "dimensions", "embd_normalize"};
constexpr std::string_view kRerank[] = {"query", "documents",        "texts",      "model",
                                        "top_n", "return_documents", "return_text"};

// Fields that change nothing.
constexpr std::string_view kIgnoredByAll[] = {"slot_id", "service_tier"};
constexpr std::string_view kIgnoredByOpenAi[] = {"store",     "metadata",   "safety_identifier",
                                                 "verbosity", "prediction", "parse_tool_calls"};
constexpr std::string_view kIgnoredByResponses[] = {"store", "max_tool_calls", "client_metadata", "verbosity"};
constexpr std::string_view kIgnoredByMessages[] = {"context_management", "container",     "betas", "anthropic_version",
                                                   "anthropic_beta",     "inference_geo", "speed"};
// Clients of a router name the model with every request.
constexpr std::string_view kIgnoredByNative[] = {"model"};
constexpr std::string_view kIgnoredByEmbeddings[] = {"user"};

// Objects below the top level.
struct Shape;
struct Member {
  std::string_view name;  // the value of this field is such an object, or an array of them
  const Shape* shape;
};
struct Shape {
  Names names;
  std::span<const Member> members = {};
  Names types = {};  // objects of other types are not read, so not checked; empty: all are
};

constexpr std::string_view kMarkNames[] = {"type", "ttl", "scope"};
constexpr Shape kMark{kMarkNames};

constexpr std::string_view kChatFunctionNames[] = {"name", "description", "parameters", "strict"};
constexpr Shape kChatFunction{kChatFunctionNames};
constexpr std::string_view kChatToolNames[] = {"type", "function", "custom", "cache_control"};
constexpr Member kChatToolMembers[] = {{"function", &kChatFunction}};
constexpr Shape kChatTool{kChatToolNames, kChatToolMembers};
constexpr std::string_view kCalledNames[] = {"name", "arguments", "parsed_arguments"};
constexpr Shape kCalled{kCalledNames};
// `incomplete` is kvkeep's own; `index` remains where a client joins a stream's deltas.
constexpr std::string_view kChatCallNames[] = {"id", "type", "function", "custom", "index", "incomplete"};
constexpr Member kChatCallMembers[] = {{"function", &kCalled}};
constexpr Shape kChatCall{kChatCallNames, kChatCallMembers};
constexpr std::string_view kChatPartNames[] = {"type", "text", "prompt_cache_breakpoint", "cache_control"};
constexpr std::string_view kTextType[] = {"text"};
constexpr Shape kChatPart{kChatPartNames, {}, kTextType};
// Fields of requests and of replies, which come back; then names of templates and of other servers.
constexpr std::string_view kChatMessageNames[] = {
    "role",        "content",   "name",      "tool_calls", "tool_call_id",      "reasoning_content", "function_call",
    "refusal",     "audio",     "parsed",    "reasoning",  "reasoning_details", "thinking",          "tool_plan",
    "annotations", "citations", "documents", "prefix",     "cache_control"};
constexpr Member kChatMessageMembers[] = {{"content", &kChatPart}, {"tool_calls", &kChatCall}};
constexpr Shape kChatMessage{kChatMessageNames, kChatMessageMembers};
constexpr Member kChatMembers[] = {{"messages", &kChatMessage}, {"tools", &kChatTool}};

// Editors send when they saw the text.
constexpr std::string_view kExtraNames[] = {"text", "filename", "time"};
constexpr Shape kExtra{kExtraNames};
constexpr Member kInfillMembers[] = {{"input_extra", &kExtra}};

constexpr std::string_view kItemPartNames[] = {
    "type", "text", "refusal", "annotations", "logprobs", "parsed", "prompt_cache_breakpoint"};
constexpr std::string_view kItemPartTypes[] = {"input_text",     "output_text",  "text",
                                               "reasoning_text", "summary_text", "refusal"};
constexpr Shape kItemPart{kItemPartNames, {}, kItemPartTypes};
constexpr std::string_view kItemNames[] = {
    "type",      "role",      "content",   "id",    "status", "phase",  "summary",           "call_id",
    "name",      "namespace", "arguments", "input", "output", "caller", "encrypted_content", "parsed_arguments",
    "created_by"};
constexpr std::string_view kItemTypes[] = {
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"};
constexpr Member kItemMembers[] = {{"content", &kItemPart}, {"summary", &kItemPart}, {"output", &kItemPart}};
constexpr Shape kItem{kItemNames, kItemMembers, kItemTypes};
constexpr std::string_view kItemToolNames[] = {"type",   "name",  "description",   "parameters",    "strict",
                                               "format", "tools", "defer_loading", "output_schema", "allowed_callers"};
constexpr std::string_view kItemToolTypes[] = {"function", "custom", "namespace"};
constexpr std::string_view kToolFormatNames[] = {"type", "syntax", "definition"};
constexpr Shape kToolFormat{kToolFormatNames};
constexpr Member kInnerToolMembers[] = {{"format", &kToolFormat}};
constexpr Shape kInnerTool{kItemToolNames, kInnerToolMembers, kItemToolTypes};
constexpr Member kItemToolMembers[] = {{"format", &kToolFormat}, {"tools", &kInnerTool}};
constexpr Shape kItemTool{kItemToolNames, kItemToolMembers, kItemToolTypes};
constexpr Member kResponsesMembers[] = {{"input", &kItem}, {"tools", &kItemTool}};

constexpr std::string_view kBlockNames[] = {
    "type", "cache_control", "text",   "citations", "thinking",    "signature", "data",      "id",
    "name", "input",         "caller", "content",   "tool_use_id", "is_error",  "tool_name", "toolset_name"};
constexpr std::string_view kBlockTypes[] = {"text",     "thinking",    "redacted_thinking",
                                            "tool_use", "tool_result", "tool_reference"};
constexpr Member kMarkMembers[] = {{"cache_control", &kMark}};
constexpr Shape kInnerBlock{kBlockNames, kMarkMembers, kBlockTypes};
constexpr Member kBlockMembers[] = {{"cache_control", &kMark}, {"content", &kInnerBlock}};
constexpr Shape kBlock{kBlockNames, kBlockMembers, kBlockTypes};
constexpr std::string_view kMessageNames[] = {"role", "content", "output_config", "clear_at"};
constexpr Member kMessageMembers[] = {{"content", &kBlock}};
constexpr Shape kMessage{kMessageNames, kMessageMembers};
constexpr std::string_view kCustomToolNames[] = {
    "type",   "name",           "description",   "input_schema",    "cache_control",
    "strict", "input_examples", "defer_loading", "allowed_callers", "eager_input_streaming"};
constexpr std::string_view kCustomType[] = {"custom"};
constexpr Shape kCustomTool{kCustomToolNames, kMarkMembers, kCustomType};
constexpr Member kMessagesMembers[] = {
    {"system", &kBlock}, {"messages", &kMessage}, {"tools", &kCustomTool}, {"cache_control", &kMark}};

std::span<const Member> members_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::kChat:
    case Dialect::kApplyTemplate:
    case Dialect::kLookup: return kChatMembers;
    case Dialect::kResponses: return kResponsesMembers;
    case Dialect::kMessages: return kMessagesMembers;
    case Dialect::kInfill: return kInfillMembers;
    case Dialect::kCompletions:
    case Dialect::kTokenize:
    case Dialect::kDetokenize:
    case Dialect::kEmbeddings:
    case Dialect::kRerank: break;
  }
  return {};
}

Names sampling_names() {
  static const std::vector<std::string_view> names = sampling_fields();
  return names;
}

std::vector<Names> read_by(Dialect dialect) {
  switch (dialect) {
    case Dialect::kChat:
    case Dialect::kApplyTemplate: return {kGenerating, sampling_names(), kChat};
    case Dialect::kCompletions: return {kGenerating, sampling_names(), kCompletions};
    case Dialect::kInfill: return {kGenerating, sampling_names(), kInfill};
    case Dialect::kResponses: return {kGenerating, sampling_names(), kResponses};
    case Dialect::kMessages: return {kGenerating, sampling_names(), kMessages};
    case Dialect::kTokenize: return {kTokenize};
    case Dialect::kDetokenize: return {kTokens};
    case Dialect::kEmbeddings: return {kEmbeddings};
    case Dialect::kRerank: return {kRerank};
    case Dialect::kLookup: return {kGenerating, sampling_names(), kChat, kCompletions, kLookup};
  }
  return {};
}

std::vector<Names> ignored_by(Dialect dialect) {
  switch (dialect) {
    case Dialect::kResponses: return {kIgnoredByAll, kIgnoredByResponses};
    case Dialect::kMessages: return {kIgnoredByAll, kIgnoredByMessages};
    case Dialect::kTokenize:
    case Dialect::kDetokenize: return {kIgnoredByNative};
    case Dialect::kEmbeddings:
    case Dialect::kRerank: return {kIgnoredByEmbeddings};
    default: return {kIgnoredByAll, kIgnoredByOpenAi};
  }
}

bool generates(Dialect dialect) {
  return dialect != Dialect::kTokenize && dialect != Dialect::kDetokenize && dialect != Dialect::kEmbeddings &&
         dialect != Dialect::kRerank;
}

bool is_among(const std::vector<Names>& lists, std::string_view name) {
  return std::ranges::any_of(lists, [&](Names list) { return std::ranges::find(list, name) != list.end(); });
}

bool is_known(Dialect dialect, std::string_view name) {
  if (is_among(read_by(dialect), name) || is_among(ignored_by(dialect), name)) return true;
  if (!generates(dialect)) return false;
  const std::vector<std::string_view> refused = refused_fields();
  return std::ranges::find(refused, name) != refused.end();
}

// Names go into a header and the log, and a client may call a field anything.
std::string printable(std::string_view name) {
  std::string safe(name.substr(0, kMostFieldNameBytes));
  std::ranges::replace_if(safe, [](char c) { return c <= ' ' || c > '~' || c == ','; }, '?');
  return safe;
}

bool is_read(const Shape& shape, const Json& object) {
  const Json* type = shape.types.empty() ? nullptr : field(object, "type");
  return type == nullptr || std::ranges::any_of(shape.types, [&](std::string_view known) { return *type == known; });
}

// The path of an object, from the innermost part outward; it becomes a text only if something is wrong.
struct Place {
  static constexpr std::size_t kNoIndex = SIZE_MAX;
  const Place* outer = nullptr;
  std::string_view name = {};
  std::size_t index = kNoIndex;

  std::string path() const {
    if (outer == nullptr) return {};
    const std::string at = index == kNoIndex ? std::string(name) : fmt::format("{}[{}]", name, index);
    return outer->path() + at + ".";
  }
};

// Checks one body.
class FieldCheck {
 public:
  FieldCheck(Dialect dialect, bool strict) : dialect_(dialect), strict_(strict) {}

  Status look_at(const Json& body) {
    const Place top;
    for (const auto& [name, value] : body.get_ref<const Json::object_t&>()) {
      if (!value.is_null() && !is_known(dialect_, name)) TRY(note(top, nullptr, name));
    }
    return look_below(body, members_of(dialect_), top);
  }
  std::vector<std::string> take() { return std::move(unknown_); }

 private:
  Status look_below(const Json& object, std::span<const Member> members, const Place& place) {
    for (const Member& member : members) {
      const Json* value = field(object, member.name);
      if (value == nullptr) continue;
      if (value->is_object()) TRY(look_at(*value, *member.shape, {.outer = &place, .name = member.name}));
      for (std::size_t i = 0; value->is_array() && i < value->size(); ++i) {
        TRY(look_at((*value)[i], *member.shape, {.outer = &place, .name = member.name, .index = i}));
      }
    }
    return {};
  }
  Status look_at(const Json& object, const Shape& shape, const Place& place) {
    if (!object.is_object() || !is_read(shape, object)) return {};
    for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
      const bool known = value.is_null() || std::ranges::find(shape.names, name) != shape.names.end();
      if (!known) TRY(note(place, &shape, name));
    }
    return look_below(object, shape.members, place);
  }

  Status note(const Place& place, const Shape* shape, const std::string& name) {
    if (unknown_.size() == kMostUnknownFields) return {};
    // A client that sends the field in each of a thousand messages made one mistake.
    if (std::ranges::find(noted_, std::pair{shape, name}) != noted_.end()) return {};
    const std::string path = place.path() + printable(name);
    if (strict_) {
      return invalid(fmt::format("'{}' is not a field of this request{}; --strict-fields refuses it", path,
                                 meant_field(dialect_, path)));
    }
    noted_.emplace_back(shape, name);
    unknown_.push_back(path);
    return {};
  }

  const Dialect dialect_;
  const bool strict_;
  std::vector<std::string> unknown_;
  std::vector<std::pair<const Shape*, std::string>> noted_;
};

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  const std::string near = nearest_within(std::max<std::size_t>(name.size() / 3, 1), name, known);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

}  // namespace

Result<std::vector<std::string>> unknown_fields(const Json& body, Dialect dialect, bool strict) {
  FieldCheck check(dialect, strict);
  TRY(check.look_at(body));
  return check.take();
}

std::string meant_field(Dialect dialect, std::string_view name) {
  const Shape* shape = nullptr;
  std::span<const Member> members = members_of(dialect);
  for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    const std::string_view outer = name.substr(0, std::min(dot, name.find('[')));
    const auto member = std::ranges::find(members, outer, &Member::name);
    if (member == members.end()) break;  // the dot is part of the name
    shape = member->shape;
    members = shape->members;
    name.remove_prefix(dot + 1);
  }
  name = name.substr(0, kMostFieldNameBytes);
  if (shape == nullptr) return nearest(name, known_fields(dialect));
  return nearest(name, {shape->names.begin(), shape->names.end()});
}

std::vector<std::string> known_fields(Dialect dialect) {
  std::vector<std::string> names;
  for (const std::vector<Names>& lists : {read_by(dialect), ignored_by(dialect)}) {
    for (const Names list : lists) names.insert(names.end(), list.begin(), list.end());
  }
  const std::vector<std::string_view> refused = generates(dialect) ? refused_fields() : std::vector<std::string_view>();
  names.insert(names.end(), refused.begin(), refused.end());
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

std::vector<std::string_view> ignored_fields(Dialect dialect) {
  std::vector<std::string_view> names;
  for (const Names list : ignored_by(dialect)) std::ranges::copy(list, std::back_inserter(names));
  return names;
}

}  // namespace kvkeep::server::api
