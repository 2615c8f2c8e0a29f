// An answer with calls, printed by a chat template and read by the parser of the template's format, is that answer
// again: for each family of templates, with tags that are tokens and with tags that are text.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "chat/render.h"
#include "chat/test_templates_test.h"
#include "chat/tools/reply_text_test.h"

namespace kvkeep::chat::tools {
namespace {

using nlohmann::ordered_json;

struct Call {
  std::string name;
  ordered_json arguments;
};

struct Answer {
  const char* name;
  std::string text = {};
  std::string thinking = {};
  std::vector<Call> calls = {};
};

// The parts of an answer with calls that a template does not print, so that they cannot come back.
enum class Leaves {
  kText,         // the template prints only calls
  kTextThought,  // it prints the text as a thought, in the analysis channel
  kThought,      // it prints thoughts nowhere, or not before calls
  kLaterCalls,   // it prints only the first call
};

// An answer that the template prints so that it reads otherwise.
struct Otherwise {
  const char* answer;
  const char* why;
  std::string read;           // in the form of told()
  bool only_as_text = false;  // only where tags are text
};

struct Family {
  const char* file;  // of tests/jinja/templates; "": kHermes
  FormatKind format;
  std::string end;  // what the template writes after the model's words
  std::vector<Leaves> leaves = {};
  bool one_call_at_a_time = false;  // it raises an exception for more
  std::vector<Otherwise> otherwise = {};
};

const std::vector<Answer>& answers() {
  static const std::string kMarkup = "a \"b\" \\ c\n\td </tool_call> <tool_call>{\"name\": \"x\"} [TOOL_CALLS][{}]}]";
  static const std::vector<Answer> all = {
      {.name = "text", .text = "Just words, \"quoted\".\n\nAnd <b> more."},
      {.name = "call", .calls = {{"write", {{"path", "a b.txt"}, {"text", "x"}}}}},
      {.name = "text_and_call", .text = "I write it.", .calls = {{"write", {{"path", "a"}, {"text", "b"}}}}},
      {.name = "two_calls", .calls = {{"write", {{"path", "a"}, {"text", "b"}}}, {"pwd", ordered_json::object()}}},
      {.name = "thought_and_call", .thinking = "Which file?\nThis one.", .calls = {{"write", {{"path", "a"}}}}},
      {.name = "all",
       .text = "Now.",
       .thinking = "Hm.",
       .calls = {{"write", {{"path", "a"}}}, {"write", {{"path", "b"}}}}},
      {.name = "nested",
       .calls = {{"set",
                  {{"value", {{"a", {1, 2, {{"b", "c"}, {"d", ordered_json::array()}}}}, {"e", "}"}}},
                   {"list", {"x", "]"}}}}}},
      {.name = "kinds",
       .calls = {{"set",
                  {{"count", 5}, {"ratio", -0.5}, {"text", "5"}, {"word", "true"}, {"list", ordered_json::array()}}}}},
      {.name = "booleans", .calls = {{"set", {{"flag", true}, {"other", false}}}}},
      {.name = "unicode",
       .text = "Grüße 👋",
       .calls = {{"write", {{"path", "naïve/日本語.txt"}, {"text", "👩‍👩‍👧 \u00a0é"}}}}},
      {.name = "markup", .calls = {{"write", {{"path", "x"}, {"text", kMarkup}}}}},
      {.name = "spaces", .calls = {{"write", {{"path", " a "}, {"text", "\n\n  b\n"}}}}},
      {.name = "empty", .calls = {{"write", {{"path", ""}, {"text", ""}}}}},
      {.name = "closing_value", .calls = {{"write", {{"text", "</parameter> </arg_value> </function>"}}}}},
  };
  return all;
}

ordered_json tools_of_turns() {
  const auto tool = [](const char* name, ordered_json properties) {
    return ordered_json{{"type", "function"},
                        {"function",
                         {{"name", name},
                          {"description", "A tool."},
                          {"parameters", {{"type", "object"}, {"properties", std::move(properties)}}}}}};
  };
  const auto type = [](const char* name) { return ordered_json{{"type", name}}; };
  return {tool("write", {{"path", type("string")}, {"text", type("string")}}), tool("pwd", ordered_json::object()),
          tool("set", {{"value", type("object")},
                       {"list", type("array")},
                       {"count", type("integer")},
                       {"ratio", type("number")},
                       {"text", type("string")},
                       {"word", type("string")},
                       {"flag", type("boolean")},
                       {"other", type("boolean")}})};
}

std::vector<SpecialToken> vocabulary_of(bool tags_are_tokens) {
  std::vector<SpecialToken> tokens;
  if (tags_are_tokens) tokens = tag_tokens();
  for (const char* spelling : {"<s>",
                               "</s>",
                               "<|im_start|>",
                               "<|im_end|>",
                               "<|im_user|>",
                               "<|im_assistant|>",
                               "<|im_system|>",
                               "<|im_middle|>",
                               "<|start_header_id|>",
                               "<|end_header_id|>",
                               "<|eot_id|>",
                               "[INST]",
                               "[/INST]",
                               "<｜User｜>",
                               "<｜Assistant｜>",
                               "<｜end▁of▁sentence｜>",
                               "<|user|>",
                               "<|assistant|>",
                               "<|START_OF_TURN_TOKEN|>",
                               "<|END_OF_TURN_TOKEN|>"}) {
    tokens.push_back({.id = 0, .spelling = spelling, .control = true});
  }
  return tokens;
}

std::string source_of(const std::string& file) {
  if (file.empty()) return std::string(kHermes);
  std::ifstream stream(std::string(KVKEEP_TEMPLATES) + "/" + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// An id as the family's templates want them.
std::string id_of(FormatKind format, const std::string& name, std::size_t index) {
  return format == FormatKind::kKimi ? "functions." + name + ":" + std::to_string(index)
                                     : "abcdefg1" + std::to_string(index);
}

ordered_json message_of(FormatKind format, const Answer& answer) {
  ordered_json message = {{"role", "assistant"}, {"content", answer.text}};
  if (!answer.thinking.empty()) message["reasoning_content"] = answer.thinking;
  for (const Call& call : answer.calls) {
    const std::size_t index = message.contains("tool_calls") ? message["tool_calls"].size() : 0;
    message["tool_calls"].push_back({{"id", id_of(format, call.name, index)},
                                     {"type", "function"},
                                     {"function", {{"name", call.name}, {"arguments", call.arguments.dump()}}}});
  }
  return message;
}

// The same for the same values, however their JSON is written.
std::string told(const std::string& thinking, const std::string& text, const std::vector<Call>& calls) {
  std::string line;
  if (!thinking.empty()) line += "R(" + thinking + ")";
  if (!text.empty()) line += "T(" + text + ")";
  for (const Call& call : calls) line += "C(" + call.name + " " + nlohmann::json(call.arguments).dump() + ")";
  return line;
}

std::string told(const std::vector<ReplyDelta>& deltas) {
  std::string thinking, text;
  std::vector<Call> calls;
  std::string arguments;
  for (const ReplyDelta& delta : deltas) {
    if (delta.kind == DeltaKind::kReasoning) thinking += delta.text;
    if (delta.kind == DeltaKind::kText) text += delta.text;
    if (delta.kind == DeltaKind::kCallBegin) arguments.clear();
    if (delta.kind == DeltaKind::kCallBegin) calls.push_back({delta.call_name, "broken off"});
    if (delta.kind == DeltaKind::kCallArguments) arguments += delta.text;
    if (delta.kind == DeltaKind::kCallEnd && delta.is_whole) calls.back().arguments = ordered_json::parse(arguments);
  }
  return told(thinking, text, calls);
}

class Chat {
 public:
  Chat(const Family& family, bool tags_are_tokens)
      : family_(family),
        source_(source_of(family.file)),
        vocabulary_(vocabulary_of(tags_are_tokens)),
        markers_(vocabulary_, source_),
        template_(std::move(make_chat_template(source_, {.bos = "<s>", .eos = end_token(family)})).value()),
        format_(bind_format(detect_format(source_), detect_thinking(source_), markers_)) {}

  FormatKind format() const { return format_.kind; }

  // Reads the turn that the template prints for the answer; `bytewise`: cut wherever it can be.
  std::string read_again(const Answer& answer, bool bytewise) const {
    const ordered_json user = {{"role", "user"}, {"content", "Do."}};
    const RenderedPrompt opening = render({user}, true);
    std::vector<Piece> turn = behind(opening.text(), render({user, message_of(format_.kind, answer)}, false));
    if (bytewise) {
      std::vector<Piece> bytes;
      for (const Piece& piece : turn) {
        if (piece.is_marker) bytes.push_back(piece);
        for (const char byte : piece.is_marker ? std::string() : piece.text) bytes.push_back({std::string(1, byte)});
      }
      turn = std::move(bytes);
    }
    ReplyOptions options = with_calls();
    options.thinking_open = thinking_is_open(format_, opening);
    const auto deltas = deltas_of(format_, turn, ToolSet(tools_of_turns()), options);
    EXPECT_EQ(broken_rule(deltas), "");
    return told(deltas);
  }

 private:
  static std::string end_token(const Family& family) { return family.end.empty() ? "</s>" : family.end; }

  RenderedPrompt render(ordered_json messages, bool opening) const {
    auto prompt =
        render_prompt(*template_, markers_,
                      {.messages = std::move(messages), .tools = tools_of_turns(), .add_generation_prompt = opening});
    if (!prompt) throw std::runtime_error(std::string(family_.file) + ": " + prompt.error().message);
    return std::move(prompt).value();
  }

  // The text after the opening and before the end of the turn.
  std::vector<Piece> behind(const std::string& opening, const RenderedPrompt& prompt) const {
    const std::string all = prompt.text();
    EXPECT_TRUE(all.starts_with(opening)) << all;
    const std::size_t end = family_.end.empty() ? all.size() : all.rfind(family_.end);
    EXPECT_NE(end, std::string::npos) << all;
    std::vector<Piece> pieces;
    std::size_t at = 0;
    for (const PromptSpan& span : prompt.spans) {
      const std::size_t begin = std::max(at, opening.size());
      at += span.text.size();
      if (begin >= std::min(at, end)) continue;
      pieces.push_back({all.substr(begin, std::min(at, end) - begin), span.kind == SpanKind::kMarker});
    }
    return pieces;
  }

  const Family& family_;
  const std::string source_;
  FakeVocabulary vocabulary_;
  MarkerSet markers_;
  std::unique_ptr<ChatTemplate> template_;
  ReplyFormat format_;
};

const std::vector<Family>& families() {
  static const std::string kOpen = "<tool_call>\n<function=write>\n<parameter=text>\n";
  static const std::vector<Family> all = {
      {.file = "", .format = FormatKind::kHermes, .end = "<|im_end|>"},
      {.file = "hermes.jinja",
       .format = FormatKind::kHermes,
       .end = "<|im_end|>",
       .leaves = {Leaves::kText, Leaves::kThought}},
      {.file = "qwen3.jinja", .format = FormatKind::kHermes, .end = "<|im_end|>"},
      {.file = "qwen3_coder.jinja",
       .format = FormatKind::kQwenCoder,
       .end = "<|im_end|>",
       .leaves = {Leaves::kThought},
       .otherwise = {{.answer = "closing_value",
                      .why = "values are bare text, and </parameter> is no token of any of its vocabularies",
                      .read = "T(" + kOpen +
                              "</parameter> </arg_value> </function>\n</parameter>\n</function>\n"
                              "</tool_call>)C(write \"broken off\")"}}},
      {.file = "llama3.jinja",
       .format = FormatKind::kLlama,
       .end = "<|eot_id|>",
       .leaves = {Leaves::kText, Leaves::kThought},
       .one_call_at_a_time = true},
      {.file = "mistral.jinja",
       .format = FormatKind::kMistral,
       .end = "</s>",
       .leaves = {Leaves::kText, Leaves::kThought},
       .otherwise = {{.answer = "text",
                      .why = "the template writes a space of its own before every answer",
                      .read = "T( Just words, \"quoted\".\n\nAnd <b> more.)"}}},
      {.file = "deepseek.jinja",
       .format = FormatKind::kDeepSeek,
       .end = "<｜end▁of▁sentence｜>",
       .leaves = {Leaves::kThought}},
      {.file = "glm4.jinja",
       .format = FormatKind::kGlm,
       .end = "",
       .otherwise = {{.answer = "closing_value",
                      .why = "values are bare text: without a token for it, </arg_value> in one ends it",
                      .read = "T(<tool_call>write\n<arg_key>text</arg_key>\n<arg_value></parameter> </arg_value> "
                              "</function></arg_value>\n</tool_call>)C(write \"broken off\")",
                      .only_as_text = true}}},
      {.file = "kimi.jinja", .format = FormatKind::kKimi, .end = "<|im_end|>", .leaves = {Leaves::kThought}},
      {.file = "lfm2.jinja",
       .format = FormatKind::kLfm2,
       .end = "<|im_end|>",
       .otherwise = {{.answer = "thought_and_call",
                      .why = "it writes calls before the thought, and a thought stands at a reply's beginning",
                      .read = "T(<think>Which file?\nThis one.</think>)C(write {\"path\":\"a\"})"},
                     {.answer = "all",
                      .why = "the same",
                      .read = "T(<think>Hm.</think>Now.)C(write {\"path\":\"a\"})C(write {\"path\":\"b\"})"}}},
      {.file = "command_r.jinja",
       .format = FormatKind::kCommandR,
       .end = "<|END_OF_TURN_TOKEN|>",
       .leaves = {Leaves::kThought}},
      {.file = "harmony.jinja",
       .format = FormatKind::kHarmony,
       .end = "",
       .leaves = {Leaves::kTextThought, Leaves::kLaterCalls}},
  };
  return all;
}

// The expected reading of the answer, in the form of told().
std::string expected_of(const Family& family, const Answer& answer, bool tags_are_tokens) {
  for (const Otherwise& one : family.otherwise) {
    if (answer.name == std::string_view(one.answer) && !(one.only_as_text && tags_are_tokens)) return one.read;
  }
  Answer left = answer;
  for (const Leaves what : answer.calls.empty() ? std::vector<Leaves>() : family.leaves) {
    if (what == Leaves::kThought) left.thinking.clear();
    if (what == Leaves::kTextThought && !left.text.empty()) left.thinking = left.text;
    if (what == Leaves::kTextThought || what == Leaves::kText) left.text.clear();
    if (what == Leaves::kLaterCalls) left.calls.resize(1);
  }
  return told(left.thinking, left.text, left.calls);
}

TEST(RoundTrip, ThePrintOfATemplateIsReadAgain) {
  for (const Family& family : families()) {
    for (const bool tags_are_tokens : {true, false}) {
      const Chat chat(family, tags_are_tokens);
      ASSERT_EQ(chat.format(), family.format) << family.file;
      for (const Answer& answer : answers()) {
        SCOPED_TRACE(std::string(family.file) + " " + answer.name + (tags_are_tokens ? "" : ", tags are text"));
        if (family.one_call_at_a_time && answer.calls.size() > 1) {
          EXPECT_THROW((void)chat.read_again(answer, false), std::runtime_error);
          continue;
        }
        const std::string expected = expected_of(family, answer, tags_are_tokens);
        EXPECT_EQ(chat.read_again(answer, false), expected);
        EXPECT_EQ(chat.read_again(answer, true), expected);
      }
    }
  }
}

// Templates whose calls stand in no format that is read: text, as the model wrote it.
TEST(RoundTrip, CallsInOtherFormatsAreText) {
  for (const Family& family : {Family{.file = "phi.jinja", .format = FormatKind::kNone, .end = "</s>"},
                               Family{.file = "gemma3.jinja", .format = FormatKind::kNone, .end = "<end_of_turn>"}}) {
    const Chat chat(family, true);
    ASSERT_EQ(chat.format(), family.format) << family.file;
    const std::string read = chat.read_again(answers()[2], false);
    EXPECT_EQ(read.rfind("C("), std::string::npos) << read;
    EXPECT_NE(read.find("I write it."), std::string::npos) << read;
    EXPECT_NE(read.find("write"), std::string::npos) << read;
  }
}

}  // namespace
}  // namespace kvkeep::chat::tools
