// Chat templates: any source is refused or rendered within its limits, and where each printed byte comes from is known.

#include "chat/jinja/template.h"
#include "fuzz.h"

namespace kvkeep::chat::jinja {
namespace {

using Json = nlohmann::ordered_json;

const Json& conversation() {
  static const Json variables = Json::parse(R"({
    "messages": [{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":" a<b>\n"}]},
      {"role":"assistant","content":"","reasoning_content":"t","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"f","arguments":{"x":[1,2.5,null,true]}}}]},
      {"role":"tool","content":"{\"r\": 1}","tool_call_id":"c1","name":"f"},{"role":"user","content":"Thanks."}],
    "tools": [{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",
      "properties":{"x":{"type":"array","items":{"type":"number"}}},"required":["x"]}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "x": -1.5})");
  return variables;
}

Result<Printed> render(const Template& parsed) {
  static const std::vector<Variable> variables = [] {
    std::vector<Variable> all;
    for (const auto& item : conversation().items()) all.push_back({.name = item.key(), .value = &item.value()});
    return all;
  }();
  const Limits limits = {
      .steps = {20'000, 0}, .memory_bytes = {1U << 20, 0}, .output_bytes = {1U << 16, 0}, .depth = 200};
  return parsed.render({.variables = variables, .local_time_s = 1'700'000'000, .limits = limits});
}

void check_printed(const Printed& printed) {
  KVKEEP_ASSERT(printed.text.size() <= 1U << 16, "output keeps to its limit");
  std::size_t told = 0;
  for (std::size_t i = 0; i < printed.runs.size(); ++i) {
    KVKEEP_ASSERT(printed.runs[i].size_bytes > 0, "runs are of something");
    KVKEEP_ASSERT(i == 0 || printed.runs[i].origin != printed.runs[i - 1].origin, "neighbours differ");
    told += printed.runs[i].size_bytes;
  }
  KVKEEP_ASSERT(told == printed.text.size(), "each byte has an origin");
}

void check_refusal(const Error& error) {
  KVKEEP_ASSERT(!error.message.empty() && !error.message.contains('\n'), "a refusal is one line");
  KVKEEP_ASSERT(error.kind == ErrorKind::kInvalid || error.kind == ErrorKind::kUnsupported, "of a known kind");
}

}  // namespace
}  // namespace kvkeep::chat::jinja

KVKEEP_FUZZ_TARGET(template)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep::chat::jinja;
  const auto parsed = Template::parse(kvkeep::fuzz::text_of(kvkeep::fuzz::bytes_of(data, size)));
  if (!parsed) {
    check_refusal(parsed.error());
    return 0;
  }
  const auto printed = render(*parsed);
  if (!printed) {
    check_refusal(printed.error());
    return 0;
  }
  check_printed(*printed);
  const auto again = render(*parsed);
  KVKEEP_ASSERT(again && again->text == printed->text && again->runs == printed->runs, "rendering is a function");
  return 0;
}
