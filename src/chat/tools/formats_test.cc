#include <gtest/gtest.h>

#include <random>

#include "base/test_seed.h"
#include "chat/tools/reply_text_test.h"

namespace kvkeep::chat::tools {
namespace {

using nlohmann::ordered_json;

struct Golden {
  const char* name;
  FormatKind kind;
  ThinkingTags thinking;
  std::string text;      // as a model writes it
  std::string expected;  // in the form of in_one_line()
  // Only a model with these tags as tokens can write it: as plain text it stays text.
  bool needs_markers = false;
};

constexpr ThinkingTags kNoThinking = {};

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = {
      {"plain", FormatKind::kHermes, kThink, "Hello\n\n", "T(Hello\n\n)"},
      {"hermes", FormatKind::kHermes, kThink,
       "<think>\nWhich?\n</think>\n\nI look.\n\n<tool_call>\n{\"name\": \"ls\", \"arguments\": {\"path\": \"a b\", "
       "\"n\": "
       "1.0}}\n</tool_call>\n<tool_call>\n{\"name\": \"pwd\", \"arguments\": {}}\n</tool_call>",
       "R(Which?)T(I look.)C(ls {\"path\": \"a b\", \"n\": 1.0})C(pwd {})"},
      {"hermes_text_behind", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"arguments\":{\"a\":{\"b\":[1,2]}},\"name\":\"f\"}</tool_call>\nDone.\n",
       "C(f {\"a\":{\"b\":[1,2]}})T(Done.\n)"},
      {"hermes_tag_in_string", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"name\":\"write\",\"arguments\":{\"text\":\"\\\"</tool_call>\"}}</tool_call>",
       "C(write {\"text\":\"\\\"</tool_call>\"})"},
      {"hermes_no_closing_tag", FormatKind::kHermes, kNoThinking, "<tool_call>{\"name\":\"f\",\"arguments\":{}}",
       "C(f {})"},
      {"hermes_unfinished", FormatKind::kHermes, kNoThinking, "So:\n<tool_call>{\"name\":\"f\",\"argum",
       "T(So:\n<tool_call>{\"name\":\"f\",\"argum)"},
      {"hermes_unfinished_arguments", FormatKind::kHermes, kNoThinking,
       "So:\n<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":12",
       "T(So:)C(f {\"a\":~)T(<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":12)"},
      {"hermes_brace_missing", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}</tool_call>",
       "C(f {\"a\":1~)T(<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}</tool_call>)"},
      {"hermes_arguments_twice", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1},\"arguments\":{\"b\":1}}</tool_call>",
       "C(f {\"a\":1~)T(<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1},\"arguments\":{\"b\":1}}</tool_call>)"},
      {"hermes_name_again", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"name\":\"f\",\"arguments\":{},\"name\":\"g\"}</tool_call>",
       "C(f {~)T(<tool_call>{\"name\":\"f\",\"arguments\":{},\"name\":\"g\"}</tool_call>)"},
      {"hermes_list", FormatKind::kHermes, kNoThinking,
       "<tool_call>[{\"name\":\"f\",\"arguments\":{\"a\":1}},{\"name\":\"g\",\"arguments\":{}}]</tool_call>",
       "C(f {\"a\":1})C(g {})"},
      {"hermes_function_within", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}</tool_call>",
       "C(f {\"a\":1})"},
      {"hermes_line_continued", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x \\\ny\"}}</tool_call>", "C(f {\"a\":\"x \\\\\\u000ay\"})"},
      {"hermes_malformed", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"name\":\"f\",\"arguments\":{]}}</tool_call> then <tool_call>{\"name\":\"g\"}</tool_call>",
       "C(f {~)T(<tool_call>{\"name\":\"f\",\"arguments\":{]}}</tool_call> then)C(g {})"},
      {"hermes_prose", FormatKind::kHermes, kNoThinking, "Use <tool_call> tags.<tool_call>{\"name\":\"g\"}</tool_call>",
       "T(Use <tool_call> tags.)C(g {})"},
      {"hermes_string_arguments", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}</tool_call>", "C(f {\"a\": 1})"},
      {"hermes_line_end_in_string", FormatKind::kHermes, kNoThinking,
       "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\ny\"}}</tool_call>", "C(f {\"a\":\"x\\u000ay\"})"},
      {"hermes_array", FormatKind::kHermes, kNoThinking,
       "<tool_call>[{\"name\":\"f\"},{\"name\":\"g\",\"parameters\":{\"a\":null}}]</tool_call>",
       "C(f {})C(g {\"a\":null})"},
      {"thought_alone", FormatKind::kHermes, kThink, "<think>\nand so on\n", "R(and so on)"},
      {"thought_in_the_middle", FormatKind::kHermes, kThink, "a <think>b</think> c", "T(a <think>b</think> c)"},
      {"call_in_thought", FormatKind::kHermes, kThink, "<think>hm\n<tool_call>{\"name\":\"f\"}</tool_call>",
       "R(hm)C(f {})", true},
      {"qwen_coder", FormatKind::kQwenCoder, kThink,
       "Now.\n<tool_call>\n<function=edit>\n<parameter=path>\nsrc/a.cc\n</parameter>\n<parameter=text>\n  5\n"
       "</tool_call>\n</parameter>\n<parameter=line>\n5\n</parameter>\n<parameter=all>\nTrue\n</parameter>\n"
       "<parameter=more>\n{\"a\": 1}\n</parameter>\n</function>\n</tool_call>",
       "T(Now.)C(edit {\"path\":\"src/a.cc\",\"text\":\"  5\\n</tool_call>\",\"line\":5,\"all\":true,"
       "\"more\":{\"a\": 1}})"},
      {"qwen_coder_empty", FormatKind::kQwenCoder, kThink,
       "<tool_call>\n<function=pwd>\n</function>\n</tool_call>\n<tool_call><function=ls></function></tool_call>",
       "C(pwd {})C(ls {})"},
      {"qwen_coder_unfinished", FormatKind::kQwenCoder, kThink,
       "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n",
       "C(f {\"a\":1~)T(<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n)"},
      {"llama", FormatKind::kLlama, kNoThinking, "{\"name\": \"f\", \"parameters\": {\"a\": \"}\"}}",
       "C(f {\"a\": \"}\"})"},
      {"llama_two", FormatKind::kLlama, kNoThinking, "{\"name\": \"f\"}; {\"name\": \"g\"}\n", "C(f {})C(g {})"},
      {"llama_answer_with_a_name", FormatKind::kLlama, kNoThinking, "{\"name\": \"Bob\", \"age\": 5}",
       "T({\"name\": \"Bob\", \"age\": 5})"},
      {"llama_answer_with_a_name_alone", FormatKind::kLlama, kNoThinking, "{\"name\": \"Bob\"}",
       "T({\"name\": \"Bob\"})"},
      {"llama_answer_with_parameters", FormatKind::kLlama, kNoThinking,
       "{\"name\": \"Bob\", \"parameters\": {\"a\": 1}, \"age\": 5}",
       "T({\"name\": \"Bob\", \"parameters\": {\"a\": 1}, \"age\": 5})"},
      {"llama_unknown_tool", FormatKind::kLlama, kNoThinking,
       "{\"type\": \"function\", \"name\": \"rm\", \"parameters\": {\"a\": 1}}", "C(rm {\"a\": 1})"},
      {"llama_json_answer", FormatKind::kLlama, kNoThinking, " {\"a\": 1} is it", "T( {\"a\": 1} is it)"},
      {"llama_text_first", FormatKind::kLlama, kNoThinking, "See {\"name\": \"f\"}", "T(See {\"name\": \"f\"})"},
      {"llama_python_tag", FormatKind::kLlama, kNoThinking, "Right.<|python_tag|>{\"name\": \"f\", \"parameters\": {}}",
       "T(Right.)C(f {})"},
      {"llama_python", FormatKind::kLlama, kNoThinking, "<|python_tag|>print({})", "T(<|python_tag|>print({}))"},
      {"mistral_array",
       FormatKind::kMistral,
       {"[THINK]", "[/THINK]"},
       "[THINK]hm[/THINK][TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, {\"name\": \"g\"}]",
       "R(hm)C(f {\"a\": [1]})C(g {})"},
      {"mistral_ids_behind", FormatKind::kMistral, kNoThinking,
       "[TOOL_CALLS] [{\"name\":\"f\",\"arguments\":{\"a\":1},\"id\":\"abcDEF123\"}, "
       "{\"name\":\"g\",\"arguments\":{},\"id\":\"123456789\"}]",
       "C(f#abcDEF123 {\"a\":1})C(g#123456789 {})"},
      {"mistral_ids_before", FormatKind::kMistral, kNoThinking,
       "[TOOL_CALLS][{\"name\":\"f\",\"id\":\"abcDEF123\",\"arguments\":{\"a\":1}}]", "C(f#abcDEF123 {\"a\":1})"},
      {"mistral_two_ids", FormatKind::kMistral, kNoThinking,
       "[TOOL_CALLS][{\"name\":\"f\",\"id\":\"abcDEF123\",\"arguments\":{\"a\":1},\"id\":\"123456789\"}]",
       "C(f#abcDEF123 {\"a\":1~)T([TOOL_CALLS][{\"name\":\"f\",\"id\":\"abcDEF123\",\"arguments\":{\"a\":1},"
       "\"id\":\"123456789\"}])"},
      {"mistral_arguments", FormatKind::kMistral, kNoThinking,
       "Well[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
       "T(Well)C(f {\"a\": \"[TOOL_CALLS]\"})C(g#123456789 {})"},
      {"deepseek", FormatKind::kDeepSeek, kThink,
       "Ok\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>\n"
       "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "T(Ok)C(f {\"a\": 1})C(g {})"},
      {"deepseek_code_block", FormatKind::kDeepSeek, kThink,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "C(f {\"a\": 1})"},
      {"deepseek_arguments_not_begun", FormatKind::kDeepSeek, kThink,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>",
       "T(<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>)"},
      {"deepseek_section_of_nothing", FormatKind::kDeepSeek, kThink, "<｜tool▁calls▁begin｜>hm",
       "T(<｜tool▁calls▁begin｜>hm)"},
      {"dsml", FormatKind::kDsml, kThink,
       "<think>t</think>A\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
       "<｜DSML｜parameter name=\"a\" string=\"true\">5 < 6 </invoke>\n</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"b\" string=\"false\">[1, 2]</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
       "<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
       "R(t)T(A)C(f {\"a\":\"5 < 6 </invoke>\\n\",\"b\":[1, 2]})C(g {})"},
      {"dsml_v3", FormatKind::kDsmlV3, kThink,
       "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       "C(f {})"},
      {"dsml_unfinished", FormatKind::kDsml, kThink,
       "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">5",
       "C(f {\"a\":\"5~)T(<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
       "string=\"true\">5)"},
      {"harmony", FormatKind::kHarmony, kNoThinking,
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
       "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
       "R(Hm.)T(I look.)C(f {\"a\": 1})"},
      {"harmony_recipient_first", FormatKind::kHarmony, kNoThinking,
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.f<|channel|>commentary "
       "json<|message|>{}",
       "R(Hm.)C(f {})"},
      {"harmony_final", FormatKind::kHarmony, kNoThinking, "<|channel|>final<|message|>Hi there<|return|>",
       "T(Hi there)"},
      {"harmony_plain", FormatKind::kHarmony, kNoThinking, "two\n", "T(two\n)"},
      {"harmony_unfinished", FormatKind::kHarmony, kNoThinking,
       "<|channel|>commentary to=functions.f<|message|>{\"a\": ",
       "C(f {\"a\": ~)T(<|channel|>commentary to=functions.f<|message|>{\"a\": )"},
      {"glm", FormatKind::kGlm, kThink,
       "<think>t</think>\nA\n<tool_call>edit\n<arg_key>path</arg_key>\n<arg_value>5</arg_value>\n"
       "<arg_key>line</arg_key>\n<arg_value>5</arg_value>\n</tool_call>\n<tool_call>pwd</tool_call>",
       "R(t)T(A)C(edit {\"path\":\"5\",\"line\":5})C(pwd {})"},
      {"glm_one_line", FormatKind::kGlm, kThink,
       "<tool_call>edit<arg_key>text</arg_key><arg_value>a</tool_call>b</arg_value></tool_call>",
       "C(edit {\"text\":\"a</tool_call>b\"})"},
      {"kimi", FormatKind::kKimi, kThink,
       "Ok<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}"
       "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
       "<|tool_calls_section_end|>",
       "T(Ok)C(f#functions.f:0 {\"a\": 1})C(g#functions.g:1 {})"},
      {"minimax", FormatKind::kMiniMax, kThink,
       "<think>t</think>\n\n<minimax:tool_call>\n<invoke name=\"edit\">\n<parameter name=\"path\">5</parameter>\n"
       "<parameter name=\"line\">5</parameter>\n</invoke>\n</minimax:tool_call>",
       "R(t)C(edit {\"path\":\"5\",\"line\":5})"},
      {"lfm2", FormatKind::kLfm2, kThink,
       "<think>hm</think>Now.\n<|tool_call_start|>[f(s=\"a\\\"]b\", n=-1.5, o={'k': [1, None, True,], \"e\": 'x'}), "
       "g()]"
       "<|tool_call_end|>Then",
       "R(hm)T(Now.)C(f {\"s\":\"a\\\"]b\",\"n\":-1.5,\"o\":{\"k\":[1,null,true],\"e\":\"x\"}})C(g {})T(Then)"},
      {"lfm2_strings", FormatKind::kLfm2, kThink,
       "<|tool_call_start|>[f(a='it\\'s <|tool_call_end|>', b='\\x41\\u00e9\\ud83d\\udc4b\\d\\n', c=(1,))]"
       "<|tool_call_end|>",
       "C(f {\"a\":\"it's <|tool_call_end|>\",\"b\":\"Aé👋\\\\d\\n\",\"c\":[1]})"},
      {"lfm2_json", FormatKind::kLfm2, kThink,
       "<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {\"a\": \"it's\"}}]<|tool_call_end|>",
       "C(f {\"a\": \"it's\"})"},
      {"lfm2_unfinished", FormatKind::kLfm2, kThink, "Now\n<|tool_call_start|>[f(s=\"a",
       "T(Now\n<|tool_call_start|>[f(s=\"a)"},
      {"lfm2_no_calls", FormatKind::kLfm2, kThink, "<|tool_call_start|>f()<|tool_call_end|>",
       "T(<|tool_call_start|>f()<|tool_call_end|>)"},
      {"lfm2_words", FormatKind::kLfm2, kThink, "<|tool_call_start|>[f(a=b)]<|tool_call_end|>",
       "T(<|tool_call_start|>[f(a=b)]<|tool_call_end|>)"},
      {"command_r", FormatKind::kCommandR, kNoThinking,
       "Plan: look.\nAction: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {\"a\": "
       "\"```\"}\n    },\n {\"tool_name\": \"g\", \"parameters\": {}}\n]```",
       "T(Plan: look.)C(f {\"a\": \"```\"})C(g {})"},
      {"command_r_code", FormatKind::kCommandR, kNoThinking, "Action: ```json\n{\"a\": 1}\n```",
       "T(Action: ```json\n{\"a\": 1}\n```)"},
      {"command_a",
       FormatKind::kCommandA,
       {"<|START_THINKING|>", "<|END_THINKING|>"},
       "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", "
       "\"parameters\": {\"a\": 1}}\n]<|END_ACTION|>",
       "R(hm)C(f {\"a\": 1})"},
      {"command_a_text",
       FormatKind::kCommandA,
       {"<|START_THINKING|>", "<|END_THINKING|>"},
       "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Done. It\nis.<|END_RESPONSE|>",
       "R(hm)T(Done. It\nis.)"},
      {"gemma4",
       FormatKind::kGemma4,
       {"<|channel>thought", "<channel|>"},
       "<|channel>thought\nhm\n<channel|>Ok<|tool_call>call:f{s:<|\"|>a \"b\" "
       "}<|\"|>,n:1,b:true,o:{k:[1,<|\"|>x<|\"|>]}}"
       "<tool_call|><|tool_call>call:g{}<tool_call|>",
       "R(hm)T(Ok)C(f {\"s\":\"a \\\"b\\\" }\",\"n\":1,\"b\":true,\"o\":{\"k\":[1,\"x\"]}})C(g {})"},
      {"gemma4_tag_in_string", FormatKind::kGemma4, kNoThinking,
       "<|tool_call>call:f{s:<|\"|><tool_call|>\n<|\"|>}<tool_call|>", "C(f {\"s\":\"<tool_call|>\\n\"})"},
      {"gemma4_json", FormatKind::kGemma4, kNoThinking, "<|tool_call>call:f{\"s\": \"}\", n: 2}<tool_call|>",
       "C(f {\"s\":\"}\",\"n\":2})"},
      {"gemma4_unfinished", FormatKind::kGemma4, kNoThinking, "Ok <|tool_call>call:f{s:<|\"|>a",
       "T(Ok <|tool_call>call:f{s:<|\"|>a)"},
      {"none", FormatKind::kNone, kThink, "<think>t</think><tool_call>{\"name\":\"f\"}</tool_call>",
       "R(t)T(<tool_call>{\"name\":\"f\"}</tool_call>)"},
  };
  return all;
}

ToolSet known_tools() {
  return ToolSet(ordered_json::parse(R"([{"function":{"name":"f"}},{"function":{"name":"g"}},
    {"type":"function","function":{"name":"edit","parameters":{
    "type":"object","$defs":{"deep":{"anyOf":[{"type":"string"},{"type":"null"}]}},"properties":{
    "path":{"type":"string"},"text":{"$ref":"#/$defs/deep"},"line":{"type":"integer"},"all":{"type":"boolean"},
    "more":{"type":"object"}}}}}])"));
}

class Goldens : public testing::TestWithParam<Golden> {
 protected:
  // With each tag as a token, and with a vocabulary that has none of them.
  void check(bool has_markers) {
    const Golden& golden = GetParam();
    const FakeVocabulary vocabulary(has_markers ? tag_tokens() : std::vector<SpecialToken>{});
    const MarkerSet markers(vocabulary, "");
    const ReplyFormat format = bind_format(golden.kind, golden.thinking, markers);
    const ToolSet known = known_tools();
    const auto bytes = pieces_of(golden.text, markers);
    const auto line = [&](const std::vector<Piece>& pieces) {
      const auto deltas = deltas_of(format, pieces, known, with_calls());
      EXPECT_EQ(broken_rule(deltas), "");
      return in_one_line(deltas, golden.text);
    };
    EXPECT_EQ(line(bytes), golden.expected);
    EXPECT_EQ(line(joined(bytes, [] { return true; })), golden.expected);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      std::size_t at = 0;
      ASSERT_EQ(line(joined(bytes, [&] { return ++at != cut; })), golden.expected) << "cut at " << cut;
    }
  }
};

TEST_P(Goldens, WithTagsAsTokens) { check(true); }

TEST_P(Goldens, WithTagsAsText) {
  if (GetParam().needs_markers) {
    EXPECT_EQ(GetParam().expected.find("C("), GetParam().expected.rfind("C("));  // what the other test covers
    return;
  }
  check(false);
}

INSTANTIATE_TEST_SUITE_P(All, Goldens, testing::ValuesIn(goldens()),
                         [](const auto& golden) { return std::string(golden.param.name); });

// Tags put together at random: whatever comes out, it is the same for all cuts, and nothing but tags is lost.
TEST(RandomReplies, DoNotDependOnCuts) {
  std::mt19937_64 random(test_seed());
  const FakeVocabulary vocabulary(tag_tokens());
  const MarkerSet with_markers(vocabulary, "");
  const FakeVocabulary plain_vocabulary(std::vector<SpecialToken>{});
  const MarkerSet no_markers(plain_vocabulary, "");
  std::vector<std::string> words = {"{",
                                    "}",
                                    "\"",
                                    "\\",
                                    "[",
                                    "]",
                                    ":",
                                    ",",
                                    " ",
                                    "\n",
                                    "name",
                                    "\"name\":\"f\"",
                                    "\"arguments\":",
                                    "{\"name\":\"f\"}",
                                    "to=functions.f",
                                    "<function=f>",
                                    "</function>",
                                    "<parameter=a>",
                                    "</parameter>",
                                    "name=\"f\"",
                                    "<",
                                    "</",
                                    ">",
                                    "invoke",
                                    "parameter",
                                    "tool_calls>",
                                    "analysis",
                                    "x"};
  for (const SpecialToken& token : tag_tokens()) words.push_back(token.spelling);
  for (int round = 0; round < 3000; ++round) {
    const MarkerSet& markers = round % 2 == 0 ? with_markers : no_markers;
    const auto kind = *format_named(format_names()[random() % format_names().size()]);
    const ReplyFormat format = bind_format(kind, kThink, markers);
    const ToolSet none;
    std::vector<Piece> bytes;
    for (std::size_t i = 0; i < 1 + random() % 24; ++i) {
      // Some markers' spellings come as text, as a model writes that repeats a message.
      const bool as_text = random() % 4 == 0;
      for (const Piece& piece : pieces_of(words[random() % words.size()], as_text ? no_markers : markers)) {
        bytes.push_back(piece);
      }
    }
    ReplyOptions options = with_calls();
    options.thinking_open = format.thinking_open.exists() && random() % 4 == 0;
    options.parallel = random() % 4 != 0;
    const bool cut_off = random() % 2 == 0;
    const auto line = [&](const std::vector<Piece>& pieces) {
      const auto deltas = deltas_of(format, pieces, none, options, cut_off);
      EXPECT_EQ(broken_rule(deltas), "") << row_of(kind).name << " round " << round;
      return in_one_line(deltas);
    };
    const std::string expected = line(bytes);
    for (int cut = 0; cut < 4; ++cut) {
      ASSERT_EQ(line(joined(bytes, [&] { return random() % 3 != 0; })), expected)
          << row_of(kind).name << " round " << round;
    }
    ASSERT_EQ(line(joined(bytes, [] { return true; })), expected) << row_of(kind).name << " round " << round;
  }
}

}  // namespace
}  // namespace kvkeep::chat::tools
