#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include "chat/test_templates_test.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

std::unique_ptr<ChatTemplate> made(std::string_view source) {
  auto result = make_chat_template(source, {.bos = "<s>", .eos = "</s>"});
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

RenderInput one_message() { return {.messages = ordered_json::array({{{"role", "user"}, {"content", "hi"}}})}; }

TEST(ChatTemplate, ChatMlWithoutATemplate) {
  const auto text = made("")->print(one_message());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, VariablesToolsAndTokens) {
  const auto engine =
      made("{{ bos_token }}{% if tools %}{{ tools[0].function.name }}{% endif %}{{ flag }}{{ eos_token }}");
  RenderInput input = one_message();
  input.tools = ordered_json::parse(R"([{"type":"function","function":{"name":"f"}}])");
  input.template_kwargs = {{"flag", "on"}};
  EXPECT_EQ(engine->print(input).value().text, "<s>fon</s>");
}

TEST(ChatTemplate, ASourceThatDoesNotParseIsUnsupported) {
  for (const char* source : {"{% if x %}", "{{ ", "{% include 'x' %}", "{{ x | }}"}) {
    const auto result = make_chat_template(source, {});
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_EQ(result.error().kind, ErrorKind::kUnsupported);
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  }
  EXPECT_FALSE(make_chat_template(std::string(std::size_t{600} * 1024, 'x'), {}).ok());
}

TEST(ChatTemplate, ARefusalOfTheTemplateIsInvalid) {
  const auto result = made("{{ raise_exception('roles must alternate') }}")->print(one_message());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(result.error().message, "chat template: roles must alternate");
}

TEST(ChatTemplate, AFeatureThatTheEngineLacksIsUnsupported) {
  const auto result = made("{{ messages[0].content | no_such_filter }}")->print(one_message());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kUnsupported) << result.error().message;
}

TEST(ChatTemplate, DatesComeFromTheCaller) {
  const auto engine =
      made("{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }} {{ strftime_now(\"%H:%M\") }}{% endif %}");
  RenderInput input = one_message();
  input.local_time_s = 1718100000;
  EXPECT_EQ(engine->print(input).value().text, "11 Jun 2024 10:00");
}

TEST(ChatTemplate, ADateStringIsGivenUnlessTheRequestHasOne) {
  const auto engine =
      made("{%- if not date_string is defined %}{%- set date_string = '26 Jul 2024' %}{%- endif %}{{ date_string }}");
  RenderInput input = one_message();
  input.local_time_s = 1718100000;
  EXPECT_EQ(engine->print(input).value().text, "11 Jun 2024");
  input.template_kwargs = {{"date_string", "1 Jan 2000"}};
  EXPECT_EQ(engine->print(input).value().text, "1 Jan 2000");
}

TEST(ChatTemplate, SaysWhetherArgumentsMustBeObjects) {
  EXPECT_TRUE(made("{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ "
                   "c.function.arguments | tojson }}{% endfor %}{% endif %}{% endfor %}")
                  ->wants_object_arguments());
  EXPECT_FALSE(made("{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ "
                    "c.function.arguments }}{% endfor %}{% endif %}{% endfor %}")
                   ->wants_object_arguments());
}

ordered_json message(std::string_view role, std::string_view content) { return {{"role", role}, {"content", content}}; }

std::string text_of(const ChatTemplate& engine, ordered_json messages, ordered_json tools = nullptr) {
  const auto text =
      engine.print({.messages = std::move(messages), .tools = std::move(tools), .add_generation_prompt = false});
  return text ? text->text : text.error().message;
}

constexpr const char* kPlain = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}";

TEST(ChatTemplate, UnknownFeaturesAreWrittenInFormsThatTheTemplateKnows) {
  const auto plain = made(kPlain);
  EXPECT_TRUE(plain->traits().system_role);
  EXPECT_FALSE(plain->traits().tools);
  EXPECT_FALSE(plain->traits().tool_calls);
  const ordered_json tools = ordered_json::parse(R"([{"type":"function","function":{"name":"f"}}])");
  const std::string words =
      "You can call any of the following tools to satisfy the user's requests: [\n  {\n    \"type\": "
      "\"function\",\n    \"function\": {\n      \"name\": \"f\"\n    }\n  }\n]";
  EXPECT_EQ(text_of(*plain, {message("system", "S"), message("user", "U")}, tools),
            "[system:" + words + "\n\nS][user:U]");
  EXPECT_EQ(text_of(*plain, {message("user", "U")}, tools), "[system:" + words + "][user:U]");
  const RenderInput behind{.messages = {message("system", "S"), message("user", "U")},
                           .tools = tools,
                           .add_generation_prompt = false,
                           .tools_first = false};
  EXPECT_EQ(plain->print(behind).value().text, "[system:S\n\n" + words + "][user:U]");
  ordered_json call = message("assistant", "");
  call["tool_calls"] =
      ordered_json::parse(R"([{"id":"a","type":"function","function":{"name":"f","arguments":{"x":1}}}])");
  ordered_json result = message("tool", "R");
  result["tool_call_id"] = "a";
  const std::string text = text_of(*plain, {message("user", "U"), call, result});
  EXPECT_NE(text.find("[assistant:{\n  \"tool_calls\": ["), std::string::npos) << text;
  EXPECT_NE(text.find("[user:{\n  \"tool_response\": {\n    \"content\": \"R\""), std::string::npos) << text;
  // Roles alternate.
  EXPECT_TRUE(text_of(*plain, {message("user", "U"), call, result, result, message("user", "V")}).ends_with("}\nV]"));
}

TEST(ChatTemplate, ASystemMessageItRefusesGoesInFrontOfTheNextUserMessage) {
  const auto engine =
      made(std::string("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}") + kPlain);
  EXPECT_FALSE(engine->traits().system_role);
  EXPECT_EQ(text_of(*engine, {message("system", "S"), message("user", "U"), message("assistant", "A")}),
            "[user:S\nU][assistant:A]");
}

TEST(ChatTemplate, ALateSystemMessageItRefusesOrForgetsDoesSoToo) {
  const char* refuses =
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('no') }}"
      "{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}";
  const char* forgets =
      "{% for m in messages %}{% if m.role != 'system' or loop.first %}"
      "[{{ m.role }}:{{ m.content }}]{% endif %}{% endfor %}";
  for (const char* source : {refuses, forgets}) {
    const auto engine = made(source);
    EXPECT_TRUE(engine->traits().system_role) << source;
    EXPECT_FALSE(engine->traits().late_system) << source;
    EXPECT_EQ(text_of(*engine, {message("system", "S"), message("user", "U"), message("assistant", "A"),
                                message("system", "T"), message("user", "V")}),
              "[system:S][user:U][assistant:A][user:T\nV]")
        << source;
    EXPECT_EQ(text_of(*engine, {message("user", "U"), message("system", "T"), message("assistant", "A")}),
              "[user:U][user:T][assistant:A]")
        << source;
  }
  const auto plain = made(kPlain);
  EXPECT_TRUE(plain->traits().late_system);
  EXPECT_EQ(text_of(*plain, {message("user", "U"), message("system", "T")}), "[user:U][system:T]");
}

TEST(ChatTemplate, ContentIsAListWhereNothingElseIsRead) {
  const auto engine =
      made("{% for m in messages %}{% for part in m.content %}<{{ part.text }}>{% endfor %}{% endfor %}");
  EXPECT_TRUE(engine->traits().typed_content);
  EXPECT_EQ(text_of(*engine, {message("user", "U"), message("assistant", "A")}), "<U><A>");
}

TEST(ChatTemplate, TellsWhatItSupports) {
  const TemplateTraits plain = made("")->traits();
  EXPECT_TRUE(plain.text_content && plain.system_role);
  EXPECT_FALSE(plain.content_parts || plain.tools || plain.tool_calls || plain.parallel_calls || plain.arguments_print);
  EXPECT_FALSE(plain.keeps_reasoning || plain.reasoning_effort);
  const TemplateTraits hermes = made(kHermes)->traits();
  EXPECT_TRUE(hermes.text_content && hermes.system_role && hermes.tools && hermes.tool_calls);
  EXPECT_TRUE(hermes.parallel_calls && hermes.arguments_print && hermes.keeps_reasoning);
  EXPECT_FALSE(hermes.content_parts || hermes.reasoning_effort);
  const TemplateTraits either =
      made(
          "{{ reasoning_effort }}{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
          "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}")
          ->traits();
  EXPECT_TRUE(either.text_content && either.content_parts && either.reasoning_effort);
}

TEST(ChatTemplate, ToolsThatAreNotGivenAreNone) {
  EXPECT_EQ(text_of(*made("{{ tools is none }}{{ documents is none }}{{ tools is defined }}"), ordered_json::array()),
            "TrueTrueTrue");
}

}  // namespace
}  // namespace kvkeep::chat
