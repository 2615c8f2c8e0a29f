// Every form in which clients send a conversation again gives the same prompt, to the last id.

#include <gtest/gtest.h>

#include <memory>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/test_templates_test.h"
#include "server/api/anthropic/request.h"
#include "server/routes/prompt.h"

namespace kvkeep::server {
namespace {

const std::string kBilling = R"({"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.329.)";

class MessagesPromptTest : public ::testing::Test {
 protected:
  MessagesPromptTest() {
    service_.vocabulary = vocabulary_;
    service_.chat_template = chat::make_chat_template(chat::kHermes, {}).value();
    service_.markers = std::make_unique<chat::MarkerSet>(*vocabulary_, service_.chat_template->source());
    service_.long_text = std::make_unique<chat::LongText>(*vocabulary_);
    service_.clock = &os::real_clock();
    service_.context_tokens = 100'000;
  }
  std::vector<TokenId> ids(const std::string& body) const {
    auto request = api::parse_messages(body, {});
    EXPECT_TRUE(request.ok()) << (request ? "" : request.error().message);
    return read_prompt(service_, request->generation.prompt).value().ids;
  }

  const std::shared_ptr<chat::FakeVocabulary> vocabulary_ = std::make_shared<chat::FakeVocabulary>();
  Service service_;
};

const std::string kPlain = R"({"max_tokens":5,"system":"be brief","tools":[{"name":"ls","description":"lists",
  "input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}}],
  "messages":[{"role":"user","content":"look"},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm"},
      {"type":"tool_use","id":"t","name":"ls","input":{"z":"/","a":"x"}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"README"}]}]})";

TEST_F(MessagesPromptTest, MarksBlocksAndTheOrderOfKeysLeaveNoTrace) {
  const std::string rich = R"({"metadata":{"user_id":"u"},"stream":true,
    "messages":[{"content":[{"text":"look","cache_control":{"type":"ephemeral"},"type":"text"}],"role":"user"},
      {"content":[{"signature":"abc","thinking":"hm","type":"thinking"},
        {"input":{"z":"/","a":"x"},"cache_control":{"type":"ephemeral"},"name":"ls","id":"t","type":"tool_use"}],
       "role":"assistant"},
      {"content":[{"content":[{"text":"README","type":"text"}],"is_error":false,"type":"tool_result",
        "cache_control":{"type":"ephemeral"},"tool_use_id":"t"}],"role":"user"}],
    "tools":[{"input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}},
      "cache_control":{"type":"ephemeral","ttl":"1h"},"name":"ls","type":"custom","description":"lists"}],
    "system":[{"text":"be brief","type":"text"}],"max_tokens":7})";
  EXPECT_EQ(ids(kPlain), ids(rich));
}

TEST_F(MessagesPromptTest, OrderThatTheTemplatePrintsIsKept) {
  std::string other = kPlain;
  other.replace(other.find(R"({"z":"/","a":"x"})"), 17, R"({"a":"x","z":"/"})");
  EXPECT_NE(ids(kPlain), ids(other));
}

TEST_F(MessagesPromptTest, TheBillingLineIsDroppedUnlessSwitchedOff) {
  const auto with_line = [](const std::string& number) {
    std::string body = kPlain;
    const std::string system = R"("be brief")";
    return body.replace(body.find(system), system.size(),
                        "[" + kBilling + number + R"(; cc_entrypoint=sdk-cli;"},{"type":"text","text":"be brief"}])");
  };
  EXPECT_EQ(ids(with_line("bbc")), ids(kPlain));
  service_.stabilizers.billing_line = false;
  EXPECT_NE(ids(with_line("bbc")), ids(kPlain));
  EXPECT_NE(ids(with_line("bbc")), ids(with_line("ef1")));
}

TEST_F(MessagesPromptTest, EveryTokenIsCountedWhereAskedFor) {
  service_.context_tokens = 100;
  const std::string text(kAlwaysCountedBytes + 1'000, 'x');
  auto request = api::parse_count_tokens(R"({"messages":[{"role":"user","content":")" + text + R"("}]})", {});
  ASSERT_TRUE(request.ok());
  api::PromptSource source = request->prompt;
  EXPECT_FALSE(read_prompt(service_, source).value().is_counted);
  source = request->prompt;
  const auto stays = [] { return false; };
  const Prompt counted = read_prompt(service_, source, kNoTenant, stays, Counting::kExact).value();
  EXPECT_TRUE(counted.is_counted);
  EXPECT_GT(counted.tokens_min, text.size());
}

}  // namespace
}  // namespace kvkeep::server
