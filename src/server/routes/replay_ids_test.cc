// Ids of calls, from the sampled reply to a client and back into the prompt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/tools/reply_parser.h"
#include "server/routes/exact_replay.h"
#include "server/routes/prompt.h"
#include "server/routes/replay_service_test.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::server {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

std::vector<SpecialToken> mistral_tokens() {
  std::vector<SpecialToken> tokens;
  for (const char* spelling : {"<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]",
                               "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[ARGS]", "[CALL_ID]"}) {
    tokens.push_back({.id = 0, .spelling = spelling, .control = true});
  }
  return tokens;
}

std::string mistral_template() {
  std::ifstream file(std::string(KVKEEP_TEMPLATES) + "/mistral.jinja");
  std::stringstream source;
  source << file.rdbuf();
  return source.str();
}

class ReplayedIds : public ::testing::Test {
 protected:
  ReplayedIds() {
    const std::string source = mistral_template();
    serve_template(service_, vocabulary_, source, chat::tools::detect_format(source), files_, executor_,
                   {.bos = "<s>", .eos = "</s>"});
  }

  std::vector<TokenId> prompt_of(const ordered_json& messages) {
    chat::RenderInput input;
    input.messages = messages;
    api::PromptSource source = std::move(input);
    return read_prompt(service_, source).value().ids;
  }
  // Returns the id that a client gets for the call of a reply, token by token; the turn is remembered.
  std::string sampled(const std::vector<TokenId>& prompt, const std::vector<TokenId>& reply) {
    const chat::tools::ToolSet tools;
    chat::tools::ReplyParser parser(service_.reply_format, tools, {.calls = true, .id_seed = "reply"});
    TurnRecorder recorder(service_, prompt);
    std::string id;
    for (const TokenId token : reply) {
      recorder.add_token(token);
      if (vocabulary_->is_end_of_generation(token)) break;
      for (const auto& delta : parser.feed(vocabulary_->piece(token, true), token >= *vocabulary_->id_of("<s>"))) {
        if (delta.kind == chat::tools::DeltaKind::kCallBegin) recorder.add_call(id = delta.call_id);
      }
    }
    recorder.finish("");
    return id;
  }

  sim::SimFileSystem files_;
  sim::SimExecutor executor_;
  const std::shared_ptr<chat::FakeVocabulary> vocabulary_ = std::make_shared<chat::FakeVocabulary>(mistral_tokens());
  Service service_;
};

TEST_F(ReplayedIds, AResultNamesTheIdThatItsCallWasSampledWith) {
  ordered_json messages = ordered_json::array({{{"role", "user"}, {"content", "hello"}}});
  const std::vector<TokenId> asked = prompt_of(messages);
  std::vector<TokenId> reply = {*vocabulary_->id_of("[TOOL_CALLS]")};
  // A little unlike the template's text.
  for (const char byte : std::string(R"( [{"name":"f","arguments":{"a":1},"id":"abcDEF123"}])")) reply.push_back(byte);
  reply.push_back(*vocabulary_->id_of("</s>"));
  const std::string id = sampled(asked, reply);
  EXPECT_EQ(id, "abcDEF123");
  messages.push_back(
      {{"role", "assistant"},
       {"content", ""},
       {"tool_calls",
        {{{"id", id}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{\"a\": 1}"}}}}}}});
  messages.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", "found"}});
  const std::string next = vocabulary_->text_of(prompt_of(messages), true);
  // The call as it was sampled, without the template's spaces; the result as the template writes it.
  EXPECT_THAT(next, HasSubstr(R"([TOOL_CALLS] [{"name":"f","arguments":{"a":1},"id":"abcDEF123"}]</s>)"));
  EXPECT_THAT(next, HasSubstr(R"("call_id": "abcDEF123"})"));
}

}  // namespace
}  // namespace kvkeep::server
