#pragma once

// A model's chat template, ready to print conversations.
//
// Templates differ in what they support: some read tool calls as JSON objects and some as text, some print no system
// message, many no tools. When a ChatTemplate is made, short conversations find out what its template supports. A
// feature that it lacks is put in other words: a system message goes in front of the next user message, tools into the
// system message, calls and results become JSON in the text of assistant and user messages.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/jinja/template.h"
#include "chat/media_names.h"
#include "chat/prompt_places.h"

namespace kvkeep::chat {

struct RenderInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  // OpenAI's shape, validated by the caller
  nlohmann::ordered_json tools = nullptr;                             // OpenAI's shape; null or empty: none
  nlohmann::ordered_json template_kwargs = nullptr;                   // more variables for the template; null: none
  bool add_generation_prompt = true;                                  // end with the opening of an assistant turn
  // The beginning of an answer that goes on (render.h): its text, and the thought before it. Without text the thought
  // goes on. Both empty: the answer is a new one.
  std::string assistant_prefix = {};
  std::string assistant_reasoning = {};
  bool goes_on() const { return !assistant_prefix.empty() || !assistant_reasoning.empty(); }
  PromptMedia media = {};   // pictures and sounds that the messages name
  bool tools_first = true;  // if the template has no place for tools: they stand before the system message's text
  std::int64_t local_time_s =
      0;  // for strftime_now and date_string: seconds since 1970, shifted to the local time zone
};

struct TemplateTokens {
  std::string bos;  // spelling of BOS, "" without one
  std::string eos;
};

// The features that a template was seen to support.
struct TemplateTraits {
  bool typed_content = false;     // content as a list of parts, and not as text
  bool system_role = true;        // prints a system message
  bool late_system = true;        // also after an answer
  bool tools = true;              // prints tools
  bool tool_calls = true;         // prints an assistant's calls
  bool tool_results = true;       // prints messages of the role "tool"
  bool object_arguments = false;  // calls' arguments are to be JSON objects: the template writes them out itself
  bool thinking_field = false;    // reads a message's `thinking`
  // For clients that ask (chat_template_caps in /props); nothing is adapted to them.
  bool text_content = true;       // content as text
  bool content_parts = false;     // content as a list of parts
  bool parallel_calls = false;    // prints several calls of one answer
  bool arguments_print = false;   // calls' arguments may be JSON objects
  bool keeps_reasoning = false;   // prints the reasoning of earlier turns
  bool reasoning_effort = false;  // reads a variable of this name
  // Refuses an answer with calls that has thinking next to content.
  bool refuses_thinking_beside_content = false;
};

// A printed prompt, whose texts from messages and tools have the numbers of `places`.
struct PrintedChat : jinja::Printed {
  PromptPlaces places;
};

// Immutable, thread safe.
class ChatTemplate {
 public:
  ChatTemplate(std::string source, TemplateTokens tokens, jinja::Template parsed);

  // The printed prompt, with the origin of each byte, without the beginning of an answer. kInvalid if the template
  // refuses the messages (raise_exception, or a case in which Python would raise an exception), kUnsupported at a
  // limit, or if the interpreter lacks a feature that the template uses.
  Result<PrintedChat> print(const RenderInput& input) const;
  // Jinja source.
  std::string_view source() const { return source_; }
  const TemplateTraits& traits() const { return traits_; }
  bool wants_object_arguments() const { return traits_.object_arguments; }

 private:
  Result<PrintedChat> print_as_it_is(const RenderInput& input, const nlohmann::ordered_json& messages) const;

  const std::string source_;
  const nlohmann::ordered_json bos_;
  const nlohmann::ordered_json eos_;
  const jinja::Template parsed_;
  TemplateTraits traits_;
};

// ChatML: for models that carry no template.
std::string_view default_template_source();

// `source` is Jinja text; an empty one means default_template_source(). Takes about a millisecond. kUnsupported if it
// does not parse.
Result<std::unique_ptr<ChatTemplate>> make_chat_template(std::string_view source, TemplateTokens tokens);

}  // namespace kvkeep::chat
