#pragma once

// Decides which strings of a request count as the template's own words.
//
// Names of the chat format (role, content, parameters ...) and the roles themselves do: templates read them, and some
// write markers with them ('<|' + role + '|>'). They are checked before they come here, and spell no marker by
// themselves. Everything else in messages and tools is the client's, and never becomes a marker.

#include "chat/jinja/template.h"

namespace kvkeep::chat {

jinja::OriginRules chat_origins();
// The rules for strings of the model's own vocabulary.
jinja::OriginRules template_origins();

}  // namespace kvkeep::chat
