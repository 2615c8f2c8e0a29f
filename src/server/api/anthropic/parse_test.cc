#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "server/api/anthropic/request.h"

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

const std::string kUser = R"({"role":"user","content":"hi"})";

std::string messages_with(const std::string& more, const std::string& messages = kUser) {
  return R"({"model":"m","max_tokens":9,"messages":[)" + messages + "]" + (more.empty() ? "" : "," + more) + "}";
}

MessagesRequest read_messages(const std::string& body) {
  auto request = parse_messages(body, {});
  if (!request) throw std::runtime_error(request.error().message);
  return std::move(request).value();
}
const chat::RenderInput& prompt_of(const MessagesRequest& request) {
  return std::get<chat::RenderInput>(request.generation.prompt);
}
Json kwargs_of(const std::string& more) { return prompt_of(read_messages(messages_with(more))).template_kwargs; }

std::string messages_error(const std::string& body) {
  const auto request = parse_messages(body, {});
  if (request) return "no error";
  EXPECT_EQ(request.error().kind, ErrorKind::kInvalid);
  return request.error().message;
}

TEST(ParseMessages, ReadsEveryField) {
  const MessagesRequest request = read_messages(messages_with(R"(
    "temperature":0.25,"top_k":5,"top_p":0.5,"stop_sequences":["a","b"],"stream":true,"service_tier":"auto",
    "container":null,"betas":["x"],"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
    "seed":42,"min_p":0.125,"cache_prompt":false,"unknown_field":[1,2],"inference_geo":"eu")"));
  const GenerationRequest& generation = request.generation;
  EXPECT_EQ(generation.sampling.temperature, 0.25F);
  EXPECT_EQ(generation.sampling.top_k, 5);
  EXPECT_EQ(generation.sampling.top_p, 0.5F);
  EXPECT_EQ(generation.sampling.min_p, 0.125F);
  EXPECT_EQ(generation.sampling.seed, 42U);
  EXPECT_EQ(generation.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(generation.max_tokens, 9);
  EXPECT_EQ(generation.model, "m");
  EXPECT_TRUE(generation.stream);
  EXPECT_FALSE(generation.cache_prompt);
  EXPECT_EQ(generation.user, "");
  EXPECT_EQ(generation.tools.choice, ToolChoice::kAuto);
  EXPECT_TRUE(generation.tools.parallel);
  EXPECT_EQ(prompt_of(request).messages, Json::parse("[" + kUser + "]"));
  EXPECT_TRUE(prompt_of(request).tools.is_null());
  EXPECT_TRUE(prompt_of(request).template_kwargs.is_null());
  EXPECT_TRUE(prompt_of(request).add_generation_prompt);
}

TEST(ParseMessages, TheServersDefaultsHold) {
  RequestDefaults defaults;
  defaults.sampling.temperature = 0.5F;
  defaults.max_tokens = 7;
  const auto request = parse_messages(messages_with(R"("temperature":null)"), defaults);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->generation.sampling.temperature, 0.5F);
  EXPECT_EQ(request->generation.max_tokens, 9);
}

TEST(ParseMessages, MaxTokensIsRequired) {
  EXPECT_EQ(messages_error(R"({"messages":[)" + kUser + "]}"), "'max_tokens' is required");
  for (const char* wrong : {"-1", "1.5", "\"9\"", "1e30", "true"}) {
    EXPECT_THAT(messages_error(fmt::format(R"({{"max_tokens":{},"messages":[{}]}})", wrong, kUser)),
                HasSubstr("max_tokens"));
  }
  EXPECT_EQ(read_messages(R"({"max_tokens":0,"messages":[)" + kUser + "]}").generation.max_tokens, 0);
}

TEST(ParseMessages, Thinking) {
  const Json on = {{"enable_thinking", true}, {"thinking", true}};
  const Json off = {{"enable_thinking", false}, {"thinking", false}};
  EXPECT_EQ(kwargs_of(R"("thinking":{"type":"enabled","budget_tokens":31999,"display":"omitted"})"), on);
  EXPECT_EQ(kwargs_of(R"("thinking":{"type":"adaptive"})"), on);
  EXPECT_EQ(kwargs_of(R"("thinking":{"type":"disabled"})"), off);
  EXPECT_TRUE(kwargs_of(R"("thinking":null)").is_null());
  EXPECT_EQ(kwargs_of(R"("thinking":{"type":"adaptive"},"chat_template_kwargs":{"enable_thinking":false})"),
            (Json{{"enable_thinking", false}, {"thinking", false}}));
  for (const char* wrong : {"5", "{}", R"({"type":"on"})", R"({"type":5})"}) {
    EXPECT_THAT(messages_error(messages_with(fmt::format(R"("thinking":{})", wrong))), HasSubstr("thinking")) << wrong;
  }
  EXPECT_THAT(messages_error(messages_with(R"("thinking":{"type":"enabled","budget_tokens":-1})")),
              HasSubstr("budget_tokens"));
}

TEST(ParseMessages, TheServersWordsToTheTemplateAreReplaced) {
  RequestDefaults defaults;
  defaults.template_kwargs = {{"enable_thinking", false}, {"reasoning_effort", "low"}, {"x", 1}};
  EXPECT_EQ(prompt_of(*parse_messages(messages_with(""), defaults)).template_kwargs, defaults.template_kwargs);
  const auto said = parse_messages(
      messages_with(R"("thinking":{"type":"enabled"},"output_config":{"effort":"max"},"chat_template_kwargs":{"x":2})"),
      defaults);
  EXPECT_EQ(prompt_of(*said).template_kwargs,
            (Json{{"enable_thinking", true}, {"reasoning_effort", "high"}, {"x", 2}, {"thinking", true}}));
  EXPECT_EQ(parse_count_tokens(messages_with(""), defaults)->prompt.template_kwargs, defaults.template_kwargs);
}

TEST(ParseMessages, ThoughtsAreApartOrInTheText) {
  using chat::tools::ReasoningFormat;
  RequestDefaults defaults;
  for (const auto& [servers, ours] : std::vector<std::pair<ReasoningFormat, ReasoningFormat>>{
           {ReasoningFormat::kDeepSeek, ReasoningFormat::kDeepSeek},
           {ReasoningFormat::kDeepSeekLegacy, ReasoningFormat::kDeepSeek},
           {ReasoningFormat::kNone, ReasoningFormat::kNone}}) {
    defaults.reasoning_format = servers;
    EXPECT_EQ(parse_messages(messages_with(""), defaults)->generation.reasoning_format, ours);
  }
}

TEST(ParseMessages, Effort) {
  for (const auto& [effort, word] : std::map<std::string, std::string>{
           {"low", "low"}, {"medium", "medium"}, {"high", "high"}, {"xhigh", "high"}, {"max", "high"}}) {
    EXPECT_EQ(kwargs_of(fmt::format(R"("output_config":{{"effort":"{}"}})", effort)),
              (Json{{"reasoning_effort", word}}));
  }
  EXPECT_TRUE(kwargs_of(R"("output_config":{})").is_null());
  EXPECT_THAT(messages_error(messages_with(R"("output_config":{"effort":"huge"})")), HasSubstr("output_config.effort"));
  EXPECT_THAT(messages_error(messages_with(R"("output_config":5)")), HasSubstr("output_config"));
  EXPECT_THAT(messages_error(messages_with(R"("chat_template_kwargs":5)")), HasSubstr("chat_template_kwargs"));
}

TEST(ParseMessages, CallsMayBeForbiddenAskedForOrNamed) {
  const std::string tools = R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":)";
  EXPECT_EQ(read_messages(messages_with(tools + R"({"type":"none"})")).generation.tools.choice, ToolChoice::kNone);
  EXPECT_EQ(read_messages(messages_with(tools + R"({"type":"any"})")).generation.tools.choice, ToolChoice::kRequired);
  const auto named = read_messages(messages_with(tools + R"({"type":"tool","name":"f"})"));
  EXPECT_EQ(named.generation.tools.choice, ToolChoice::kNamed);
  EXPECT_EQ(named.generation.tools.name, "f");
}

TEST(ParseMessages, AFormatIsASchema) {
  const auto request =
      read_messages(messages_with(R"("output_config":{"format":{"type":"json_schema","schema":{"type":"null"}}})"));
  const auto& output = std::get<JsonSchemaOutput>(request.generation.output);
  EXPECT_EQ(output.schema.dump(), R"({"type":"null"})");
  EXPECT_EQ(output.path, "output_config.format.schema");
  for (const char* format :
       {"5", R"({"type":"yaml"})", R"({"type":"json_schema"})", R"({"type":"json_schema","schema":[]})"}) {
    EXPECT_THAT(messages_error(messages_with(std::string(R"("output_config":{"format":)") + format + "}")),
                HasSubstr("output_config.format"));
  }
}

TEST(ParseMessages, TheSessionIsAHint) {
  const auto user = [](const std::string& metadata) {
    return read_messages(messages_with(R"("metadata":)" + metadata)).generation.user;
  };
  EXPECT_EQ(user(R"({"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"s-1\"}"})"), "s-1");
  EXPECT_EQ(user(R"({"user_id":"somebody"})"), "somebody");
  EXPECT_EQ(user(R"({"user_id":"{not json"})"), "{not json");
  EXPECT_EQ(user(R"({"user_id":"{\"session_id\":5}"})"), R"({"session_id":5})");
  for (const char* none : {"null", "5", "{}", R"({"user_id":null})", R"({"user_id":7})"}) EXPECT_EQ(user(none), "");
  EXPECT_EQ(user(fmt::format(R"({{"user_id":"{}"}})", std::string(5000, 'x'))).size(), 512U);
}

TEST(ParseMessages, StopSequences) {
  EXPECT_TRUE(read_messages(messages_with(R"("stop_sequences":null)")).generation.stop.empty());
  EXPECT_THAT(messages_error(messages_with(R"("stop_sequences":"x")")), HasSubstr("stop_sequences"));
  EXPECT_THAT(messages_error(messages_with(R"("stop_sequences":[5])")), HasSubstr("stop_sequences"));
  Json many = Json::array();
  for (int i = 0; i < 257; ++i) many.push_back("x");
  EXPECT_THAT(messages_error(messages_with(R"("stop_sequences":)" + many.dump())), HasSubstr("256"));
}

TEST(ParseMessages, ALastAssistantMessageIsGoneOnFrom) {
  const MessagesRequest request =
      read_messages(messages_with("", kUser + R"(,{"role":"assistant","content":[{"type":"text","text":"a"},
    {"type":"text","text":"b "}]})"));
  EXPECT_EQ(prompt_of(request).assistant_prefix, "a\nb ");
  EXPECT_EQ(prompt_of(request).messages, Json::parse("[" + kUser + "]"));
  const std::string call = R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]})";
  EXPECT_EQ(prompt_of(read_messages(messages_with("", kUser + "," + call))).messages.size(), 2U);
}

TEST(ParseCountTokens, NeedsNoMaxTokens) {
  const auto request = parse_count_tokens(R"({"model":"m","system":"s","messages":[)" + kUser + R"(],
    "tools":[{"name":"f","input_schema":{"type":"object"}}],"thinking":{"type":"disabled"}})",
                                          {});
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->prompt.messages.size(), 2U);
  EXPECT_EQ(request->prompt.tools.size(), 1U);
  EXPECT_EQ(request->prompt.template_kwargs["enable_thinking"], false);
  for (const char* wrong :
       {"", "[]", "{}", R"({"messages":[]})", R"({"model":5,"messages":[{"role":"user","content":""}]})",
        R"({"messages":[{"role":"user","content":"","x":1}],"tools":5})"}) {
    EXPECT_FALSE(parse_count_tokens(wrong, {}).ok()) << wrong;
  }
}

}  // namespace
}  // namespace kvkeep::server::api
