#include "chat/synthetic.h"

#include <string>

namespace kvkeep::chat::synthetic {
namespace {

using nlohmann::ordered_json;

constexpr const char* kTool = "kvkeeptool";
constexpr const char* kCall = "kvkeepid1";  // nine letters and digits: some templates accept nothing else

}  // namespace

ordered_json message(std::string_view role, std::string_view content) { return {{"role", role}, {"content", content}}; }

ordered_json answer(std::string_view thinking, std::string_view content, Thinking form) {
  if (thinking.empty()) return message("assistant", content);
  if (form == Thinking::kContent) {
    return message("assistant", "<think>\n" + std::string(thinking) + "\n</think>\n\n" + std::string(content));
  }
  ordered_json answer = message("assistant", content);
  answer["reasoning_content"] = thinking;
  return answer;
}

ordered_json call(std::string_view thinking, Thinking form) {
  ordered_json call = answer(thinking, "", form);
  const ordered_json function = {{"name", kTool}, {"arguments", R"({"path": "kvkeeppath"})"}};
  call["tool_calls"] = ordered_json::array({{{"id", kCall}, {"type", "function"}, {"function", function}}});
  return call;
}

ordered_json result(std::string_view content) {
  ordered_json result = message("tool", content);
  result["tool_call_id"] = kCall;
  result["name"] = kTool;
  return result;
}

ordered_json tools(std::string_view description) {
  const ordered_json path = {{"type", "string"}, {"description", "A path."}};
  const ordered_json parameters = {{"type", "object"}, {"properties", {{"path", path}}}, {"required", {"path"}}};
  const ordered_json function = {{"name", kTool}, {"description", description}, {"parameters", parameters}};
  return ordered_json::array({{{"type", "function"}, {"function", function}}});
}

}  // namespace kvkeep::chat::synthetic
