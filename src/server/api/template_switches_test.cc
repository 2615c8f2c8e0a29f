// All chat dialects set the same variables of the template.

#include "server/api/template_switches.h"

#include <gtest/gtest.h>

#include <string>

#include "server/api/anthropic/request.h"
#include "server/api/openai/chat.h"
#include "server/api/responses/request.h"

namespace kvkeep::server::api {
namespace {

const Json& kwargs_of(const GenerationRequest& request) {
  return std::get<chat::RenderInput>(request.prompt).template_kwargs;
}

void expect_everywhere(const std::string& fields, const std::string& kwargs) {
  const std::string messages =
      R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}],)" + fields + "}";
  EXPECT_EQ(kwargs_of(parse_chat(messages, {}).value()), Json::parse(kwargs)) << fields;
  EXPECT_EQ(kwargs_of(parse_messages(messages, {}).value().generation), Json::parse(kwargs)) << fields;
  const std::string input = R"({"input":"hi",)" + fields + "}";
  EXPECT_EQ(kwargs_of(parse_responses(input, {}).value().generation), Json::parse(kwargs)) << fields;
}

TEST(TemplateSwitches, AreTheSameInEveryDialect) {
  expect_everywhere(R"("enable_thinking":false)", R"({"enable_thinking":false,"thinking":false})");
  expect_everywhere(R"("chat_template_kwargs":{"enable_thinking":false,"x":1})",
                    R"({"enable_thinking":false,"thinking":false,"x":1})");
  expect_everywhere(R"("enable_thinking":true,"chat_template_kwargs":{"thinking":false})",
                    R"({"enable_thinking":true,"thinking":false})");
}

TEST(TemplateSwitches, WrongTypesAreRefusedInEveryDialect) {
  for (const std::string fields :
       {R"("chat_template_kwargs":5)", R"("chat_template_kwargs":{"enable_thinking":"false"})",
        R"("enable_thinking":"no")"}) {
    const std::string messages =
        R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}],)" + fields + "}";
    EXPECT_FALSE(parse_chat(messages, {}).ok()) << fields;
    EXPECT_FALSE(parse_messages(messages, {}).ok()) << fields;
    EXPECT_FALSE(parse_responses(R"({"input":"hi",)" + fields + "}", {}).ok()) << fields;
  }
}

TEST(TemplateCaps, HaveLlamaServersNames) {
  const chat::TemplateTraits traits{.system_role = false, .parallel_calls = true};
  const Json caps = template_caps(traits);
  EXPECT_EQ(caps.size(), 9U);
  EXPECT_EQ(caps["supports_system_role"], false);
  EXPECT_EQ(caps["supports_parallel_tool_calls"], true);
}

}  // namespace
}  // namespace kvkeep::server::api
