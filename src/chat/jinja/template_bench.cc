// A long conversation through a template that does what most do: looks for the last question, splits thinking off
// answers, writes calls as JSON; and through a template in the manner of each family.

#include <benchmark/benchmark.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "chat/jinja/template.h"

namespace kvkeep::chat::jinja {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kSource = R"jinja({%- set ns = namespace(last=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
    {%- set content = m.content if m.content is string else '' %}
    {%- if m.role == 'user' %}
        {{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}
    {%- elif m.role == 'assistant' %}
        {%- if '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}
        {{- '<|im_start|>assistant\n' + content }}
        {%- for call in m.tool_calls or [] %}
            {{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson + '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>user\n<tool_response>\n' + content | trim + '\n</tool_response><|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})jinja";

std::string words(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "the quick brown fox \"jumps\" over\nthe lazy dog; ";
  return text;
}

ordered_json conversation(std::size_t count, std::size_t bytes_each) {
  ordered_json messages = ordered_json::array();
  for (std::size_t i = 0; i < count; i += 3) {
    messages.push_back({{"role", "user"}, {"content", words(bytes_each)}});
    messages.push_back(
        {{"role", "assistant"},
         {"content", "<think>\n" + words(bytes_each / 2) + "</think>\n\nI look."},
         {"tool_calls",
          {{{"id", "a"}, {"function", {{"name", "read"}, {"arguments", {{"text", words(bytes_each / 2)}}}}}}}}});
    messages.push_back({{"role", "tool"}, {"content", words(bytes_each)}});
  }
  return messages;
}

void BM_Render(benchmark::State& state) {
  const auto parsed = Template::parse(kSource);
  const ordered_json messages = conversation(static_cast<std::size_t>(state.range(0)), 1370);
  const ordered_json yes = true;
  const std::vector<Variable> variables = {{.name = "messages", .value = &messages},
                                           {.name = "add_generation_prompt", .value = &yes}};
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto printed = parsed->render({.variables = variables, .local_time_s = 0, .limits = {}});
    bytes = printed->text.size();
    benchmark::DoNotOptimize(printed);
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Render)->Arg(3)->Arg(300)->Unit(benchmark::kMillisecond);

// For templates that want users and assistants to take turns.
ordered_json talk(std::size_t count, std::size_t bytes_each) {
  ordered_json messages = ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", words(bytes_each)}});
  }
  messages.push_back({{"role", "user"}, {"content", "?"}});
  return messages;
}

// tests/jinja/templates.
void BM_RenderFamily(benchmark::State& state, const std::filesystem::path& path) {
  std::ifstream file(path);
  const auto parsed = Template::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ordered_json messages = conversation(300, 1370);
  const ordered_json yes = true;
  const ordered_json bos = "<s>";
  const ordered_json eos = "</s>";
  const std::vector<Variable> variables = {{.name = "messages", .value = &messages},
                                           {.name = "add_generation_prompt", .value = &yes},
                                           {.name = "bos_token", .value = &bos},
                                           {.name = "eos_token", .value = &eos}};
  if (!parsed->render({.variables = variables, .local_time_s = 0, .limits = {}})) messages = talk(300, 1370);
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto printed = parsed->render({.variables = variables, .local_time_s = 0, .limits = {}});
    if (!printed) return state.SkipWithError(printed.error().message.c_str());
    bytes = printed->text.size();
    benchmark::DoNotOptimize(printed);
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}

const bool kFamiliesAreRegistered = [] {
  for (const auto& entry : std::filesystem::directory_iterator(KVKEEP_TEMPLATES)) {
    const std::string name = "BM_RenderFamily/" + entry.path().stem().string();
    benchmark::RegisterBenchmark(name.c_str(), BM_RenderFamily, entry.path())->Unit(benchmark::kMillisecond);
  }
  return true;
}();

void BM_Parse(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Template::parse(kSource));
}
BENCHMARK(BM_Parse)->Unit(benchmark::kMillisecond);

// A template that gathers its output in a variable.
void BM_Accumulate(benchmark::State& state) {
  const auto parsed = Template::parse(
      "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + m.content %}{% endfor %}{{ ns.t }}");
  const ordered_json messages = conversation(300, 1370);
  const std::vector<Variable> variables = {{.name = "messages", .value = &messages}};
  for (auto _ : state)
    benchmark::DoNotOptimize(parsed->render({.variables = variables, .local_time_s = 0, .limits = {}}));
}
BENCHMARK(BM_Accumulate)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::chat::jinja
