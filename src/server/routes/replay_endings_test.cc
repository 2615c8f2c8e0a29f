// Turns of templates that open or end them in unusual ways: gpt-oss closes answers in history with a token that ends no
// generation, and with Mistral's template an answer to a tool's result opens with the result's end.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "chat/fake_vocabulary_test.h"
#include "chat/tools/tool_format.h"
#include "server/routes/exact_replay.h"
#include "server/routes/prompt.h"
#include "server/routes/replay_service_test.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::server {
namespace {

using nlohmann::ordered_json;

std::vector<SpecialToken> controls(std::initializer_list<const char*> spellings) {
  std::vector<SpecialToken> tokens;
  for (const char* spelling : spellings) tokens.push_back({.id = 0, .spelling = spelling, .control = true});
  return tokens;
}

class ReplayEndings : public ::testing::Test {
 protected:
  void use(const std::string& source, std::initializer_list<const char*> markers) {
    vocabulary_ = std::make_shared<chat::FakeVocabulary>(controls(markers));
    serve_template(service_, vocabulary_, source, chat::tools::detect_format(source), files_, executor_,
                   {.bos = "<s>", .eos = "</s>"});
  }
  std::vector<TokenId> prompt_ids(const ordered_json& messages) {
    chat::RenderInput input;
    input.messages = messages;
    input.tools = tools_;
    api::PromptSource source = std::move(input);
    return read_prompt(service_, source).value().ids;
  }
  std::string prompt(const ordered_json& messages) { return vocabulary_->text_of(prompt_ids(messages), true); }
  // The model's reply, one token per byte except for markers.
  void sample(const ordered_json& messages, std::string_view reply) {
    TurnRecorder recorder(service_, prompt_ids(messages));
    while (!reply.empty()) {
      TokenId id = static_cast<unsigned char>(reply.front());
      std::size_t length = 1;
      for (const SpecialToken& token : vocabulary_->special_tokens()) {
        if (!reply.starts_with(token.spelling)) continue;
        id = token.id;
        length = token.spelling.size();
      }
      recorder.add_token(id);
      reply.remove_prefix(length);
    }
    recorder.finish("");
  }

  sim::SimFileSystem files_;
  sim::SimExecutor executor_;
  std::shared_ptr<chat::FakeVocabulary> vocabulary_;
  Service service_;
  ordered_json tools_ = nullptr;
};

ordered_json message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

// Its end of generation is </s>, with which no template closes an answer.
TEST_F(ReplayEndings, AnAnswerThatHistoryClosesWithAnotherToken) {
  use("{% for m in messages %}{% if m.role == 'assistant' %}"
      "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}{% else %}"
      "{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}{# tools #}",
      {"<s>", "</s>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|call|>", "<|return|>", "<|constrain|>"});
  ASSERT_EQ(service_.reply_format.kind, chat::tools::FormatKind::kHarmony);
  ordered_json messages = {message("user", "question")};
  sample(messages, "<|channel|>final<|message|> so hello  \n</s>");
  messages.push_back(message("assistant", "so hello"));
  messages.push_back(message("user", "next"));
  const std::string expected =
      "<|start|>user<|message|>question<|end|><|start|>assistant<|channel|>final<|message|> so hello  \n<|end|>"
      "<|start|>user<|message|>next<|end|><|start|>assistant";
  EXPECT_EQ(prompt(messages), expected);
  messages[1]["content"] = "so hello!";
  EXPECT_EQ(prompt(messages).find("hello  \n"), std::string::npos) << "the client changed it";
}

TEST_F(ReplayEndings, CallsOfALoopWithMistralsTemplate) {
  std::ifstream file(std::string(KVKEEP_TEMPLATES) + "/mistral.jinja");
  std::stringstream source;
  source << file.rdbuf();
  tools_ = ordered_json::parse(R"([{"type":"function","function":{"name":"edit","parameters":{"type":"object"}}}])");
  use(source.str(), {"<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
                     "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[ARGS]", "[CALL_ID]"});
  ASSERT_EQ(service_.reply_format.kind, chat::tools::FormatKind::kMistral);
  EXPECT_EQ(vocabulary_->text_of(service_.turn_openings.answer_to_result, true), "[/TOOL_RESULTS]");
  const auto call = [](const char* id, const char* arguments) {
    ordered_json one = message("assistant", "");
    one["tool_calls"] = {
        {{"id", id}, {"type", "function"}, {"function", {{"name", "edit"}, {"arguments", arguments}}}}};
    return one;
  };
  const auto result = [](const char* id) {
    ordered_json one = message("tool", "done");
    one["tool_call_id"] = id;
    return one;
  };
  ordered_json messages = {message("user", "question")};
  sample(messages, R"([TOOL_CALLS][{"name":"edit",   "arguments": {"a":1 }}]</s>)");
  messages.push_back(call("callone11", R"({"a":1})"));
  messages.push_back(result("callone11"));
  EXPECT_NE(prompt(messages).find(R"([/INST][TOOL_CALLS][{"name":"edit",   "arguments": {"a":1 }}]</s>[TOOL_RESULTS])"),
            std::string::npos)
      << prompt(messages);
  sample(messages, R"([TOOL_CALLS][{"name":"edit","arguments":   {"b":2}}]</s>)");
  messages.push_back(call("calltwo22", R"({"b":2})"));
  messages.push_back(result("calltwo22"));
  const std::string both = prompt(messages);
  EXPECT_NE(both.find(R"([/INST][TOOL_CALLS][{"name":"edit",   "arguments": {"a":1 }}]</s>[TOOL_RESULTS])"),
            std::string::npos)
      << both;
  EXPECT_NE(both.find(R"([/TOOL_RESULTS][TOOL_CALLS][{"name":"edit","arguments":   {"b":2}}]</s>[TOOL_RESULTS])"),
            std::string::npos)
      << both;
}

}  // namespace
}  // namespace kvkeep::server
