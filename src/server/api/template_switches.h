#pragma once

// Fields of any chat dialect that set variables of the template, next to the dialect's own fields.

#include "base/result.h"
#include "chat/chat_template.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// Templates have different names for the same switch; a template ignores the names that it does not know.
void set_thinking(Json& kwargs, bool thinks);

// Reads `enable_thinking` and `chat_template_kwargs`. Fields of the body replace variables in `kwargs`, the more
// specific field last; if chat_template_kwargs has `enable_thinking`, the switch's other name follows it. Precondition:
// kwargs.is_object().
Status read_template_switches(const Json& body, Json& kwargs);

// Returns the features that the template supports, under llama-server's names.
Json template_caps(const chat::TemplateTraits& traits);

// kInvalid if a variable has another type than every template takes for granted.
Status check_template_kwargs(const Json& kwargs);

}  // namespace kvkeep::server::api
