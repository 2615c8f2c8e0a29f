#include "server/routes/reply_rules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chat/fake_vocabulary_test.h"

namespace kvkeep::server {
namespace {

using nlohmann::ordered_json;

class CallRules : public ::testing::Test {
 protected:
  CallRules() {
    service_.vocabulary = vocabulary_;
    service_.markers = std::make_unique<chat::MarkerSet>(*vocabulary_, "");
    use_format(chat::tools::FormatKind::kHermes);
  }

  void use_format(chat::tools::FormatKind kind) {
    service_.reply_format = chat::tools::bind_format(kind, {"<think>", "</think>"}, *service_.markers);
  }

  Reading reading(ordered_json function) const {
    return {
        .format = &service_.reply_format,
        .markers = service_.markers.get(),
        .tools = chat::tools::ToolSet(ordered_json::array({{{"type", "function"}, {"function", std::move(function)}}})),
        .options = {.calls = true}};
  }

  Result<engine::GrammarParams> rules(const Reading& reading, const api::ToolUse& use,
                                      engine::GrammarParams grammar = {}) const {
    TRY(constrain_calls(service_, reading, use, grammar));
    return grammar;
  }

  const std::shared_ptr<const chat::FakeVocabulary> vocabulary_ = std::make_shared<chat::FakeVocabulary>();
  Service service_;
};

TEST_F(CallRules, NothingIsDemandedWhereCallsAreFree) {
  const Reading free = reading({{"name", "f"}});
  EXPECT_EQ(rules(free, {})->text, "");
  EXPECT_EQ(rules(free, {.choice = api::ToolChoice::kNone})->text, "");
  const Reading strict = reading({{"name", "f"}, {"strict", true}});
  EXPECT_EQ(rules(strict, {.choice = api::ToolChoice::kNone})->text, "");
}

TEST_F(CallRules, ACallThatMustBeBeginsAtOnce) {
  for (const api::ToolUse& use : {api::ToolUse{.choice = api::ToolChoice::kRequired},
                                  api::ToolUse{.choice = api::ToolChoice::kNamed, .name = "f"}}) {
    const auto made = rules(reading({{"name", "f"}}), use);
    ASSERT_TRUE(made);
    EXPECT_NE(made->text.find("\\\"f\\\""), std::string::npos) << made->text;
    EXPECT_TRUE(made->triggers.empty());
  }
  const auto other = rules(reading({{"name", "f"}}), {.choice = api::ToolChoice::kNamed, .name = "g"});
  EXPECT_EQ(other.error().message, "there is no tool 'g'");
}

TEST_F(CallRules, AStrictToolIsHeldToItsSchemaOnceItIsCalled) {
  const auto made = rules(reading({{"name", "f"}, {"strict", true}}), {});
  ASSERT_TRUE(made);
  ASSERT_EQ(made->triggers.size(), 1U);
  EXPECT_EQ(made->triggers[0].text, "<tool_call>");
}

TEST_F(CallRules, OtherMarkersThanItsTagsAreForbidden) {
  const auto made = rules(reading({{"name", "f"}}), {.choice = api::ToolChoice::kRequired});
  ASSERT_TRUE(made);
  const auto forbidden = [&](std::string_view spelling) {
    return std::ranges::find(made->forbidden, *vocabulary_->id_of(spelling)) != made->forbidden.end();
  };
  EXPECT_TRUE(forbidden("<|im_start|>"));
  EXPECT_FALSE(forbidden("<tool_call>"));
  EXPECT_FALSE(forbidden("</tool_call>"));
  EXPECT_FALSE(forbidden("</think>"));
}

// They cannot be taken for letters of an argument.
TEST_F(CallRules, ItsTagsStandForLettersThatNoTextHas) {
  const auto made = rules(reading({{"name", "f"}}), {.choice = api::ToolChoice::kRequired});
  ASSERT_TRUE(made);
  ASSERT_FALSE(made->tags.empty());
  EXPECT_EQ(made->tags[0].tag, *vocabulary_->id_of("<tool_call>"));
  EXPECT_EQ(made->tags[0].letter, 1) << "the token of U+0001";
  EXPECT_NE(made->text.find("\"\\x01\""), std::string::npos) << made->text;
  EXPECT_EQ(made->text.find("<["), std::string::npos) << made->text;
}

TEST_F(CallRules, ACallAndAnotherFormatCannotBothBe) {
  const engine::GrammarParams other{.text = "root ::= \"x\""};
  EXPECT_FALSE(rules(reading({{"name", "f"}}), {.choice = api::ToolChoice::kRequired}, other));
  // Next to another format the model may call a strict tool as it likes.
  EXPECT_EQ(rules(reading({{"name", "f"}, {"strict", true}}), {}, other)->text, other.text);
}

TEST_F(CallRules, WithoutAFormatNoCallCanBeForced) {
  use_format(chat::tools::FormatKind::kNone);
  EXPECT_EQ(rules(reading({{"name", "f"}}), {.choice = api::ToolChoice::kRequired}).error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace kvkeep::server
