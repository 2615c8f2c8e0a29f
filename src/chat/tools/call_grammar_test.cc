#include "chat/tools/call_grammar.h"

#include <gtest/gtest.h>

#include <random>

#include "base/test_seed.h"
#include "chat/grammar/gbnf_player_fixture.h"
#include "chat/tools/reply_text_test.h"

namespace kvkeep::chat::tools {
namespace {

using nlohmann::ordered_json;

ToolSet two_tools() {
  return ToolSet(ordered_json::parse(R"([
    {"type":"function","function":{"name":"edit","parameters":{"type":"object","properties":{
      "path":{"type":"string"},"line":{"type":"integer","minimum":1,"maximum":99},
      "mode":{"type":"string","enum":["all","one"]},"deep":{"$ref":"#/$defs/list"}},
      "required":["path","line"],"additionalProperties":false,
      "$defs":{"list":{"type":"array","items":{"type":"boolean"},"maxItems":3}}}}},
    {"type":"function","function":{"name":"pwd"}}])"));
}

class Grammars : public testing::TestWithParam<FormatKind> {
 protected:
  ReplyFormat format() const { return bind_format(GetParam(), kThink, markers_); }

  // Tags as text: then the grammar's texts are all there is to a reply.
  const FakeVocabulary vocabulary_{std::vector<SpecialToken>{}};
  const MarkerSet markers_{vocabulary_, ""};
};

// Every text that the grammar allows is read as calls, and as nothing else but a thought.
TEST_P(Grammars, LetNothingThroughThatIsNoCall) {
  std::mt19937 random(static_cast<std::uint32_t>(test_seed()));
  const ToolSet tools = two_tools();
  const ReplyFormat bound = format();
  for (const bool parallel : {false, true}) {
    const auto made = make_call_grammar(bound, tools, {.parallel = parallel});
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_TRUE(made->triggers.empty());
    const grammar::GbnfPlayer player(made->text);
    for (int round = 0; round < 60; ++round) {
      const std::string text = player.write(random, 200);
      std::size_t calls = 0;
      std::string arguments;
      const auto deltas = deltas_of(bound, {{text}}, tools, with_calls());
      ASSERT_EQ(broken_rule(deltas), "") << text;
      for (const ReplyDelta& delta : deltas) {
        ASSERT_NE(delta.kind, DeltaKind::kText) << text;
        if (delta.kind == DeltaKind::kCallBegin) ++calls;
        if (delta.kind == DeltaKind::kCallBegin) arguments.clear();
        arguments += delta.text;
        if (delta.kind != DeltaKind::kCallEnd) continue;
        ASSERT_TRUE(delta.is_whole) << text;
        const auto object = ordered_json::parse(arguments);
        if (!object.contains("line")) continue;
        EXPECT_TRUE(object["path"].is_string()) << text;
        EXPECT_TRUE(object["line"].is_number_integer()) << text;
        EXPECT_TRUE(!object.contains("mode") || object["mode"] == "all" || object["mode"] == "one") << text;
        EXPECT_TRUE(!object.contains("deep") || object["deep"].is_array()) << text;
      }
      ASSERT_GE(calls, 1U) << text;
      EXPECT_TRUE(parallel || calls == 1U) << text;
    }
  }
}

TEST_P(Grammars, OnlyTheNamedTool) {
  std::mt19937 random(static_cast<std::uint32_t>(test_seed()));
  const auto made = make_call_grammar(format(), two_tools(), {.only = "pwd", .parallel = false});
  ASSERT_TRUE(made) << made.error().message;
  const grammar::GbnfPlayer player(made->text);
  for (int round = 0; round < 10; ++round) EXPECT_EQ(player.write(random, 50).find("edit"), std::string::npos);
  EXPECT_EQ(make_call_grammar(format(), two_tools(), {.only = "rm"}).error().message, "there is no tool 'rm'");
}

TEST_P(Grammars, TagsAreTokensWhereTheVocabularyHasThem) {
  const FakeVocabulary vocabulary(tag_tokens());
  const MarkerSet markers(vocabulary, "");
  const auto made = make_call_grammar(bind_format(GetParam(), kThink, markers), two_tools(), {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(grammar::read_gbnf(made->text)) << made->text;
  EXPECT_NE(made->text.find("<["), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, Grammars,
                         testing::Values(FormatKind::kHermes, FormatKind::kQwenCoder, FormatKind::kLlama,
                                         FormatKind::kMistral, FormatKind::kDeepSeek, FormatKind::kDsml,
                                         FormatKind::kDsmlV3, FormatKind::kHarmony, FormatKind::kGlm, FormatKind::kKimi,
                                         FormatKind::kLfm2, FormatKind::kCommandR, FormatKind::kCommandA,
                                         FormatKind::kGemma4, FormatKind::kMiniMax),
                         [](const auto& kind) {
                           std::string name(to_string(kind.param));
                           std::erase_if(name, [](char byte) { return byte == '-' || byte == '.'; });
                           return name;
                         });

TEST(LazyGrammars, BeginWithTheCall) {
  const FakeVocabulary vocabulary(tag_tokens());
  const MarkerSet markers(vocabulary, "");
  const auto made =
      make_call_grammar(bind_format(FormatKind::kHermes, kThink, markers), two_tools(), {.at_once = false});
  ASSERT_TRUE(made);
  ASSERT_EQ(made->triggers.size(), 1U);
  EXPECT_EQ(made->triggers[0].text, "<tool_call>");
  EXPECT_EQ(made->text.find("think"), std::string::npos);
  const auto none = make_call_grammar(bind_format(FormatKind::kNone, kThink, markers), two_tools(), {});
  EXPECT_EQ(none.error().kind, ErrorKind::kInvalid);
}

TEST(LazyGrammars, ASchemaThatCannotBeEnforcedIsRefusedByName) {
  const FakeVocabulary vocabulary(tag_tokens());
  const MarkerSet markers(vocabulary, "");
  const ToolSet tools(
      ordered_json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","not":{}}}}])"));
  const auto made = make_call_grammar(bind_format(FormatKind::kHermes, kThink, markers), tools, {});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("tools 'f' parameters"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace kvkeep::chat::tools
