#pragma once

// Chat templates run by minja, a small Jinja engine made for them.
//
// minja throws, writes to stderr while it probes a template, and sets no limits; this file turns exceptions into one
// clear line and refuses sources that are too long; minja_guard.h bounds range() and frees what macros hold. Beyond
// that a template is trusted as the model is: loops within loops may take as long as they like.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/render.h"

namespace kvkeep::chat {

struct TemplateTokens {
  std::string bos;  // spelling of BOS, "" without one
  std::string eos;
};

// ChatML: for models that carry no template.
std::string_view default_template_source();

// `source` is Jinja text; an empty one means default_template_source(). Takes 7 to 16 ms: minja renders a few probes to
// learn what the template supports. kUnsupported if it does not parse.
Result<std::unique_ptr<ChatTemplate>> make_minja_template(std::string_view source, const TemplateTokens& tokens);

}  // namespace kvkeep::chat
