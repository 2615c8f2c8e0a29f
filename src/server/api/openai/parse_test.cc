#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <variant>

#include "server/api/native_completion.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

RequestDefaults defaults() {
  RequestDefaults values;
  values.vocabulary_size = 1000;
  return values;
}

// Returns a chat body with one user message and more fields.
std::string with(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) + "}";
}

GenerationRequest chat(const std::string& body) {
  auto request = parse_chat(body, defaults());
  if (!request) throw std::runtime_error(request.error().message);
  return std::move(request).value();
}

const chat::RenderInput& prompt_of(const GenerationRequest& request) {
  return std::get<chat::RenderInput>(request.prompt);
}

TEST(ParseChat, DefaultsWhereTheBodySaysNothing) {
  RequestDefaults values = defaults();
  values.sampling.temperature = 0.5F;
  values.max_tokens = 77;
  const auto request = parse_chat(with(R"("temperature":null,"stream":null)"), values);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sampling.temperature, 0.5F);
  EXPECT_EQ(request->max_tokens, 77);
  // A default does not limit requests.
  EXPECT_EQ(parse_chat(with(R"("max_tokens":78)"), values)->max_tokens, 78);
  EXPECT_EQ(parse_chat(with(R"("max_tokens":-1)"), values)->max_tokens, 77);
  EXPECT_EQ(parse_chat(with(R"("max_tokens":76)"), values)->max_tokens, 76);
  EXPECT_FALSE(request->stream);
  EXPECT_TRUE(request->cache_prompt);
  EXPECT_TRUE(prompt_of(*request).add_generation_prompt);
  EXPECT_TRUE(prompt_of(*request).tools.is_null());
}

TEST(ParseChat, ReadsEveryField) {
  const GenerationRequest request = chat(with(R"(
    "temperature":0.25,"top_k":5,"top_p":0.5,"min_p":0.125,"repeat_penalty":1.5,"presence_penalty":-0.5,
    "frequency_penalty":0.75,"repeat_last_n":-1,"seed":42,"ignore_eos":true,"logit_bias":{"15":-100,"16":2.5},
    "stop":["a","b"],"max_tokens":9,"stream":true,"stream_options":{"include_usage":true},"return_progress":true,
    "timings_per_token":true,"return_tokens":true,"cache_prompt":false,"model":"m","unknown_field":[1,2],
    "chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low","tool_choice":"auto",
    "tools":[{"type":"function","function":{"name":"f"}}])"));
  const engine::SamplingParams& sampling = request.sampling;
  EXPECT_EQ(sampling.temperature, 0.25F);
  EXPECT_EQ(sampling.top_k, 5);
  EXPECT_EQ(sampling.top_p, 0.5F);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.repeat_penalty, 1.5F);
  EXPECT_EQ(sampling.presence_penalty, -0.5F);
  EXPECT_EQ(sampling.frequency_penalty, 0.75F);
  EXPECT_EQ(sampling.repeat_last_n, -1);
  EXPECT_EQ(sampling.seed, 42u);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{15, -100.0F}, {16, 2.5F}}));
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_TRUE(request.stream && request.include_usage && request.return_progress);
  EXPECT_TRUE(request.timings_per_token && request.return_tokens);
  EXPECT_FALSE(request.cache_prompt);
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(prompt_of(request).template_kwargs.dump(),
            R"({"reasoning_effort":"low","enable_thinking":false,"thinking":false})");
  EXPECT_EQ(prompt_of(request).tools.size(), 1u);
}

TEST(ParseChat, FormsOfStopSeedBiasAndLimit) {
  EXPECT_EQ(chat(with(R"("stop":"x")")).stop, std::vector<std::string>{"x"});
  EXPECT_EQ(chat(with(R"("seed":-1)")).sampling.seed, std::nullopt);
  EXPECT_EQ(chat(with(R"("max_completion_tokens":3)")).max_tokens, 3);
  EXPECT_EQ(chat(with(R"("n_predict":4,"max_tokens":3)")).max_tokens, 4);
  EXPECT_EQ(chat(with(R"("max_tokens":3.0)")).max_tokens, 3);
  const auto bias = chat(with(R"("logit_bias":[[15,false],[16,1]])")).sampling.logit_bias;
  ASSERT_EQ(bias.size(), 2u);
  EXPECT_EQ(bias[0].second, -std::numeric_limits<float>::infinity());
}

// As many entries as there are tokens are accepted, one more is not.
TEST(ParseChat, BiasesAreAtMostOnePerTokenAndAddUp) {
  std::string pairs;
  std::string object;
  for (int i = 0; i < 1000; ++i) {
    fmt::format_to(std::back_inserter(pairs), "{}[7,0.5]", i == 0 ? "" : ",");
    fmt::format_to(std::back_inserter(object), "{}\"{}\":1", i == 0 ? "" : ",", i);
  }
  const GenerationRequest texts = chat(with(R"("logit_bias":[["15",false],[" a",1]])"));
  EXPECT_TRUE(texts.sampling.logit_bias.empty());
  EXPECT_EQ(texts.text_biases.at(1), (std::pair<std::string, float>(" a", 1.0F)));
  EXPECT_TRUE(std::isinf(texts.text_biases.at(0).second)) << "in pairs, a string is a text";
  EXPECT_EQ(chat(with(R"("logit_bias":{"word":1,"15":2})")).text_biases.size(), 1U);
  const auto summed = chat(with(fmt::format("\"logit_bias\":[{}]", pairs))).sampling.logit_bias;
  EXPECT_EQ(summed, (std::vector<std::pair<TokenId, float>>{{7, 500.0F}}));
  EXPECT_EQ(chat(with(fmt::format("\"logit_bias\":{{{}}}", object))).sampling.logit_bias.size(), 1000u);
  const auto forbidden = chat(with(R"("logit_bias":[[7,false],[7,5]])")).sampling.logit_bias;
  EXPECT_EQ(forbidden.at(0).second, -std::numeric_limits<float>::infinity());
  for (const std::string& more : {fmt::format("[{},[7,1]]", pairs), fmt::format("{{{},\"00\":1}}", object)}) {
    const auto request = parse_chat(with(fmt::format("\"logit_bias\":{}", more)), defaults());
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(request.error().message, "'logit_bias' may hold at most 1000 entries, one per token");
  }
}

TEST(ParseChat, ALastAssistantMessageIsContinued) {
  const auto request = chat(
      R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"So"},{"type":"text","text":"far"}]}],"add_generation_prompt":false})");
  EXPECT_EQ(prompt_of(request).assistant_prefix, "So\nfar");
  EXPECT_EQ(prompt_of(request).messages.size(), 1u);
  EXPECT_TRUE(prompt_of(request).add_generation_prompt);
}

TEST(ParseChat, CompletesToolCalls) {
  const auto request = chat(R"({"messages":[
    {"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f"}}]},
    {"role":"assistant","content":"x","tool_calls":[],"name":null},
    {"role":"tool","tool_call_id":"1","content":"r"}]})");
  const Json& messages = prompt_of(request).messages;
  EXPECT_EQ(messages[0]["tool_calls"][0]["type"], "function");
  EXPECT_EQ(messages[0]["tool_calls"][0]["function"]["arguments"], "{}");
  EXPECT_FALSE(messages[1].contains("tool_calls"));
  EXPECT_FALSE(messages[1].contains("name"));
}

struct BadCase {
  std::string body;
  std::string message;
};

TEST(ParseChat, ErrorsNameTheMistake) {
  const std::vector<BadCase> cases = {
      {"", "the request body is empty; send a JSON object"},
      {"{bad", "the request body is not valid JSON: parse error at line 1, column 2"},
      {"[1]", "the request body must be a JSON object, not an array"},
      {"7", "the request body must be a JSON object, not a number"},
      {R"({"temperature":1e999})", "not valid JSON"},
      {"{\"model\":\"\xFF\"}", "not valid JSON"},
      {"{}", "'messages' is required"},
      {R"({"messages":null})", "'messages' is required"},
      {R"({"messages":"x"})", "'messages' must be an array, not a string"},
      {R"({"messages":[]})", "'messages' must not be empty"},
      {R"({"messages":["x"]})", "'messages[0]' must be an object, not a string"},
      {R"({"messages":[{"content":"x"}]})", "'messages[0].role' is required"},
      {R"({"messages":[{"role":5,"content":"x"}]})", "'messages[0].role' must be a string, not a number"},
      {R"({"messages":[{"role":"king","content":"x"}]})",
       "'messages[0].role' must be system, developer, user, assistant or tool, not 'king'"},
      {R"({"messages":[{"role":"user"}]})", "'messages[0].content' is required"},
      {R"({"messages":[{"role":"user","content":null}]})", "'messages[0].content' is required"},
      {R"({"messages":[{"role":"assistant"}]})", "'messages[0]' must have 'content' or 'tool_calls'"},
      {R"({"messages":[{"role":"user","content":5}]})",
       "'messages[0].content' must be a string or an array of parts, not a number"},
      {R"({"messages":[{"role":"user","content":["x"]}]})", "'messages[0].content[0]' must be an object, not a string"},
      {R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})", "'messages[0].content[0].type' is required"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "'messages[0].content[0].text' is required"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":1}]}]})",
       "'messages[0].content[0].text' must be a string, not a number"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       "'messages[0].content[0]' is of type 'image_url', which this server cannot read: image input is not supported, "
       "send text"},
      {R"({"messages":[{"role":"user","content":[{"type":"input_audio"}]}]})",
       "which this server cannot read: send text"},
      {R"({"messages":[{"role":"user","content":"x","name":5}]})", "'messages[0].name' must be a string, not a number"},
      {R"({"messages":[{"role":"assistant","tool_calls":{}}]})", "'messages[0]' must have 'content' or 'tool_calls'"},
      {R"({"messages":[{"role":"assistant","tool_calls":"x"}]})",
       "'messages[0].tool_calls' must be an array, not a string"},
      {R"({"messages":[{"role":"assistant","tool_calls":[5]}]})",
       "'messages[0].tool_calls[0]' must be an object, not a number"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"type":"x"}]}]})",
       "'messages[0].tool_calls[0].type' must be 'function'"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})",
       "'messages[0].tool_calls[0].function' must be an object"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]})",
       "'messages[0].tool_calls[0].function.name' must be a string"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[1]}}]}]})",
       "arguments' must be a string or an object, not an array"},
      {R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]})",
       "must not end with two messages by the assistant"},
      {with(R"("temperature":"hot")"), "'temperature' must be a number, not a string"},
      {with(R"("temperature":1e9)"), "'temperature' must be between -100 and 100"},
      {with(R"("top_k":1.5)"), "'top_k' must be a whole number, not a number with a fraction"},
      {with(R"("top_p":1.5)"), "'top_p' must be between 0 and 1, not 1.5"},
      {with(R"("min_p":-1)"), "'min_p' must be between 0 and 1"},
      {with(R"("repeat_penalty":0)"), "'repeat_penalty' must be between 0.01 and 100"},
      {with(R"("repeat_last_n":-2)"), "'repeat_last_n' must be between -1 and"},
      {with(R"("seed":"x")"), "'seed' must be a whole number, not a string"},
      {with(R"("ignore_eos":1)"), "'ignore_eos' must be a boolean, not a number"},
      {with(R"("stop":")" + std::string(65'537, 'x') + "\""), "'stop' may have 65536 bytes, of all strings together"},
      {with(R"("stop":5)"), "'stop' must be a string or an array of strings, not a number"},
      {with(R"("stop":["a",5])"), "'stop' must be a string or an array of strings, not a number"},
      {with(R"("max_tokens":-2)"), "'max_tokens' must be between -1 and 2147483647, not -2"},
      {with(R"("max_tokens":99999999999999999999)"), "'max_tokens' must be between"},
      {with(R"("stream":"yes")"), "'stream' must be a boolean, not a string"},
      {with(R"("stream_options":5)"), "'stream_options' must be an object, not a number"},
      {with(R"("model":5)"), "'model' must be a string, not a number"},
      {with(R"("logit_bias":5)"), "'logit_bias' must be an object or an array, not a number"},
      {with(R"("logit_bias":{"":1})"), "a text in 'logit_bias' must have 1 to 256 bytes"},
      {with(R"("logit_bias":{"word":true})"), "'logit_bias' must be numbers or false"},
      {with(R"("logit_bias":[[1.5,1]])"), "'logit_bias' must be keyed by token ids or texts"},
      {with(R"("logit_bias":{"1000":1})"), "'logit_bias': 1000 is not a token id (0 to 999)"},
      {with(R"("logit_bias":[[1,2,3]])"), "'logit_bias' must be made of [token, bias] pairs"},
      {with(R"("tools":{})"), "'tools' must be an array, not an object"},
      {with(R"("tools":[{"type":"web_search"}])"), "'tools[0].type' must be 'function'"},
      {with(R"("tools":[{"type":"function"}])"), "'tools[0].function' must be an object"},
      {with(R"("tools":[{"type":"function","function":{}}])"), "'tools[0].function.name' must be a string"},
      {with(R"("tool_choice":"required")"), "there are no 'tools'"},
      {with(R"("tool_choice":{"function":{"name":"g"}},"tools":[{"type":"function","function":{"name":"f"}}])"),
       "names the tool 'g'"},
      {with(R"("tool_choice":{"type":"function"})"), "'tool_choice.function.name' must be a string"},
      {with(R"("tool_choice":"maybe")"), "'tool_choice' must be 'auto', 'none', 'required'"},
      {with(R"("chat_template_kwargs":[])"), "'chat_template_kwargs' must be an object, not an array"},
  };
  for (const BadCase& bad : cases) {
    const auto request = parse_chat(bad.body, defaults());
    ASSERT_FALSE(request.ok()) << bad.body;
    EXPECT_EQ(request.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(request.error().message, HasSubstr(bad.message)) << bad.body;
    EXPECT_EQ(request.error().message.find('\n'), std::string::npos);
  }
}

TEST(ParseChat, ScoresAreAskedForByThreeFields) {
  const auto asked = [](const std::string& fields) -> std::string {
    const auto request = parse_chat(R"({"messages":[{"role":"user","content":"x"}])" + fields + "}", defaults());
    if (!request) return request.error().message;
    return request->scored_tokens ? std::to_string(*request->scored_tokens) : "none";
  };
  EXPECT_EQ(asked(""), "none");
  EXPECT_EQ(asked(R"(,"logprobs":false,"top_logprobs":0,"n_probs":0)"), "none");
  EXPECT_EQ(asked(R"(,"logprobs":true)"), "0");
  EXPECT_EQ(asked(R"(,"logprobs":true,"top_logprobs":5)"), "5");
  EXPECT_EQ(asked(R"(,"n_probs":3)"), "3");
  EXPECT_EQ(asked(R"(,"top_logprobs":5)"), "'top_logprobs' needs 'logprobs': true");
  EXPECT_NE(asked(R"(,"logprobs":true,"top_logprobs":257)").find("'top_logprobs'"), std::string::npos);
}

TEST(ParseCompletion, ScoresAreAskedForByANumber) {
  const auto asked = [](const std::string& fields) {
    const auto request = parse_completion(R"({"prompt":"x")" + fields + "}", defaults());
    EXPECT_TRUE(request) << fields;
    return request && request->scored_tokens ? static_cast<int>(*request->scored_tokens) : -1;
  };
  EXPECT_EQ(asked(""), -1);
  EXPECT_EQ(asked(R"(,"logprobs":null)"), -1);
  EXPECT_EQ(asked(R"(,"logprobs":false,"n_probs":0)"), -1);
  EXPECT_EQ(asked(R"(,"logprobs":0)"), 0) << "the sampled ones, without others";
  EXPECT_EQ(asked(R"(,"logprobs":true)"), 0);
  EXPECT_EQ(asked(R"(,"logprobs":4)"), 4);
  EXPECT_EQ(asked(R"(,"n_probs":10)"), 10);
}

struct RefusedCase {
  std::string field, asks, neutral;
};

TEST(ParseChat, UnsupportedFeaturesAreRefusedAndTheirNeutralValuesAreNot) {
  const std::vector<RefusedCase> cases = {
      {"best_of", "3", "1"},
      {"echo", "true", "false"},
      {"suffix", "\"x\"", "\"\""},
      {"context_shift", "true", "false"},
      {"n_cache_reuse", "256", "0"},
      {"grammar_lazy", "true", "false"},
      {"modalities", "[\"text\",\"audio\"]", "[\"text\"]"},
      {"audio", "{\"voice\":\"x\"}", "null"},
      {"functions", "[{}]", "[]"},
      {"response_fields", "[\"content\"]", "[]"},
  };
  for (const RefusedCase& refused : cases) {
    const auto asked = parse_chat(with("\"" + refused.field + "\":" + refused.asks), defaults());
    ASSERT_FALSE(asked.ok()) << refused.field;
    EXPECT_EQ(asked.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(asked.error().message, HasSubstr("'" + refused.field + "' is not supported: "));
    EXPECT_TRUE(parse_chat(with("\"" + refused.field + "\":" + refused.neutral), defaults()).ok()) << refused.field;
    EXPECT_TRUE(parse_chat(with("\"" + refused.field + "\":null"), defaults()).ok()) << refused.field;
  }
}

TEST(ParseBody, Limits) {
  const auto nested = [](int depth) { return with("\"x\":" + std::string(depth, '[') + std::string(depth, ']')); };
  EXPECT_TRUE(parse_chat(nested(kMaxDepth - 1), defaults()).ok());
  for (const int depth : {kMaxDepth, 1'000'000}) {
    const auto request = parse_chat(nested(depth), defaults());
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().message, "the request body is nested too deeply");
  }
  std::string keys = "{";
  for (std::size_t i = 0; i <= kMaxKeysPerObject; ++i) keys += "\"k" + std::to_string(i) + "\":0,";
  keys.back() = '}';
  EXPECT_THAT(parse_chat(keys, defaults()).error().message, HasSubstr("too many keys"));
}

TEST(ParseCompletion, FormsOfThePrompt) {
  const auto prompt = [](const std::string& value) {
    return parse_completion("{\"prompt\":" + value + "}", defaults()).value().prompt;
  };
  EXPECT_EQ(std::get<std::string>(prompt("\"hi\"")), "hi");
  EXPECT_EQ(std::get<std::string>(prompt("[\"hi\"]")), "hi");
  EXPECT_EQ(std::get<std::string>(prompt(R"({"prompt_string":"hi","multimodal_data":[]})")), "hi");
  EXPECT_EQ(std::get<std::string>(prompt(R"([{"prompt_string":"hi"}])")), "hi");
  EXPECT_EQ(std::get<std::vector<TokenId>>(prompt("[1,2]")), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(std::get<std::vector<TokenId>>(prompt("[[7]]")), (std::vector<TokenId>{7}));
  EXPECT_EQ(std::get<std::vector<TokenId>>(prompt("[5]")), (std::vector<TokenId>{5}));
  const std::vector<TokenId> two = {1, 2};
  EXPECT_EQ(std::get<MixedPrompt>(prompt(R"([1,2,"b",3])")), (MixedPrompt{two, "b", std::vector<TokenId>{3}}));
  EXPECT_EQ(std::get<MixedPrompt>(prompt(R"([["a",1,2]])")), (MixedPrompt{"a", two}));
  EXPECT_EQ(std::get<std::string>(prompt(R"({"prompt_string":"hi","multimodal_data":[]})")), "hi");
}

TEST(ParseCompletion, AListOfFilesCountsThoughItIsEmpty) {
  RequestDefaults sees = defaults();
  sees.media = MediaRules{.key = {}, .pictures = true, .marker = "<m>"};
  const auto parsed = [&](const std::string& text) {
    return parse_completion("{\"prompt\":{\"prompt_string\":\"" + text + "\",\"multimodal_data\":[]}}", sees);
  };
  const auto without = parsed("a<m>");
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.error().message, HasSubstr("fewer files than the prompt has markers"));
  EXPECT_EQ(std::get<std::string>(parsed("a").value().prompt), "a");
}

TEST(ParseCompletion, SeveralPrompts) {
  const auto prompts = [](const std::string& value) {
    const GenerationRequest request = parse_completion("{\"prompt\":" + value + "}", defaults()).value();
    std::vector<std::size_t> kinds{request.prompt.index()};
    for (const PromptSource& prompt : request.more_prompts) kinds.push_back(prompt.index());
    return kinds;
  };
  const std::size_t text = PromptSource(std::string()).index();
  const std::size_t ids = PromptSource(std::vector<TokenId>()).index();
  const std::size_t mixed = PromptSource(MixedPrompt()).index();
  EXPECT_EQ(prompts(R"(["a","b"])"), (std::vector{text, text}));
  EXPECT_EQ(prompts("[[1,2],[3]]"), (std::vector{ids, ids}));
  EXPECT_EQ(prompts(R"(["a",[1,2],["a",3]])"), (std::vector{text, ids, mixed}));
}

TEST(ParseCompletion, SeveralReplies) {
  const auto replies = [](const std::string& body) { return parse_completion(body, defaults()).value().choices(); };
  EXPECT_EQ(replies(R"({"prompt":"a","n":null})"), 1U);
  EXPECT_EQ(replies(R"({"prompt":"a","n":5})"), 5U);
  EXPECT_EQ(replies(R"({"prompt":["a","b"],"n":2,"n_cmpl":3})"), 6U);
}

TEST(ParseCompletion, OnlyTheNativeShapeHasResponseFields) {
  const std::string body = R"({"prompt":"a","response_fields":["content","timings/prompt_n"]})";
  EXPECT_FALSE(parse_completion(body, defaults()).ok());
  EXPECT_EQ(parse_completion(body, defaults(), CompletionShape::kNative).value().response_fields,
            (std::vector<std::string>{"content", "timings/prompt_n"}));
  EXPECT_FALSE(parse_completion(R"({"prompt":"a","echo":true})", defaults(), CompletionShape::kNative).ok());
}

TEST(ParseCompletion, ASuffixMakesAGap) {
  const GenerationRequest request = parse_completion(R"({"prompt":["a","b"],"suffix":"s"})", defaults()).value();
  EXPECT_EQ(std::get<FillIn>(request.prompt).prefix, "a");
  EXPECT_EQ(std::get<FillIn>(request.more_prompts.at(0)).prefix, "b");
  EXPECT_EQ(std::get<FillIn>(request.prompt).suffix, "s");
}

TEST(ParseInfill, ReadsTheTexts) {
  const GenerationRequest request =
      parse_infill(
          R"({"input_prefix":"p","input_suffix":"s","prompt":"t","input_extra":[{"text":"x","filename":"f"},)"
          R"({"text":"y"}],"response_fields":["content"],"t_max_predict_ms":500,"t_max_total_ms":900,"n_indent":4})",
          defaults())
          .value();
  const auto& fill = std::get<FillIn>(request.prompt);
  EXPECT_EQ(fill.prefix + fill.typed + fill.suffix, "pts");
  ASSERT_EQ(fill.files.size(), 2U);
  EXPECT_EQ(fill.files[0].name, "f");
  EXPECT_EQ(fill.files[1].name, "tmp");
  EXPECT_EQ(request.lines.longest_ms, 500);
  EXPECT_EQ(request.longest_total_ms, 900);
  EXPECT_EQ(request.lines.least_indent, 4U);
  EXPECT_EQ(request.response_fields.size(), 1U);
}

TEST(ParseCompletion, ErrorsNameTheMistake) {
  const std::vector<BadCase> cases = {
      {"{}", "'prompt' is required"},
      {R"({"prompt":5})",
       "'prompt' must be a string, an array of token ids and strings, or an array of prompts, not a"},
      {R"({"prompt":{}})", "'prompt.prompt_string' must be a text"},
      {R"({"prompt":{"prompt_string":""}})", "'prompt.prompt_string' must be a text"},
      {R"({"prompt":{"prompt_string":"a","multimodal_data":["x"]}})", "'prompt.multimodal_data'"},
      {R"({"prompt":""})", "'prompt' must not be empty"},
      {R"({"prompt":[]})", "'prompt' must not be empty"},
      {R"({"prompt":["a",""]})", "'prompt' must not be empty"},
      {R"({"prompt":["a",[]]})", "'prompt' must not be empty"},
      {R"({"prompt":["a",true]})", "'prompt' must be a string, an array of token ids and strings"},
      {R"({"prompt":["a",[["b"]]]})", "'prompt' must be a string, an array of token ids and strings"},
      {R"({"prompt":[1000,"a"]})", "'prompt': 1000 is not a token id (0 to 999)"},
      {R"({"prompt":"x","n":0})", "'n'"},
      {R"({"prompt":"x","n":129})", "'n'"},
      {R"({"prompt":["a","b","c","d","e","f","g","h","i"],"n":128})", "at most 1024 replies"},
      {R"({"prompt":[1],"suffix":"x"})", "'suffix' needs a 'prompt' that is a string"},
      {R"({"prompt":"x","echo":true,"logprobs":21})", "'logprobs' may be at most 20 with 'echo'"},
      {R"({"prompt":[1.5,2]})", "'prompt' must be made of token ids, not a number with a fraction"},
      {R"({"prompt":[1,1000]})", "'prompt': 1000 is not a token id (0 to 999)"},
      {R"({"prompt":[-1]})", "'prompt': -1 is not a token id"},
      {R"({"prompt":[18446744073709551615]})", "'prompt': 18446744073709551615 is not a token id"},
      {R"({"prompt":"x","logprobs":-1})", "'logprobs'"},
      {R"({"prompt":"x","logprobs":257})", "'logprobs'"},
      {R"({"prompt":"x","logprobs":"x"})", "'logprobs'"},
      {R"({"prompt":"x","n_probs":-1})", "'n_probs'"},
  };
  for (const BadCase& bad : cases) {
    const auto request = parse_completion(bad.body, defaults());
    ASSERT_FALSE(request.ok()) << bad.body;
    EXPECT_THAT(request.error().message, HasSubstr(bad.message)) << bad.body;
  }
}

// Any JSON, with the names that parsers look for.
Json random_json(std::mt19937& random, int depth) {
  static const std::vector<std::string> field_names = {"messages",
                                                       "role",
                                                       "content",
                                                       "type",
                                                       "text",
                                                       "tool_calls",
                                                       "function",
                                                       "name",
                                                       "arguments",
                                                       "tools",
                                                       "stop",
                                                       "n",
                                                       "temperature",
                                                       "seed",
                                                       "logit_bias",
                                                       "stream_options",
                                                       "prompt",
                                                       "max_tokens",
                                                       "tool_choice",
                                                       "response_format",
                                                       "modalities",
                                                       "chat_template_kwargs",
                                                       "user",
                                                       "assistant",
                                                       "tool",
                                                       "auto",
                                                       "",
                                                       "5",
                                                       "image_url",
                                                       "reasoning_effort"};
  const auto name = [&] { return field_names[random() % field_names.size()]; };
  switch (random() % (depth > 0 ? 9 : 6)) {
    case 0: return nullptr;
    case 1: return random() % 2 == 0;
    case 2: return static_cast<std::int64_t>(random()) - 2'000'000'000;
    case 3: return static_cast<double>(random()) / 1e5 - 1e4;
    case 4: return name();
    case 5: return std::numeric_limits<std::uint64_t>::max() - random() % 3;
    case 6: {
      Json array = Json::array();
      for (std::size_t count = random() % 4; count > 0; --count) array.push_back(random_json(random, depth - 1));
      return array;
    }
    default: {
      Json object = Json::object();
      for (std::size_t count = random() % 6; count > 0; --count) object[name()] = random_json(random, depth - 1);
      return object;
    }
  }
}

// Replaces, drops or adds a value somewhere in a valid body.
void mutate(std::mt19937& random, Json& value) {
  if (value.is_structured() && !value.empty() && random() % 4 != 0) {
    auto place = value.begin();
    std::advance(place, random() % value.size());
    return mutate(random, *place);
  }
  value = random_json(random, 2);
}

TEST(ParseFuzz, NoBodyCrashesThrowsOrFailsWithoutAReason) {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const std::uint32_t seed = given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : 7;
  std::cout << "KVKEEP_TEST_SEED=" << seed << "\n";
  std::mt19937 random(seed);
  const Json valid = Json::parse(R"({"messages":[{"role":"user","content":[{"type":"text","text":"x"}]},
    {"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}],
    "tools":[{"type":"function","function":{"name":"f"}}],"prompt":[1,2],"stop":["a"],"logit_bias":{"1":2},"n":1,
    "stream_options":{"include_usage":true},"temperature":1,"max_tokens":5,"response_format":{"type":"text"}})");
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    Json body = round % 4 == 0 ? random_json(random, 4) : valid;
    if (round % 4 != 0) mutate(random, body);
    std::string bytes = body.dump();
    if (round % 8 == 7) bytes[random() % bytes.size()] = static_cast<char>(random());
    for (const bool is_chat : {true, false}) {
      const auto request = is_chat ? parse_chat(bytes, defaults()) : parse_completion(bytes, defaults());
      accepted += request.ok() ? 1 : 0;
      ASSERT_TRUE(request.ok() || !request.error().message.empty());
    }
  }
  EXPECT_GT(accepted, 1000) << "the mutations must leave some bodies valid";
}

}  // namespace

// How messages change before a template sees them.

namespace {

Result<GenerationRequest> with_result(const std::string& content) {
  return parse_chat(
      R"({"messages":[{"role":"user","content":"look"},{"role":"tool","tool_call_id":"1","content":)" + content + "}]}",
      {});
}

TEST(ChatMessages, AToolsPictureDoesNotEndTheConversation) {
  const auto request = with_result(R"([{"type":"text","text":"a.png"},{"type":"image_url","image_url":{"url":"x"}}])");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<chat::RenderInput>(request->prompt).messages[1]["content"],
            Json::parse(R"([{"type":"text","text":"a.png"},
              {"type":"text","text":"[image_url left out: this model does not read it]"}])"));
}

TEST(ChatMessages, APartOfAResultThatHasNoTypeIsRefused) {
  for (const char* content : {"5", "[5]", R"([{"type":5}])", R"([{"text":"x"}])", R"([{"type":"text"}])"}) {
    EXPECT_FALSE(with_result(content).ok()) << content;
  }
}

TEST(ChatMessages, OnlyTheBeginningOfAReplyIsNoConversation) {
  const auto request = parse_chat(R"({"messages":[{"role":"assistant","content":"Well,"}]})", {});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().message, "'messages' must have one that the assistant answers");
}

TEST(CompletionPrompts, AnObjectIsAText) {
  for (const char* prompt : {R"({"prompt_string":"hi","multimodal_data":["iVBOR"]})", R"({"prompt_string":5})", "{}",
                             R"({"prompt_string":""})", R"({"prompt_string":"hi","image":1})", R"(["a",{}])"}) {
    EXPECT_FALSE(parse_completion(std::string("{\"prompt\":") + prompt + "}", {}).ok()) << prompt;
  }
}

TEST(ChatControl, NamesAReplyAndTheOnlyAction) {
  EXPECT_EQ(parse_chat_control(R"({"id":"chatcmpl-1","action":"reasoning_end"})").value(), "chatcmpl-1");
  for (const char* body : {"{}", R"({"id":"x"})", R"({"action":"reasoning_end"})", R"({"id":"x","action":"stop"})",
                           R"({"id":5,"action":"reasoning_end"})", "[]", "x"}) {
    EXPECT_FALSE(parse_chat_control(body).ok()) << body;
  }
}

TEST(ChatControl, SaysWhetherThereIsSuchAReply) {
  EXPECT_EQ(Json::parse(chat_control_reply(true)), Json({{"success", true}}));
  EXPECT_EQ(Json::parse(chat_control_reply(false))["success"], false);
}

TEST(ChatThinking, HasLlamaServersNames) {
  const auto request = parse_chat(
      R"({"messages":[{"role":"user","content":"hi"}],"reasoning_budget_tokens":7,"reasoning_control":true})", {});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sampling.thinking.most_tokens, 7U);
  EXPECT_TRUE(request->may_end_thought);
}

}  // namespace

}  // namespace kvkeep::server::api
