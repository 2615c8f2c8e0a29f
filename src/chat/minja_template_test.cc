#include "chat/minja_template.h"

#include <gtest/gtest.h>
#include <malloc.h>

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

std::unique_ptr<ChatTemplate> made(std::string_view source) {
  auto result = make_minja_template(source, {.bos = "<s>", .eos = "</s>"});
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

RenderInput one_message() { return {.messages = ordered_json::array({{{"role", "user"}, {"content", "hi"}}})}; }

TEST(MinjaTemplate, ChatMlWithoutATemplate) {
  const auto text = made("")->print(one_message());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(MinjaTemplate, VariablesToolsAndTokens) {
  const auto engine =
      made("{{ bos_token }}{% if tools %}{{ tools[0].function.name }}{% endif %}{{ flag }}{{ eos_token }}");
  RenderInput input = one_message();
  input.tools = ordered_json::parse(R"([{"type":"function","function":{"name":"f"}}])");
  input.template_kwargs = {{"flag", "on"}};
  EXPECT_EQ(engine->print(input).value(), "<s>fon</s>");
}

TEST(MinjaTemplate, ASourceThatDoesNotParseIsUnsupported) {
  for (const char* source : {"{% if x %}", "{{ ", "{% include 'x' %}", "{{ x | }}"}) {
    const auto result = make_minja_template(source, {});
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_EQ(result.error().kind, ErrorKind::kUnsupported);
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  }
  EXPECT_FALSE(make_minja_template(std::string(std::size_t{300} * 1024, 'x'), {}).ok());
}

TEST(MinjaTemplate, WhatTheTemplateRefusesIsInvalid) {
  const auto result = made("{{ raise_exception('roles must alternate') }}")->print(one_message());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(result.error().message, "chat template: roles must alternate");
}

TEST(MinjaTemplate, WhatTheEngineLacksIsUnsupported) {
  const auto result = made("{{ messages[0].content | reverse }}")->print(one_message());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kUnsupported) << result.error().message;
}

TEST(MinjaTemplate, DatesComeFromTheCaller) {
  const auto engine =
      made("{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }} {{ strftime_now(\"%H:%M\") }}{% endif %}");
  RenderInput input = one_message();
  input.local_time_s = 1718100000;
  EXPECT_EQ(engine->print(input).value(), "11 Jun 2024 10:00");
}

TEST(MinjaTemplate, SaysWhetherArgumentsMustBeObjects) {
  EXPECT_TRUE(made("{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ "
                   "c.function.arguments | tojson }}{% endfor %}{% endif %}{% endfor %}")
                  ->wants_object_arguments());
  EXPECT_FALSE(made("{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ "
                    "c.function.arguments }}{% endfor %}{% endif %}{% endfor %}")
                   ->wants_object_arguments());
}

std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Each would keep its megabyte for ever if the macro's context were not emptied. Where the allocator is another one
// (sanitizers), nothing is counted here, and the leak checker looks instead.
TEST(MinjaTemplate, MacrosKeepNoMessagesAfterRenderingOrFailure) {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  constexpr int kRounds = 8;
  const RenderInput input = {.messages =
                                 ordered_json::array({{{"role", "user"}, {"content", std::string(kMegabyte, 'x')}}})};
  for (const char* more : {"", "{{ raise_exception('no') }}"}) {
    const auto engine = made(std::string("{% macro show(m) %}{{ m.content }}{% endmacro %}") +
                             "{% for m in messages %}{{ show(m) }}{% endfor %}" + more);
    EXPECT_EQ(engine->print(input).ok(), std::string_view(more).empty());
    const std::size_t before = heap_bytes();
    for (int round = 0; round < kRounds; ++round) EXPECT_EQ(engine->print(input).ok(), std::string_view(more).empty());
    EXPECT_LT(heap_bytes(), before + kMegabyte) << more;
  }
}

TEST(MinjaTemplate, RangeIsAsInPython) {
  const auto engine = made(
      "{{ range(3) }}{{ range(1, 3) }}{{ range(5, 0, -2) }}{{ range(3, 1) }}{{ range(end=2) }}"
      "{{ range(start=4, end=8, step=3) }}{{ range(-1) }}");
  EXPECT_EQ(engine->print(one_message()).value(), "[0, 1, 2][1, 2][5, 3, 1][][0, 1][4, 7][]");
}

TEST(MinjaTemplate, RangeHasALimit) {
  // The conditions keep the engine's own probes out, which know nothing of limits.
  for (const char* call : {"range(1000001)", "range(0, 9000000000000000000)", "range(0, -9000000000000000000, -1)",
                           "range(end=2000000)", "range(5, 0, 0)", "range(0, 5, 1, 1)"}) {
    const auto engine = made(std::string("{% if hostile is defined %}{{ ") + call + " }}{% endif %}");
    RenderInput input = one_message();
    EXPECT_TRUE(engine->print(input).ok());
    input.template_kwargs = {{"hostile", true}};
    const auto text = engine->print(input);
    ASSERT_FALSE(text.ok()) << call;
    EXPECT_EQ(text.error().kind, ErrorKind::kInvalid);
    EXPECT_TRUE(text.error().message.starts_with("chat template: range() ")) << text.error().message;
  }
}

TEST(MinjaTemplate, RangesWithinRangesHaveALimitTogether) {
  const auto engine = made(
      "{% if hostile is defined %}{% for i in range(1000) %}{% for j in range(1000000) %}{% break %}"
      "{% endfor %}{% endfor %}{% endif %}");
  RenderInput input = one_message();
  input.template_kwargs = {{"hostile", true}};
  EXPECT_EQ(engine->print(input).error().message, "chat template: range() of too many numbers");
  input.template_kwargs = ordered_json::object();
  EXPECT_TRUE(engine->print(input).ok());
}

}  // namespace
}  // namespace kvkeep::chat
