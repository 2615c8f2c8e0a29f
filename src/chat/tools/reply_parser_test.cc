#include "chat/tools/reply_parser.h"

#include <gtest/gtest.h>

#include "chat/tools/piece_stream.h"
#include "chat/tools/reply_text_test.h"

namespace kvkeep::chat::tools {
namespace {

class Reading : public testing::Test {
 protected:
  std::vector<ReplyDelta> deltas(FormatKind kind, const std::vector<Piece>& pieces, const ReplyOptions& options) {
    const ReplyFormat format = bind_format(kind, kThink, markers_);
    return deltas_of(format, pieces, tools_, options);
  }
  std::string line(FormatKind kind, const std::vector<Piece>& pieces, const ReplyOptions& options = with_calls()) {
    return in_one_line(deltas(kind, pieces, options));
  }
  std::vector<Piece> sampled(std::string_view text) const { return pieces_of(text, markers_); }

  const FakeVocabulary vocabulary_{tag_tokens()};
  const MarkerSet markers_{vocabulary_, ""};
  const ToolSet tools_;
};

// A model repeats a message that spells tags: ordinary tokens, whatever they spell.
TEST_F(Reading, TextThatSpellsTagsOpensNothing) {
  const std::string call = "<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>";
  EXPECT_EQ(line(FormatKind::kHermes, {{call}}), "T(" + call + ")");
  EXPECT_EQ(line(FormatKind::kHermes, {{"<think>a</think>b"}}), "T(<think>a</think>b)");
  EXPECT_EQ(line(FormatKind::kHermes, {{"<think>", true}, {"a</think>b"}, {"</think>", true}, {"c"}}),
            "R(a</think>b)T(c)");
  const std::string section = "<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\"></｜DSML｜invoke></｜DSML｜tool_calls>";
  EXPECT_EQ(line(FormatKind::kDsml, {{section}}), "T(" + section + ")");
  EXPECT_EQ(line(FormatKind::kDsml, sampled(section)), "C(f {})");
  EXPECT_EQ(line(FormatKind::kMistral, {{"[TOOL_CALLS]f[ARGS]{}"}}), "T([TOOL_CALLS]f[ARGS]{})");
  EXPECT_EQ(line(FormatKind::kHarmony, {{"<|channel|>", true}, {"final"}, {"<|message|>", true}, {"x<|call|>y"}}),
            "T(x<|call|>y)");
}

TEST_F(Reading, ValuesEndOnlyAtTheirOwnTag) {
  std::vector<Piece> pieces = sampled("<tool_call>f<arg_key>a</arg_key><arg_value>x");
  pieces.push_back({"</arg_value></tool_call>"});
  for (const Piece& piece : sampled("y</arg_value></tool_call>")) pieces.push_back(piece);
  EXPECT_EQ(line(FormatKind::kGlm, pieces), "C(f {\"a\":\"x</arg_value></tool_call>y\"})");
}

TEST_F(Reading, IdsAreUniqueAndInTheFormsThatTemplatesTake) {
  const auto ids = [&](FormatKind kind, std::string_view text, const std::string& seed) {
    ReplyOptions options = with_calls();
    options.id_seed = seed;
    std::vector<std::string> found;
    for (const ReplyDelta& delta : deltas(kind, sampled(text), options)) {
      if (delta.kind == DeltaKind::kCallBegin) found.push_back(delta.call_id);
    }
    return found;
  };
  const char* two = "<tool_call>[{\"name\":\"f\",\"id\":\"x\"},{\"name\":\"f\",\"id\":\"x\"}]</tool_call>";
  const auto own = ids(FormatKind::kHermes, two, "a");
  ASSERT_EQ(own.size(), 2U);
  EXPECT_NE(own[0], own[1]);
  for (const std::string& id : own) {
    EXPECT_EQ(id.size(), 29U);
    EXPECT_TRUE(id.starts_with("call_"));
  }
  EXPECT_EQ(own, ids(FormatKind::kHermes, two, "a"));
  EXPECT_NE(own, ids(FormatKind::kHermes, two, "b"));

  const auto kimi = ids(FormatKind::kKimi,
                        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}"
                        "<|tool_call_end|><|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}"
                        "<|tool_call_end|><|tool_calls_section_end|>",
                        "a");
  ASSERT_EQ(kimi.size(), 2U);
  EXPECT_EQ(kimi[0], "functions.f:3");
  EXPECT_TRUE(kimi[1].starts_with("call_"));

  const auto mistral = ids(FormatKind::kMistral,
                           "[TOOL_CALLS][{\"name\":\"f\",\"id\":\"abcDEF123\"},{\"name\":\"f\",\"id\":\"long\"}]", "a");
  ASSERT_EQ(mistral.size(), 2U);
  EXPECT_EQ(mistral[0], "abcDEF123");
  EXPECT_EQ(mistral[1].size(), 9U);
}

TEST_F(Reading, CallsOfToolsThatMayNotBeCalledAreText) {
  const ToolSet closed(nlohmann::ordered_json::parse(R"([{"function":{"name":"f"}}])"), /*is_closed=*/true);
  const auto of = [&](FormatKind kind, std::string_view text) {
    return in_one_line(deltas_of(bind_format(kind, kThink, markers_), sampled(text), closed, with_calls()));
  };
  const std::string to_g = "<|channel|>commentary to=functions.g <|constrain|>json<|message|>";
  EXPECT_EQ(of(FormatKind::kHarmony, to_g + "{\"a\":1}<|call|>"), "T(" + to_g + "{\"a\":1})");
  EXPECT_EQ(of(FormatKind::kHarmony, "<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|>"),
            "C(f {\"a\":1})");
  const std::string hermes = "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":1}}</tool_call>";
  EXPECT_EQ(of(FormatKind::kHermes, hermes), "T(" + hermes + ")");
  EXPECT_EQ(of(FormatKind::kHermes, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>"),
            "C(f {\"a\":1})");
}

TEST_F(Reading, WithoutParallelCallsTheReplyEndsWithTheFirst) {
  const ReplyFormat format = bind_format(FormatKind::kHermes, kThink, markers_);
  ReplyOptions options = with_calls();
  options.parallel = false;
  ReplyParser parser(format, tools_, options);
  const std::string call = "{\"name\":\"f\"}";
  EXPECT_TRUE(parser.feed("<tool_call>", true).empty());
  EXPECT_TRUE(parser.feed(call, false).empty());  // no arguments yet: there may be some after the name
  EXPECT_FALSE(parser.ended());
  EXPECT_EQ(in_one_line(parser.feed("</tool_call>", true)), "C(f {})");
  EXPECT_TRUE(parser.ended());
  EXPECT_TRUE(parser.feed("more", false).empty());
  EXPECT_TRUE(parser.finish().empty());
  EXPECT_EQ(parser.call_count(), 1U);
  EXPECT_EQ(line(FormatKind::kHermes, sampled("<tool_call>[" + call + "," + call + "]</tool_call>"), options),
            "C(f {})");
}

TEST_F(Reading, CallsNobodyAskedForAreText) {
  const std::string text = "<tool_call>{\"name\":\"f\"}</tool_call>";
  ReplyOptions options;
  EXPECT_EQ(line(FormatKind::kHermes, sampled(text), options), "T(" + text + ")");
  const std::string harmony = "<|channel|>commentary to=functions.f<|message|>{}";
  EXPECT_EQ(line(FormatKind::kHarmony, sampled(harmony), options), "T(" + harmony + ")");
}

TEST_F(Reading, WhereThoughtsGo) {
  const std::string text = "<think>\na\n</think>\n\nb";
  ReplyOptions options;
  EXPECT_EQ(line(FormatKind::kHermes, sampled(text), options), "R(a)T(b)");
  options.reasoning = ReasoningFormat::kNone;
  EXPECT_EQ(line(FormatKind::kHermes, sampled(text), options), "T(" + text + ")");
  options.reasoning = ReasoningFormat::kDeepSeekLegacy;
  EXPECT_EQ(line(FormatKind::kHermes, joined(sampled(text), [] { return true; }), options),
            "T(<think>\n)R(a)T(a\n</think>\n\nb)");
}

TEST_F(Reading, AThoughtThatThePromptHasOpened) {
  ReplyOptions options;
  options.thinking_open = true;
  EXPECT_EQ(line(FormatKind::kHermes, sampled("\na\n</think>\n\nb\n"), options), "R(a)T(b\n)");
  EXPECT_EQ(line(FormatKind::kHermes, sampled("a"), options), "R(a)");
  EXPECT_EQ(line(FormatKind::kHermes, sampled("</think>b"), options), "T(b)");
  options.reasoning = ReasoningFormat::kDeepSeekLegacy;
  EXPECT_EQ(line(FormatKind::kHermes, sampled("</think>b"), options), "T(<think></think>b)");
}

TEST_F(Reading, ThePromptsEndTellsWhetherAThoughtIsOpen) {
  const ReplyFormat marked = bind_format(FormatKind::kHermes, kThink, markers_);
  const FakeVocabulary no_tags(std::vector<SpecialToken>{});
  const MarkerSet none(no_tags, "");
  const ReplyFormat plain = bind_format(FormatKind::kHermes, kThink, none);
  const PromptSpan open = {.kind = SpanKind::kMarker, .marker = 1, .text = "<think>"};
  const PromptSpan close = {.kind = SpanKind::kMarker, .marker = 2, .text = "</think>"};
  const PromptSpan line_end = {.kind = SpanKind::kText, .text = "\n"};
  const PromptSpan answer = {.kind = SpanKind::kMessageText, .text = "<think>So"};
  EXPECT_TRUE(thinking_is_open(marked, {{open, line_end}}));
  EXPECT_TRUE(thinking_is_open(marked, {{open, line_end, answer}}));
  EXPECT_FALSE(thinking_is_open(marked, {{open, close, line_end}}));
  EXPECT_FALSE(thinking_is_open(marked, {{{.kind = SpanKind::kText, .text = "<think>\n"}}}));
  EXPECT_TRUE(thinking_is_open(plain, {{{.kind = SpanKind::kText, .text = "x: <think>\n"}}}));
  EXPECT_FALSE(thinking_is_open(plain, {{{.kind = SpanKind::kText, .text = "x:"}, answer}}));
  EXPECT_FALSE(thinking_is_open(plain, {}));
}

TEST(Formats, AreFoundByTheirTags) {
  const auto of = [](std::string_view tags) { return detect_format(std::string("{{ tools }}").append(tags)); };
  EXPECT_EQ(of("<tool_call>"), FormatKind::kHermes);
  EXPECT_EQ(of("<tool_call><function=a><parameter=b>"), FormatKind::kQwenCoder);
  EXPECT_EQ(of("<tool_call>{}<arg_key>"), FormatKind::kGlm);
  EXPECT_EQ(of("<|python_tag|>"), FormatKind::kLlama);
  EXPECT_EQ(of("[TOOL_CALLS]"), FormatKind::kMistral);
  EXPECT_EQ(of("<｜tool▁calls▁begin｜>"), FormatKind::kDeepSeek);
  EXPECT_EQ(of("'｜DSML｜' tool_calls"), FormatKind::kDsml);
  EXPECT_EQ(of("'｜DSML｜' function_calls"), FormatKind::kDsmlV3);
  EXPECT_EQ(of("<|channel|>"), FormatKind::kHarmony);
  EXPECT_EQ(of("<|tool_calls_section_begin|>"), FormatKind::kKimi);
  EXPECT_EQ(of("<minimax:tool_call>"), FormatKind::kMiniMax);
  EXPECT_EQ(of(""), FormatKind::kNone);
  EXPECT_EQ(detect_format("<tool_call>"), FormatKind::kNone);
  for (const std::string& name : format_names()) EXPECT_EQ(to_string(*format_named(name)), name);
  EXPECT_FALSE(format_named("call"));
  EXPECT_EQ(detect_thinking("x.split('</think>')").open, "<think>");
  EXPECT_EQ(detect_thinking("[THINK]").close, "[/THINK]");
  EXPECT_EQ(detect_thinking("").open, "");
}

TEST(Values, AreWhatTheSchemaSays) {
  const ToolSet tools(nlohmann::ordered_json::parse(R"([{"type":"function","function":{"name":"f","parameters":{
    "properties":{"s":{"type":"string"},"n":{"type":["integer","null"]},"sn":{"type":["string","null"]},
    "e":{"enum":["1","2"]},"c":{"const":"5"},"sa":{"anyOf":[{"type":"string"},{"type":"array"}]},
    "loop":{"$ref":"#/properties/loop"},"b":{"type":"boolean"}}}}}])"));
  const auto value = [&](const char* name, const char* text) { return tools.value_json("f", name, text); };
  EXPECT_EQ(value("s", "5"), "\"5\"");
  EXPECT_EQ(value("s", "null"), "\"null\"");
  EXPECT_EQ(value("n", " 5 "), "5");
  EXPECT_EQ(value("n", "None"), "null");
  EXPECT_EQ(value("n", "five\n"), "\"five\\n\"");
  EXPECT_EQ(value("sn", "null"), "null");
  EXPECT_EQ(value("sn", "5"), "\"5\"");
  EXPECT_EQ(value("e", "1"), "\"1\"");
  EXPECT_EQ(value("c", "5"), "\"5\"");
  EXPECT_EQ(value("sa", "[1]"), "[1]");
  EXPECT_EQ(value("sa", "[1"), "\"[1\"");
  EXPECT_EQ(value("sa", "1"), "\"1\"");
  EXPECT_EQ(value("loop", "1"), "1");
  EXPECT_EQ(value("b", "False"), "false");
  EXPECT_EQ(value("unknown", "{\"a\":1}"), "{\"a\":1}");
  EXPECT_EQ(value("unknown", "a"), "\"a\"");
  EXPECT_EQ(tools.value_json("g", "s", "5"), "5");
}

// An opening for each byte: an hour, if anything were looked at twice.
TEST_F(Reading, TakesTimeInProportionToLength) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "<tool_call>{";
  EXPECT_EQ(line(FormatKind::kHermes, sampled(text)), "T(" + text + ")");
  std::string spaces(200'000, '\n');
  EXPECT_EQ(line(FormatKind::kHermes, sampled("a" + spaces)), "T(a" + spaces + ")");
  const std::string deep(100'000, '[');
  const std::string nested = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":" + deep + "}}</tool_call>";
  const std::string begun = "C(f {\"a\":" + std::string(99, '[') + "~)";
  EXPECT_TRUE(line(FormatKind::kHermes, sampled(nested)) == begun + "T(" + nested + ")");
}

TEST(Pieces, MarkersComeWhole) {
  PieceStream stream({"call>x"});
  EXPECT_EQ(stream.feed("a", false), (std::vector<ReplyPiece>{{"a", false}}));
  // The stop string may begin within the marker, so the marker waits.
  EXPECT_EQ(stream.feed("<tool_call>", true), std::vector<ReplyPiece>{});
  EXPECT_EQ(stream.feed("y", false), (std::vector<ReplyPiece>{{"<tool_call>", true}, {"y", false}}));
  EXPECT_EQ(stream.feed("<tool_call>", true), std::vector<ReplyPiece>{});
  EXPECT_EQ(stream.feed("x", false), (std::vector<ReplyPiece>{{"<tool_", false}}));
  EXPECT_EQ(stream.found_stop(), "call>x");
  EXPECT_EQ(stream.finish(), std::vector<ReplyPiece>{});
}

TEST(Pieces, ABrokenCodePointBeforeAMarkerIsNoPartOfIt) {
  PieceStream stream({});
  EXPECT_EQ(stream.feed("\xE2\x82", false), std::vector<ReplyPiece>{});
  EXPECT_EQ(stream.feed("<s>", true), (std::vector<ReplyPiece>{{"\xEF\xBF\xBD", false}, {"<s>", true}}));
  EXPECT_EQ(stream.feed("\xE2\x82", false), std::vector<ReplyPiece>{});
  EXPECT_EQ(stream.finish(), (std::vector<ReplyPiece>{{"\xEF\xBF\xBD", false}}));
}

TEST(Pieces, HeldBackTextComesAtTheEnd) {
  PieceStream stream({">>"});
  EXPECT_EQ(stream.feed("<s>", true), std::vector<ReplyPiece>{});
  EXPECT_EQ(stream.finish(), (std::vector<ReplyPiece>{{"<s>", true}}));
}

}  // namespace
}  // namespace kvkeep::chat::tools
