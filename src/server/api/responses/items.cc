#include "server/api/responses/items.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "server/api/generation_fields.h"
#include "server/api/responses/tools.h"

namespace kvkeep::server::api {
namespace {

constexpr std::string_view kSeal = "kvkeep:";

// Items of tools that OpenAI's servers ran; the answers that used them are in the messages.
constexpr auto kSilent = std::to_array<std::string_view>({"web_search_call", "file_search_call",
                                                          "code_interpreter_call", "image_generation_call",
                                                          "mcp_list_tools", "tool_search_call", "tool_search_output"});

// Types of text parts, and the field that has their text.
constexpr auto kTextParts = std::to_array<std::pair<std::string_view, std::string_view>>({{"input_text", "text"},
                                                                                          {"output_text", "text"},
                                                                                          {"text", "text"},
                                                                                          {"reasoning_text", "text"},
                                                                                          {"summary_text", "text"},
                                                                                          {"refusal", "refusal"}});

Result<std::string> string_in(const Json& object, std::string_view name, const std::string& path) {
  const Json* value = field(object, name);
  if (value == nullptr) return invalid(fmt::format("'{}.{}' is required", path, name));
  if (!value->is_string()) return wrong_type(fmt::format("{}.{}", path, name), "a string", *value);
  return value->get<std::string>();
}

void append_text(std::string& all, std::string_view separator, std::string_view text) {
  if (text.empty()) return;
  const bool by_media = chat::ends_with_media_name(all) || chat::begins_with_media_name(text);
  if (!all.empty() && !by_media) all += separator;
  all += text;
}

bool is_text(std::string_view type) {
  return std::ranges::any_of(kTextParts, [&](const auto& pair) { return pair.first == type; });
}

// Text has several types here, of which none is another API's alone.
constexpr PartTypes kResponsesPartTypes{
    .text = {}, .picture = "input_image", .sound = "input_audio", .file = "input_file"};

// Returns true if a part of this type is a picture, sound or file that the model takes.
bool is_taken(std::string_view type, const MediaReader& media) {
  return (type == "input_image" && media.pictures()) || (type == "input_audio" && media.sound()) ||
         (type == "input_file" && media.any());
}

Result<std::string> media_name_of(const Json& part, std::string_view type, const std::string& path,
                                  MediaReader& media) {
  if (type == "input_image") return media.input_image(part, path);
  return type == "input_audio" ? media.input_audio(part, path) : media.input_file(part, path);
}

// `media`: null where no pictures can be.
Result<std::string> part_text(const Json& part, const std::string& path, MediaReader* media) {
  if (!part.is_object()) return wrong_type(path, "an object", part);
  TRY_ASSIGN(const std::string type, string_in(part, "type", path));
  const auto known = std::ranges::find(kTextParts, type, [](const auto& pair) { return pair.first; });
  if (media != nullptr && is_taken(type, *media)) return media_name_of(part, type, path, *media);
  if (known == kTextParts.end()) {
    return unreadable(path, type, media != nullptr ? media->type_here(type, kResponsesPartTypes) : std::string_view());
  }
  return string_in(part, known->second, path);
}

// Reads a string or parts; the parts are lines of one text.
Result<std::string> text_of(const Json* content, const std::string& path, MediaReader* media = nullptr) {
  if (content == nullptr) return invalid(fmt::format("'{}' is required", path));
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return wrong_type(path, "a string or an array of parts", *content);
  std::string all;
  for (std::size_t i = 0; i < content->size(); ++i) {
    TRY_ASSIGN(const std::string text, part_text((*content)[i], fmt::format("{}[{}]", path, i), media));
    append_text(all, "\n", text);
  }
  return all;
}

// Thoughts of this server are in encrypted_content, even if the rest was changed. Thoughts of other servers are the
// text that they show of them.
Result<std::string> thoughts_of(const Json& item, const std::string& path) {
  std::string sealed;
  TRY(read_string(item, "encrypted_content", sealed));
  if (sealed.starts_with(kSeal)) return sealed.substr(kSeal.size());
  for (const char* name : {"content", "summary"}) {
    const Json* parts = field(item, name);
    if (parts == nullptr) continue;
    TRY_ASSIGN(std::string text, text_of(parts, fmt::format("{}.{}", path, name)));
    if (!text.empty()) return text;
  }
  return std::string();
}

// Reads a tool's result, which may be anything: see left_out().
Result<std::string> output_of(const Json& item, const std::string& path, MediaReader& media) {
  const Json* output = field(item, "output");
  if (output == nullptr || !output->is_array()) return text_of(output, path + ".output");
  std::string all;
  for (std::size_t i = 0; i < output->size(); ++i) {
    const Json& part = (*output)[i];
    const std::string at = fmt::format("{}.output[{}]", path, i);
    if (!part.is_object()) return wrong_type(at, "an object", part);
    TRY_ASSIGN(const std::string type, string_in(part, "type", at));
    const bool known = is_text(type) || is_taken(type, media);
    TRY_ASSIGN(const std::string text, known ? part_text(part, at, &media) : Result<std::string>(left_out(type)));
    append_text(all, "\n", text);
  }
  return all;
}

Result<std::string> call_id_of(const Json& item, const std::string& path) { return string_in(item, "call_id", path); }

Result<Json> read_call(const Json& item, bool is_custom, const std::string& path) {
  TRY_ASSIGN(const std::string id, call_id_of(item, path));
  TRY_ASSIGN(const std::string name, string_in(item, "name", path));
  std::string space;
  TRY(read_string(item, "namespace", space));
  TRY_ASSIGN(std::string text, string_in(item, is_custom ? "input" : "arguments", path));
  if (is_custom) text = custom_arguments(text);
  return Json{{"id", id},
              {"type", "function"},
              {"function", {{"name", flat_name(space, name)}, {"arguments", text.empty() ? "{}" : text}}}};
}

// One message by the assistant while its items are read.
struct Turn {
  std::string thoughts;
  std::string text;
  Json calls = Json::array();
};

class Conversation {
 public:
  // Adds a system or user message; after a message of the same role it continues that one.
  void say(std::string_view role, std::string_view text) {
    finish_turn();
    if (!messages_.empty() && messages_.back()["role"] == role) {
      append_text(messages_.back()["content"].get_ref<std::string&>(), "\n\n", text);
    } else if (role != "system" || !text.empty()) {
      messages_.push_back({{"role", role}, {"content", text}});
    }
  }
  void result(std::string call_id, std::string text) {
    finish_turn();
    messages_.push_back({{"role", "tool"}, {"tool_call_id", std::move(call_id)}, {"content", std::move(text)}});
  }
  Turn& turn() {
    in_turn_ = true;
    return turn_;
  }
  Json take() {
    finish_turn();
    return std::move(messages_);
  }

 private:
  void finish_turn() {
    if (!std::exchange(in_turn_, false)) return;
    Json message = {{"role", "assistant"}, {"content", std::move(turn_.text)}};
    if (!turn_.thoughts.empty()) message["reasoning_content"] = std::move(turn_.thoughts);
    if (!turn_.calls.empty()) message["tool_calls"] = std::move(turn_.calls);
    messages_.push_back(std::move(message));
    turn_ = {};
  }

  Json messages_ = Json::array();
  Turn turn_;
  bool in_turn_ = false;
};

// Refuses parts that the model takes, but not from this side.
Status check_no_media(const Json& item, const std::string& path, const std::string& role, const MediaReader& media) {
  const Json* content = field(item, "content");
  if (content == nullptr || !content->is_array()) return {};
  for (std::size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const Json* type = part.is_object() ? field(part, "type") : nullptr;
    const bool taken = type != nullptr && type->is_string() && is_taken(type->get_ref<const std::string&>(), media);
    if (taken) return not_of_role(fmt::format("{}.content[{}]", path, i), role);
  }
  return {};
}

Status read_message(const Json& item, const std::string& path, MediaReader& media, Conversation& conversation) {
  TRY_ASSIGN(const std::string role, string_in(item, "role", path));
  MediaReader* const shown = role == "user" ? &media : nullptr;
  if (shown == nullptr) TRY(check_no_media(item, path, role, media));
  TRY_ASSIGN(const std::string text, text_of(field(item, "content"), path + ".content", shown));
  if (role == "user") {
    conversation.say("user", text);
  } else if (role == "system" || role == "developer") {
    conversation.say("system", text);
  } else if (role == "assistant") {
    append_text(conversation.turn().text, "\n", text);
  } else {
    return invalid(fmt::format("'{}.role' must be user, assistant, system or developer, not '{}'", path, role));
  }
  return {};
}

Status read_item(const Json& item, const std::string& path, MediaReader& media, Conversation& conversation) {
  if (!item.is_object()) return wrong_type(path, "an object", item);
  std::string type = "message";
  TRY(read_string(item, "type", type));
  if (type == "message") return read_message(item, path, media, conversation);
  if (type == "reasoning") {
    TRY_ASSIGN(const std::string thoughts, thoughts_of(item, path));
    append_text(conversation.turn().thoughts, "\n", thoughts);
    return {};
  }
  if (type == "function_call" || type == "custom_tool_call") {
    TRY_ASSIGN(Json call, read_call(item, type == "custom_tool_call", path));
    conversation.turn().calls.push_back(std::move(call));
    return {};
  }
  if (type == "function_call_output" || type == "custom_tool_call_output") {
    TRY_ASSIGN(std::string id, call_id_of(item, path));
    TRY_ASSIGN(std::string text, output_of(item, path, media));
    conversation.result(std::move(id), std::move(text));
    return {};
  }
  if (std::ranges::find(kSilent, type) != kSilent.end()) return {};
  if (type == "item_reference") {
    return invalid(
        fmt::format("'{}' refers to an item, but nothing is stored here: send the item itself (clients do "
                    "so with \"store\": false)",
                    path));
  }
  return invalid(fmt::format("'{}' is of type '{}', which this server cannot read", path, type));
}

}  // namespace

std::string sealed_thoughts(std::string_view thoughts) { return std::string(kSeal).append(thoughts); }

Result<Json> read_input(const Json& body, MediaReader& media) {
  Conversation conversation;
  if (const Json* instructions = field(body, "instructions"); instructions != nullptr) {
    if (!instructions->is_string()) return wrong_type("instructions", "a string", *instructions);
    conversation.say("system", instructions->get_ref<const std::string&>());
  }
  const Json* input = field(body, "input");
  if (input == nullptr) return missing_field(body, "input");
  if (input->is_string()) {
    conversation.say("user", input->get_ref<const std::string&>());
  } else if (!input->is_array()) {
    return wrong_type("input", "a string or an array of items", *input);
  } else {
    for (std::size_t i = 0; i < input->size(); ++i) {
      TRY(read_item((*input)[i], fmt::format("input[{}]", i), media, conversation));
    }
  }
  Json messages = conversation.take();
  if (messages.empty()) return invalid("'input' must not be empty");
  return messages;
}

}  // namespace kvkeep::server::api
