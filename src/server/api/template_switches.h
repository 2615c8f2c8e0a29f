#pragma once

// Fields by which a request of any chat dialect speaks to the template, next to the dialect's own words for it.

#include "base/result.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// Templates have different names for the same switch; one that knows none of them passes over them.
void set_thinking(Json& kwargs, bool thinks);

// `enable_thinking` and `chat_template_kwargs`. What the body says takes the place of what `kwargs` has, the more
// special the later; of kwargs that name `enable_thinking` the switch's other name follows. Precondition:
// kwargs.is_object().
Status read_template_switches(const Json& body, Json& kwargs);

// kInvalid: a variable whose type every template takes for granted has another one.
Status check_template_kwargs(const Json& kwargs);

}  // namespace kvkeep::server::api
