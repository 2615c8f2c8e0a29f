#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/generation_fields.h"
#include "server/api/responses/items.h"
#include "server/api/responses/request.h"

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

// `fields` come after an input.
ResponsesRequest parsed(const std::string& fields, const RequestDefaults& defaults = {}) {
  auto request = parse_responses(R"({"input":"hi")" + fields + "}", defaults);
  EXPECT_TRUE(request.ok()) << fields << ": " << (request ? "" : request.error().message);
  return request ? std::move(*request) : ResponsesRequest{};
}

std::string refused(const std::string& body) {
  const auto request = parse_responses(body, {});
  EXPECT_FALSE(request.ok()) << body;
  if (request) return {};
  EXPECT_EQ(request.error().kind, ErrorKind::kInvalid) << body;
  return request.error().message;
}
std::string refused_with(const std::string& fields) { return refused(R"({"input":"hi",)" + fields + "}"); }

const chat::RenderInput& prompt_of(const ResponsesRequest& request) {
  return std::get<chat::RenderInput>(request.generation.prompt);
}

Json messages_of(const std::string& input, const std::string& fields = "") {
  auto request = parse_responses(R"({"input":)" + input + fields + "}", {});
  EXPECT_TRUE(request.ok()) << input << ": " << (request ? "" : request.error().message);
  return request ? prompt_of(*request).messages : Json();
}

TEST(ParseResponses, ATextIsAUserMessage) {
  EXPECT_EQ(messages_of(R"("hi")"), Json::parse(R"([{"role":"user","content":"hi"}])"));
  EXPECT_EQ(messages_of(R"("hi")", R"(,"instructions":"be brief")"),
            Json::parse(R"([{"role":"system","content":"be brief"},{"role":"user","content":"hi"}])"));
}

TEST(ParseResponses, RolesAndPartsBecomeMessages) {
  EXPECT_EQ(messages_of(R"([
      {"type":"message","role":"developer","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
      {"role":"system","content":"c"},{"role":"user","content":[]},
      {"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"message","role":"user","content":"y"},
      {"role":"assistant","content":[{"type":"output_text","text":"z","annotations":[]},{"type":"refusal","refusal":"no"}]},
      {"role":"system","content":"s"},{"role":"system","content":""},{"role":"user","content":"q"}])",
                        R"(,"instructions":"first")"),
            Json::parse(R"([{"role":"system","content":"first\n\na\nb\n\nc"},{"role":"user","content":"x\n\ny"},
                            {"role":"assistant","content":"z\nno"},{"role":"system","content":"s"},
                            {"role":"user","content":"q"}])"));
}

TEST(ParseResponses, ThoughtsTextAndCallsInARowAreOneMessage) {
  EXPECT_EQ(messages_of(R"([{"role":"user","content":"look"},
      {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
      {"type":"function_call","call_id":"c1","name":"ls","arguments":"{\"z\":1, \"a\":2}"},
      {"type":"function_call","call_id":"c2","name":"spawn","namespace":"agents","arguments":""},
      {"type":"function_call_output","call_id":"c1","output":"README"},
      {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"a"},
        {"type":"input_text","text":"b"}]},
      {"type":"custom_tool_call","call_id":"c3","name":"patch","input":"*** \"x\""},
      {"type":"custom_tool_call_output","call_id":"c3","output":"done"}])"),
            Json::parse(R"([{"role":"user","content":"look"},
      {"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"z\":1, \"a\":2}"}},
        {"id":"c2","type":"function","function":{"name":"agents__spawn","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"README"},
      {"role":"tool","tool_call_id":"c2","content":"a\nb"},
      {"role":"assistant","content":"","tool_calls":[
        {"id":"c3","type":"function","function":{"name":"patch","arguments":"{\"input\":\"*** \\\"x\\\"\"}"}}]},
      {"role":"tool","tool_call_id":"c3","content":"done"}])"));
}

std::string thoughts_read_from(const std::string& fields) {
  const Json messages = messages_of(R"([{"role":"user","content":"q"},{"type":"reasoning",)" + fields +
                                    R"(},{"role":"assistant","content":"a"},{"role":"user","content":"r"}])");
  return messages[1].value("reasoning_content", std::string("none"));
}

TEST(ParseResponses, ThoughtsComeBackFromWhateverTheClientKept) {
  const std::string sealed = to_line(Json(sealed_thoughts("\n I \"think\" ")));
  const std::string summary = R"("summary":[{"type":"summary_text","text":"s1"},{"type":"summary_text","text":"s2"}])";
  EXPECT_EQ(thoughts_read_from(R"("summary":[],"encrypted_content":)" + sealed), "\n I \"think\" ");
  EXPECT_EQ(thoughts_read_from(summary + R"(,"encrypted_content":)" + sealed), "\n I \"think\" ");
  EXPECT_EQ(thoughts_read_from(summary + R"(,"encrypted_content":"gAAAAA==")"), "s1\ns2");
  EXPECT_EQ(thoughts_read_from(summary + R"(,"content":[{"type":"reasoning_text","text":"full"}])"), "full");
  EXPECT_EQ(thoughts_read_from(R"("summary":[],"encrypted_content":"gAAAAA==")"), "none");
}

TEST(ParseResponses, AToolsImageIsANote) {
  EXPECT_EQ(messages_of(R"([{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},
                            {"type":"input_image","image_url":"x"}]}])")[0]["content"],
            "a\n" + left_out("input_image"));
}

TEST(ParseResponses, CallsThatOtherServersRanLeaveNoTrace) {
  EXPECT_EQ(messages_of(R"([{"role":"user","content":"q"},{"type":"web_search_call","id":"w","status":"completed"},
                            {"role":"user","content":"r"}])"),
            Json::parse(R"([{"role":"user","content":"q\n\nr"}])"));
}

TEST(ParseResponses, ALastAssistantMessageIsGoneOnWith) {
  const ResponsesRequest request =
      *parse_responses(R"({"input":[{"role":"user","content":"q"},{"role":"assistant","content":"It is"}]})", {});
  EXPECT_EQ(prompt_of(request).assistant_prefix, "It is");
  EXPECT_EQ(prompt_of(request).messages.size(), 1);
  EXPECT_THAT(refused(R"({"input":[{"role":"assistant","content":"It is"}]})"),
              HasSubstr("that the assistant answers"));
}

TEST(ParseResponses, UnreadableInputIsRefusedByName) {
  EXPECT_THAT(refused("{}"), HasSubstr("'input' is required"));
  EXPECT_THAT(refused(R"({"input":5})"), HasSubstr("'input' must be a string or an array of items, not"));
  EXPECT_THAT(refused(R"({"input":[]})"), HasSubstr("must not be empty"));
  EXPECT_THAT(refused(R"({"input":[5]})"), HasSubstr("'input[0]' must be an object"));
  EXPECT_THAT(refused(R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})"),
              HasSubstr("'input[0].content[0]' is of type 'input_image', which this server cannot read"));
  EXPECT_THAT(refused(R"({"input":[{"role":"user","content":[{"type":"input_file","file_id":"x"}]}]})"),
              HasSubstr("input_file"));
  EXPECT_THAT(refused(R"({"input":[{"type":"function_call_output","call_id":"c","output":[{"text":"x"}]}]})"),
              HasSubstr("'input[0].output[0].type' is required"));
  EXPECT_THAT(refused(R"({"input":[{"type":"item_reference","id":"msg_1"}]})"), HasSubstr("nothing is stored here"));
  EXPECT_THAT(refused(R"({"input":[{"type":"compaction","encrypted_content":"x"}]})"), HasSubstr("'compaction'"));
  EXPECT_THAT(refused(R"({"input":[{"role":"tool","content":"x"}]})"), HasSubstr("'input[0].role' must be"));
  EXPECT_THAT(refused(R"({"input":[{"type":"function_call","name":"f","arguments":"{}"}]})"), HasSubstr("call_id"));
  EXPECT_THAT(refused(R"({"input":[{"type":"function_call","call_id":"c","name":"f"}]})"), HasSubstr("arguments"));
  EXPECT_THAT(refused(R"({"input":[{"role":"user"}]})"), HasSubstr("'input[0].content' is required"));
}

TEST(ParseResponses, FieldsThatNeedAStoreAreRefusedWithAdvice) {
  EXPECT_THAT(refused_with(R"("previous_response_id":"resp_1")"),
              testing::AllOf(HasSubstr("'previous_response_id' is not supported"), HasSubstr("'input'")));
  EXPECT_THAT(refused_with(R"("conversation":{"id":"c"})"), HasSubstr("'conversation' is not supported"));
  EXPECT_THAT(refused_with(R"("background":true)"), HasSubstr("'background'"));
  EXPECT_THAT(refused_with(R"("prompt":{"id":"p"})"), HasSubstr("'prompt'"));
  EXPECT_THAT(refused_with(R"("include":["message.output_text.logprobs"])"), HasSubstr("logprobs"));
  EXPECT_THAT(refused_with(R"("truncation":"middle")"), HasSubstr("'truncation'"));
  EXPECT_THAT(refused_with(R"("top_logprobs":3)"), HasSubstr("'top_logprobs' is not supported"));
  parsed(R"(,"store":true,"background":false,"previous_response_id":null,"conversation":null,"truncation":"auto")");
  EXPECT_THAT(refused_with(R"("prompt_cache_retention":"9h")"), HasSubstr("'prompt_cache_retention'"));
  EXPECT_EQ(parsed(R"(,"prompt_cache_retention":"24h")").generation.keep_s, 86'400);
  parsed(R"(,"include":["reasoning.encrypted_content"],"client_metadata":{"a":1},"service_tier":"flex")");
}

TEST(ParseResponses, LimitsAndSampling) {
  EXPECT_EQ(parsed(R"(,"max_output_tokens":7)").generation.max_tokens, 7);
  EXPECT_EQ(parsed("", {.sampling = {}, .max_tokens = 5}).generation.max_tokens, 5);
  EXPECT_EQ(parsed(R"(,"max_output_tokens":7)", {.sampling = {}, .max_tokens = 5}).generation.max_tokens, 7);
  EXPECT_THAT(refused_with(R"("max_output_tokens":-1)"), HasSubstr("max_output_tokens"));
  const GenerationRequest request = parsed(R"(,"temperature":0.5,"top_p":0.25,"stream":true,"model":"m",
      "prompt_cache_key":"k","user":"u","seed":3,"cache_prompt":false,"stop":["x"])")
                                        .generation;
  EXPECT_FLOAT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(request.sampling.top_p, 0.25F);
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.prompt_cache_key, "k");
  EXPECT_EQ(request.user, "u");
  EXPECT_EQ(request.sampling.seed, 3);
  EXPECT_FALSE(request.cache_prompt);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
}

TEST(ParseResponses, EffortIsTheTemplates) {
  const auto kwargs = [](const std::string& fields) {
    return prompt_of(parsed(fields, {.sampling = {}, .template_kwargs = {{"x", 1}}})).template_kwargs;
  };
  EXPECT_EQ(kwargs(""), (Json{{"x", 1}}));
  EXPECT_EQ(kwargs(R"(,"reasoning":{"effort":"xhigh","summary":"auto"})"),
            (Json{{"x", 1}, {"reasoning_effort", "high"}}));
  EXPECT_EQ(kwargs(R"(,"reasoning":{"effort":"minimal"})"), (Json{{"x", 1}, {"reasoning_effort", "low"}}));
  EXPECT_EQ(kwargs(R"(,"reasoning":{"effort":null})"), (Json{{"x", 1}}));
  EXPECT_EQ(kwargs(R"(,"reasoning":{"effort":"none"})"),
            (Json{{"x", 1}, {"enable_thinking", false}, {"thinking", false}}));
  EXPECT_EQ(kwargs(R"(,"chat_template_kwargs":{"x":2})"), (Json{{"x", 2}}));
  EXPECT_THAT(refused_with(R"("reasoning":{"effort":"huge"})"), HasSubstr("'reasoning.effort' must be"));
  EXPECT_THAT(refused_with(R"("reasoning":5)"), HasSubstr("'reasoning' must be an object"));
}

TEST(ParseResponses, TextFormats) {
  EXPECT_TRUE(std::holds_alternative<AnyText>(parsed(R"(,"text":{"format":{"type":"text"}})").generation.output));
  EXPECT_TRUE(std::holds_alternative<AnyText>(parsed(R"(,"text":{"verbosity":"low"})").generation.output));
  EXPECT_TRUE(
      std::holds_alternative<AnyJsonObject>(parsed(R"(,"text":{"format":{"type":"json_object"}})").generation.output));
  const auto schema = [](const std::string& more) {
    return std::get<JsonSchemaOutput>(
        parsed(R"(,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"})" + more + "}}")
            .generation.output);
  };
  EXPECT_EQ(schema("").path, "text.format.schema");
  EXPECT_EQ(schema("").schema, (Json{{"type", "object"}}));
  EXPECT_FALSE(schema(R"(,"strict":true)").lenient);
  EXPECT_TRUE(schema(R"(,"strict":false)").lenient);
  EXPECT_THAT(refused_with(R"("text":{"format":{"type":"xml"}})"), HasSubstr("'text.format.type'"));
  EXPECT_THAT(refused_with(R"("text":{"format":{"type":"json_schema","name":"n"}})"), HasSubstr("text.format.schema"));
  EXPECT_THAT(refused_with(R"("text":"json")"), HasSubstr("'text' must be an object"));
}

TEST(ParseResponses, TheEchoHasTheDefaultsFilledIn) {
  const Json plain = parsed("").echo;
  EXPECT_EQ(plain["store"], false);
  EXPECT_EQ(plain["text"], Json::parse(R"({"format":{"type":"text"}})"));
  EXPECT_EQ(plain["reasoning"], Json::parse(R"({"effort":null,"summary":null})"));
  EXPECT_EQ(plain["tool_choice"], "auto");
  EXPECT_EQ(plain["parallel_tool_calls"], true);
  EXPECT_EQ(plain["tools"], Json::array());
  EXPECT_EQ(plain["metadata"], Json::object());
  const Json full = parsed(R"(,"store":true,"metadata":{"a":"b"},"temperature":0.1,"text":{"verbosity":"low"},
      "reasoning":{"effort":"low"},"instructions":"i","tools":[{"type":"web_search"}],"prompt_cache_key":"k")")
                        .echo;
  EXPECT_EQ(full["store"], false);
  EXPECT_EQ(full["metadata"], Json::parse(R"({"a":"b"})"));
  EXPECT_EQ(to_line(full["temperature"]), "0.1");
  EXPECT_EQ(full["text"], Json::parse(R"({"verbosity":"low","format":{"type":"text"}})"));
  EXPECT_EQ(full["reasoning"], Json::parse(R"({"effort":"low","summary":null})"));
  EXPECT_EQ(full["instructions"], "i");
  EXPECT_EQ(full["tools"], Json::parse(R"([{"type":"web_search"}])"));
  EXPECT_EQ(full["prompt_cache_key"], "k");
}

TEST(ParseInputTokens, AsksOnlyForThePrompt) {
  const auto request = parse_input_tokens(R"({"model":"m","input":"hi","max_output_tokens":"x"})", {});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->prompt.messages.size(), 1);
  EXPECT_FALSE(parse_input_tokens(R"({"input":"hi","previous_response_id":"r"})", {}).ok());
}

}  // namespace
}  // namespace kvkeep::server::api
