#include "chat/minja_template.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kvkeep::chat
