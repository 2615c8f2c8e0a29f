// The parts of a call that are passed on before it is complete, and its end if it never is.

#include "chat/tools/call_preview.h"

#include <gtest/gtest.h>

#include "chat/tools/reply_text_test.h"

namespace kvkeep::chat::tools {
namespace {

using nlohmann::ordered_json;

class Previews : public testing::Test {
 protected:
  // The first call of a reply that goes on, as far as it was passed on: "name arguments", or "".
  std::string so_far(FormatKind kind, std::string_view text) {
    const ReplyFormat format = bind_format(kind, {}, markers_);
    ReplyParser parser(format, tools_, with_calls());
    std::string found;
    for (const Piece& piece : pieces_of(text, markers_)) {
      for (const ReplyDelta& delta : parser.feed(piece.text, piece.is_marker)) {
        EXPECT_NE(delta.kind, DeltaKind::kText) << delta.text;
        found += delta.call_name + (delta.call_name.empty() ? "" : " ") + delta.text;
      }
    }
    return found;
  }
  std::string cut_off(FormatKind kind, std::string_view text) {
    const ReplyFormat format = bind_format(kind, {}, markers_);
    return in_one_line(deltas_of(format, pieces_of(text, markers_), tools_, with_calls(), /*cut_off=*/true));
  }

  const FakeVocabulary vocabulary_{tag_tokens()};
  const MarkerSet markers_{vocabulary_, ""};
  const ToolSet tools_{ordered_json::parse(R"([{"function":{"name":"write","parameters":{"properties":{
    "path":{"type":"string"},"text":{"type":"string"},"mode":{"type":["string","null"]},
    "data":{"anyOf":[{"type":"string"},{"type":"object"}]},"lines":{"type":"array"}}}}}])")};
};

TEST_F(Previews, ANameComesWithItsArguments) {
  const auto hermes = [&](std::string_view text) { return so_far(FormatKind::kHermes, text); };
  EXPECT_EQ(hermes("<tool_call>{\"name\":\"f\""), "");
  EXPECT_EQ(hermes("<tool_call>\n{\"name\": \"f\", \"arguments\": "), "");
  EXPECT_EQ(hermes("<tool_call>\n{\"name\": \"f\", \"arguments\": {"), "f {");
  EXPECT_EQ(hermes("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":[1,{\"b\":\"so far"),
            "f {\"a\":[1,{\"b\":\"so far");
  EXPECT_EQ(hermes("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":12"), "f {\"a\":");
  EXPECT_EQ(hermes("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":12}"), "f {\"a\":12");
  EXPECT_EQ(hermes("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":12}}</tool_call>"), "f {\"a\":12}");
}

TEST_F(Previews, InEveryFormatOfJson) {
  EXPECT_EQ(so_far(FormatKind::kLlama, "{\"name\": \"write\", \"parameters\": {\"a\": \"x"), "write {\"a\": \"x");
  EXPECT_EQ(so_far(FormatKind::kLlama, "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": \"x"), "f {\"a\": \"x");
  EXPECT_EQ(so_far(FormatKind::kMistral, "[TOOL_CALLS]f[ARGS]{\"a\": \"x"), "f {\"a\": \"x");
  EXPECT_EQ(
      so_far(FormatKind::kMistral, "[TOOL_CALLS] [{\"name\": \"f\", \"id\": \"abcDEF123\", \"arguments\": {\"a\": \"x"),
      "f {\"a\": \"x");
  EXPECT_EQ(so_far(FormatKind::kDeepSeek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": \"x"),
            "f {\"a\": \"x");
  EXPECT_EQ(so_far(FormatKind::kDeepSeek,
                   "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"x"),
            "f {\"a\": \"x");
  EXPECT_EQ(
      so_far(FormatKind::kKimi,
             "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": \"x"),
      "f {\"a\": \"x");
  EXPECT_EQ(so_far(FormatKind::kHarmony, "<|channel|>commentary to=functions.f<|message|>{\"a\": \"x"),
            "f {\"a\": \"x");
}

TEST_F(Previews, StringsBetweenTagsComeAsTheyAreWritten) {
  const std::string head = "<tool_call>\n<function=write>\n<parameter=";
  const auto coder = [&](const std::string& text) { return so_far(FormatKind::kQwenCoder, head + text); };
  EXPECT_EQ(coder("text"), "write ");
  EXPECT_EQ(coder("text>\na \"b\"\n\tc\n"), "write {\"text\":\"a \\\"b\\\"\\n\\tc");
  EXPECT_EQ(coder("text>\na\n</parameter>\n<parameter=path>\nb"), "write {\"text\":\"a\",\"path\":\"b");
  EXPECT_EQ(coder("lines>\n[1, 2"), "write {\"lines\":");  // it may be no JSON in the end
  EXPECT_EQ(coder("mode>\nnul"), "write {\"mode\":");
  EXPECT_EQ(coder("mode>\nnull and"), "write {\"mode\":\"null and");
  EXPECT_EQ(coder("data>\n{\"a\""), "write {\"data\":");
  EXPECT_EQ(coder("data>\nplain"), "write {\"data\":\"plain");
  EXPECT_EQ(so_far(FormatKind::kGlm, "<tool_call>write\n<arg_key>text</arg_key>\n<arg_value>so"),
            "write {\"text\":\"so");
  EXPECT_EQ(
      so_far(FormatKind::kDsml,
             "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">so"),
      "f {\"a\":\"so");
  EXPECT_EQ(so_far(FormatKind::kMiniMax, "<minimax:tool_call>\n<invoke name=\"write\">\n<parameter name=\"text\">so"),
            "write {\"text\":\"so");
}

TEST_F(Previews, UncertainPartsWait) {
  EXPECT_EQ(so_far(FormatKind::kHermes, "<tool_call>{\"arguments\":{\"a\":\"x\"},\"name\":\"f\""), "");
  EXPECT_EQ(so_far(FormatKind::kHermes, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\""), "");
  EXPECT_EQ(so_far(FormatKind::kHermes, "<tool_call>{\"name\":\"\",\"arguments\":{\"a\""), "");
  // Its id may stand after the arguments.
  EXPECT_EQ(so_far(FormatKind::kMistral, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": \"x"), "");
  EXPECT_EQ(so_far(FormatKind::kLlama, "{\"name\": \"Bob\", \"parameters\": {\"a\": \"x"), "");
}

TEST_F(Previews, ACallCutByTheLengthIsIncomplete) {
  EXPECT_EQ(cut_off(FormatKind::kHermes, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x"), "C(f {\"a\":\"x~)");
  EXPECT_EQ(cut_off(FormatKind::kHarmony, "<|channel|>commentary to=f<|message|>{\"a\":\"x"), "C(f {\"a\":\"x~)");
  // No call was begun: it is text.
  EXPECT_EQ(cut_off(FormatKind::kHermes, "<tool_call>{\"name\":\"f\",\"argu"), "T(<tool_call>{\"name\":\"f\",\"argu)");
  // All but the closing tag.
  EXPECT_EQ(cut_off(FormatKind::kHermes, "<tool_call>{\"name\":\"f\",\"arguments\":{}}"), "C(f {})");
}

TEST_F(Previews, OnlyWholeCallsCount) {
  const ReplyFormat format = bind_format(FormatKind::kHermes, {}, markers_);
  ReplyParser parser(format, tools_, with_calls());
  for (const Piece& piece : pieces_of("<tool_call>{\"name\":\"f\",\"arguments\":{]}}</tool_call>"
                                      "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
                                      markers_)) {
    (void)parser.feed(piece.text, piece.is_marker);
  }
  EXPECT_EQ(parser.call_count(), 2U);
  EXPECT_EQ(parser.whole_calls(), 1U);
}

}  // namespace
}  // namespace kvkeep::chat::tools
