#pragma once

// From messages to a rendered prompt: the model's chat template, with the client's text kept from writing markers.
//
// ChatTemplate is our own interface over a template engine (minja_template.h makes one). Engines know text alone;
// render_prompt puts placeholders.h around them.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/marker_set.h"
#include "chat/rendered_prompt.h"

namespace kvkeep::chat {

struct RenderInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  // OpenAI's shape, validated by the caller
  nlohmann::ordered_json tools = nullptr;                             // OpenAI's shape; null or empty: none
  nlohmann::ordered_json template_kwargs = nullptr;                   // more variables for the template; null: none
  bool add_generation_prompt = true;                                  // end with the opening of an assistant turn
  std::string assistant_prefix = {};  // text the assistant's answer begins with, put behind the opening
  std::int64_t local_time_s = 0;      // for strftime_now: seconds since 1970, shifted to the local time zone
};

// Immutable, thread safe.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // The text the template prints; assistant_prefix is left out. kInvalid if the template refuses the messages
  // (raise_exception), kUnsupported if the engine cannot run it.
  virtual Result<std::string> print(const RenderInput& input) const = 0;
  // Jinja source.
  virtual std::string_view source() const = 0;
  // Tool call arguments are to be JSON objects, not strings: the template writes them out itself.
  virtual bool wants_object_arguments() const = 0;
};

// The whole way. Errors as ChatTemplate::print.
Result<RenderedPrompt> render_prompt(const ChatTemplate& chat_template, const MarkerSet& markers, RenderInput input);

// Brings messages into the one form templates expect, whatever form the client chose; the same conversation always gets
// the same form. Text parts are joined by newlines, absent content becomes "", the developer role becomes system where
// the template does not know it, arguments are parsed where the template wants objects, and reasoning that a client
// left in the content moves to reasoning_content where the template would cut it out by itself (it could not any more,
// since `</think>` is a marker).
nlohmann::ordered_json canonical_messages(const ChatTemplate& chat_template, nlohmann::ordered_json messages);

}  // namespace kvkeep::chat
