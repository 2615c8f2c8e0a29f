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
  TRY(check_template_kwargs(*own));
  if (const Json* thinks = field(*own, "enable_thinking")) set_thinking(kwargs, thinks->get<bool>());
  kwargs.update(*own);
  return {};
}

Json template_caps(const chat::TemplateTraits& traits) {
  return {
      {"supports_object_arguments", traits.arguments_print},
      {"supports_parallel_tool_calls", traits.parallel_calls},
      {"supports_preserve_reasoning", traits.keeps_reasoning},
      {"supports_reasoning_effort", traits.reasoning_effort},
      {"supports_string_content", traits.text_content},
      {"supports_system_role", traits.system_role},
      {"supports_tool_calls", traits.tool_calls},
      {"supports_tools", traits.tools},
      {"supports_typed_content", traits.content_parts},
  };
}

// To a template, the string "false" is true.
Status check_template_kwargs(const Json& kwargs) {
  bool unused = false;
  if (const Status read = read_bool(kwargs, "enable_thinking", unused); !read) {
    return invalid("'chat_template_kwargs': " + read.error().message);
  }
  return {};
}

}  // namespace kvkeep::server::api
