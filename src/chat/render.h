#pragma once

// From messages to a rendered prompt: the model's chat template, with the client's text kept from writing markers.
//
// A marker stands only where the template's own words spell it: bytes from a message are text, and so is a spelling
// that only template and message together make (chat_template.h gives the origin of each printed byte).

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "chat/chat_template.h"
#include "chat/marker_set.h"
#include "chat/prompt_places.h"

namespace kvkeep::chat {

// A rendered prompt: markers, and the text between them. The template's markers are ids here, so that no later step has
// to find them in text again, and text that spells a marker stays text. Concatenating the spans gives the printed
// prompt.
enum class SpanKind {
  kMarker,       // written by the template: one token
  kText,         // written by the template
  kMessageText,  // from the client's messages, tools or arguments
  kMedia,        // a picture or sound
};

struct PromptSpan {
  SpanKind kind = SpanKind::kText;
  TokenId marker = -1;      // kMarker; of kMedia the first id, once tokenized
  std::string text;         // a marker's spelling, the text, or the name of a picture or sound
  std::uint32_t place = 0;  // of the client's words and media: a number of RenderedPrompt::places; 0: unknown
  std::size_t number = 0;   // kMedia only: in PromptMedia::files
  std::size_t ids = 0;      // kMedia only: how many it has, once tokenized
  bool operator==(const PromptSpan&) const = default;
};

struct RenderedPrompt {
  std::vector<PromptSpan> spans;
  PromptPlaces places = {};

  // The prompt as it reads, for /apply-template, logs and tests.
  std::string text() const {
    std::string all;
    for (const PromptSpan& span : spans) all += span.text;
    return all;
  }
};

// Renders a whole request. Errors as ChatTemplate::print, and kInvalid if the template leaves a picture or sound out.
//
// An answer that goes on (RenderInput::goes_on) stands where the template puts the content of a last message by the
// assistant, after everything the template writes before it there: an empty thought, for instance. If a template shows
// no such message, the answer stands after the opening of a new one. Thinking that is only in the text, between <think>
// and </think>, counts as thinking if the template uses these tags; a thought that is not closed goes on.
Result<RenderedPrompt> render_prompt(const ChatTemplate& chat_template, const MarkerSet& markers, RenderInput input);

// Brings messages into the one form templates expect, whatever form the client chose; the same conversation always gets
// the same form. Text parts are joined by newlines, absent content becomes "", the developer role becomes system if the
// template does not support it, arguments are parsed if the template wants objects, reasoning is given under the name
// `thinking`, too, if the template reads that, and reasoning that a client left in the content moves to
// reasoning_content if the template would cut it out by itself.
nlohmann::ordered_json canonical_messages(const ChatTemplate& chat_template, nlohmann::ordered_json messages);

// Brings tools into the form that models were trained with and that llama-server prints: name, description ("" if there
// is none) and parameters, in this order, and nothing else.
nlohmann::ordered_json canonical_tools(nlohmann::ordered_json tools);

}  // namespace kvkeep::chat
