#include "server/api/template_switches.h"

namespace kvkeep::server::api {

void set_thinking(Json& kwargs, bool thinks) {
  for (const char* name : {"enable_thinking", "thinking"}) kwargs[name] = thinks;
}

Status read_template_switches(const Json& body, Json& kwargs) {
  if (field(body, "enable_thinking") != nullptr) {
    bool thinks = true;
    TRY(read_bool(body, "enable_thinking", thinks));
    set_thinking(kwargs, thinks);
  }
  const Json* own = field(body, "chat_template_kwargs");
  if (own == nullptr) return {};
  if (!own->is_object()) return wrong_type("chat_template_kwargs", "an object", *own);
  if (own->contains("enable_thinking") && (*own)["enable_thinking"].is_boolean()) {
    set_thinking(kwargs, (*own)["enable_thinking"].get<bool>());
  }
  kwargs.update(*own);
  return {};
}

}  // namespace kvkeep::server::api
