// From a reply to the next prompt, which has the turn as it was sampled, in whatever form the client sends it back.

#include "server/routes/exact_replay.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "server/routes/prompt.h"
#include "server/routes/replay_service_test.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::server {
namespace {

using nlohmann::ordered_json;

// Keeps all thinking; writes calls with the spaces of tojson.
constexpr std::string_view kKeepsThinking = R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.reasoning_content -%}{{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' -}}{%- endif -%}
{{- message.content -}}
{%- for call in message.tool_calls or [] -%}
{{- '<tool_call>\n' -}}{{- {'name': call.function.name, 'arguments': call.function.arguments} | tojson -}}{{- '\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%})";

// The same, but leaves out the thinking of earlier turns.
std::string drops_thinking() {
  std::string source(kKeepsThinking);
  const std::string condition = "if message.reasoning_content";
  return source.replace(source.find(condition), condition.size(), "if message.reasoning_content and loop.last");
}

class ExactReplayTest : public ::testing::Test {
 protected:
  ExactReplayTest() { use_template(kKeepsThinking); }

  void use_template(std::string_view source) {
    serve_template(service_, vocabulary_, std::string(source), chat::tools::FormatKind::kHermes, files_, executor_);
    EXPECT_FALSE(service_.turn_openings.assistant.empty());
  }

  std::vector<TokenId> prompt_of(const ordered_json& messages) const {
    chat::RenderInput input;
    input.messages = messages;
    api::PromptSource source = std::move(input);
    return read_prompt(service_, source).value().ids;
  }

  // Returns how often the messages are rendered for one prompt.
  std::size_t renders_of(const ordered_json& messages) {
    std::size_t renders = 0;
    const Render render = [&](chat::RenderInput changed) {
      ++renders;
      auto turns = std::exchange(service_.turns, nullptr);
      api::PromptSource source = std::move(changed);
      Result<Prompt> prompt = read_prompt(service_, source);
      service_.turns = std::move(turns);
      return prompt;
    };
    chat::RenderInput input;
    input.messages = messages;
    EXPECT_EQ(replay_sampled(service_, input, render(input).value(), render).ids, prompt_of(messages));
    return renders;
  }

  // One token per byte, unlike any tokenizer; markers as themselves.
  std::vector<TokenId> sampled_ids(const std::string& text) const {
    std::vector<TokenId> ids;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = 1;
      TokenId id = static_cast<unsigned char>(text[at]);
      for (const SpecialToken& token : vocabulary_->special_tokens()) {
        if (text.compare(at, token.spelling.size(), token.spelling) != 0) continue;
        id = token.id;
        length = token.spelling.size();
      }
      ids.push_back(id);
      at += length;
    }
    return ids;
  }

  // A reply to the messages; returns the ids that the next prompt should begin with: `told` of it, and the end.
  std::vector<TokenId> replied(const ordered_json& messages, const std::string& told, const std::string& end = kEnd,
                               const std::vector<std::string>& call_ids = {}, const std::string& stop = "") {
    std::vector<TokenId> ids = prompt_of(messages);
    TurnRecorder recorder(service_, ids);
    for (const TokenId id : sampled_ids(told + end)) recorder.add_token(id);
    for (const std::string& id : call_ids) recorder.add_call(id);
    recorder.finish(stop);
    for (const TokenId id : sampled_ids(told + kEnd)) ids.push_back(id);
    return ids;
  }

  // Returns true if a turn that comes back as `echo`, before a question, is in the prompt as it was sampled.
  bool keeps_sampled(const std::vector<TokenId>& head, ordered_json messages, const ordered_json& echo) const {
    messages.push_back(echo);
    messages.push_back(user("next"));
    const auto prompt = prompt_of(messages);
    return common_prefix(prompt, head) == head.size();
  }
  // Returns true if the prompt is the same as without replay.
  bool is_untouched(ordered_json messages, const ordered_json& echo) {
    messages.push_back(echo);
    messages.push_back(user("next"));
    const auto prompt = prompt_of(messages);
    service_.turns = nullptr;
    return prompt == prompt_of(messages);
  }

  static ordered_json user(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
  static ordered_json assistant(const std::string& text) { return {{"role", "assistant"}, {"content", text}}; }
  static ordered_json call(const std::string& id, const std::string& arguments) {
    ordered_json message = assistant("");
    message["tool_calls"] = {
        {{"id", id}, {"type", "function"}, {"function", {{"name", "edit"}, {"arguments", arguments}}}}};
    return message;
  }
  static ordered_json with_reasoning(ordered_json message, const std::string& reasoning) {
    message["reasoning_content"] = reasoning;
    return message;
  }

  static inline const std::string kEnd = "<|im_end|>";
  const ordered_json asked_ = {user("question")};
  sim::SimFileSystem files_;
  sim::SimExecutor executor_;
  const std::shared_ptr<chat::FakeVocabulary> vocabulary_ = std::make_shared<chat::FakeVocabulary>();
  Service service_;
};

TEST_F(ExactReplayTest, ATextComesBackInTheIdsThatWereSampled) {
  const auto head = replied(asked_, " hello world \n");
  EXPECT_TRUE(keeps_sampled(head, asked_, assistant("hello world")));
  EXPECT_FALSE(keeps_sampled(head, asked_, assistant("hello word"))) << "the client changed it";
}

TEST_F(ExactReplayTest, CallsComeBackAsTheModelSpelledThem) {
  const std::string spelled = R"(<tool_call>{"name":"edit",  "arguments": { "file" :"x" }}</tool_call>)";
  const auto head = replied(asked_, spelled, kEnd, {"call_7"});
  EXPECT_TRUE(keeps_sampled(head, asked_, call("call_7", R"({"replace_all":false,"file":"x"})")));
  EXPECT_TRUE(keeps_sampled(head, asked_, call("call_8", R"({"file": "x"})"))) << "under another name it says the same";
  EXPECT_FALSE(keeps_sampled(head, asked_, call("call_8", R"({"replace_all":false,"file":"x"})"))) << "nobody knows";
  EXPECT_FALSE(keeps_sampled(head, asked_, call("call_7", R"({"file": "y"})")));
}

// Some clients send the parts of a turn apart: the calls after the texts, which a line end joins.
TEST_F(ExactReplayTest, TextOnBothSidesOfACallComesBack) {
  const std::string call_text = R"(<tool_call>{"name":"edit",  "arguments":{ }}</tool_call>)";
  const auto head = replied(asked_, " one" + call_text + " two " + call_text + "three", kEnd, {"a", "b"});
  const auto echo = [&](const std::string& text) {
    ordered_json message = call("a", "{}");
    message["tool_calls"].push_back(message["tool_calls"][0]);
    message["content"] = text;
    return message;
  };
  EXPECT_TRUE(keeps_sampled(head, asked_, echo("one\ntwo\nthree")));
  EXPECT_TRUE(keeps_sampled(head, asked_, echo("one two three")));
  EXPECT_FALSE(keeps_sampled(head, asked_, echo("one\ntwo")));
  EXPECT_FALSE(keeps_sampled(head, asked_, echo("o ne\ntwo\nthree")));
}

TEST_F(ExactReplayTest, NumbersOfCallsAreTheSameOnlyIfNoDigitDiffers) {
  const auto arguments = [](const std::string& number) { return std::string("{\"at\":  ").append(number).append("}"); };
  const auto head = [&](const std::string& number) {
    const std::string spelled = R"(<tool_call>{"name":"edit",  "arguments": )" + arguments(number) + "}</tool_call>";
    return replied(asked_, spelled, kEnd, {"a"});
  };
  EXPECT_TRUE(keeps_sampled(head("9223372036854775807"), asked_, call("a", arguments("9223372036854775807"))));
  EXPECT_TRUE(keeps_sampled(head("1e20"), asked_, call("a", arguments("100000000000000000000"))));
  EXPECT_FALSE(keeps_sampled(head("100000000000000000001"), asked_, call("a", arguments("100000000000000000000"))));
}

TEST_F(ExactReplayTest, ThinkingThatTheClientDroppedComesBack) {
  const auto head = replied(asked_, "<think>hm, hello</think>so");
  EXPECT_TRUE(keeps_sampled(head, asked_, assistant("so")));
  EXPECT_TRUE(keeps_sampled(head, asked_, with_reasoning(assistant("so"), "hm, hello"))) << "sent back, it is the same";
  EXPECT_FALSE(keeps_sampled(head, asked_, with_reasoning(assistant("so"), "something else")));
}

TEST_F(ExactReplayTest, ATemplateThatDropsThinkingHasTheLastWord) {
  use_template(drops_thinking());
  const auto head = replied(asked_, "<think>hm</think>so");
  EXPECT_FALSE(keeps_sampled(head, asked_, assistant("so")));
  EXPECT_TRUE(is_untouched(asked_, assistant("so")));
}

// Many models expect that thinking stays until the user speaks again.
TEST_F(ExactReplayTest, ThoughtsComeBackAfterThoughtsThatTheTemplateLeavesOut) {
  std::string source(kKeepsThinking);
  const std::string condition = "if message.reasoning_content";
  const std::string loop = "{%- for message in messages -%}";
  source.replace(source.find(condition), condition.size(), "if message.reasoning_content and loop.index0 > ns.asked");
  source.replace(source.find(loop), loop.size(),
                 "{%- set ns = namespace(asked=0) -%}{%- for message in messages -%}{%- if message.role == 'user' -%}"
                 "{%- set ns.asked = loop.index0 -%}{%- endif -%}{%- endfor -%}" +
                     loop);
  use_template(source);
  ordered_json messages = ordered_json::array();
  const ordered_json result = {{"role", "tool"}, {"tool_call_id", "a"}, {"content", "done"}};
  for (int round = 0; round < 12; ++round) {
    messages.push_back(user(std::to_string(round)));
    for (int step = 0; step < 3; ++step) {
      const std::string thought = "<think>hm " + std::to_string(step) + "</think>";
      const auto head = replied(messages, thought + R"(<tool_call>{"name":"edit","arguments":{ }}</tool_call>)");
      messages.push_back(call("a", "{}"));
      messages.push_back(result);
      const auto prompt = prompt_of(messages);
      ASSERT_EQ(common_prefix(prompt, head), head.size()) << round << ", " << step;
    }
    EXPECT_EQ(renders_of(messages), 3U) << round;
    (void)replied(messages, "<think>well</think>so");
    messages.push_back(assistant("so"));
  }
  messages.push_back(user("next"));
  EXPECT_EQ(renders_of(messages), 2U) << "no thought is written";
}

TEST_F(ExactReplayTest, ThoughtsThatComeBackAsTextWereNotLeftOut) {
  use_template(drops_thinking());
  (void)replied(asked_, "<think>hm</think>so");
  EXPECT_TRUE(is_untouched(asked_, assistant("<think>hm</think>so")));
}

TEST_F(ExactReplayTest, TextAfterAnEarlierAnswerIsNoTurn) {
  ordered_json messages = {user("one"), assistant("two"), user("three")};
  chat::RenderInput input;
  input.messages = messages;
  input.add_generation_prompt = false;
  api::PromptSource source = input;
  TurnRecorder recorder(service_, read_prompt(service_, source).value().ids);
  for (const TokenId id : sampled_ids("four<|im_end|>")) recorder.add_token(id);
  recorder.finish("");
  EXPECT_EQ(service_.turns->size(), 0U);
}

TEST_F(ExactReplayTest, ATurnCutByItsLengthComesBackWithTheTemplatesEnd) {
  EXPECT_TRUE(keeps_sampled(replied(asked_, " so far", ""), asked_, assistant("so far")));
  EXPECT_TRUE(
      keeps_sampled(replied(asked_, "<think> hm</think>  and", ""), asked_, with_reasoning(assistant("and"), "hm")));
  EXPECT_TRUE(keeps_sampled(replied(asked_, "<think>oh</think>", ""), asked_, with_reasoning(assistant(""), "oh")));
  EXPECT_TRUE(keeps_sampled(replied(asked_, "<think>ah</think>  then", ""), asked_, assistant("then")))
      << "thinking dropped";
}

TEST_F(ExactReplayTest, NothingIsRememberedWhereNothingWasSampled) {
  (void)replied(asked_, "", "");
  EXPECT_EQ(service_.turns->size(), 0U);
}

TEST_F(ExactReplayTest, AThoughtOrACallCutByTheLengthIsAsTheClientSendsIt) {
  const std::string call_text = R"(<tool_call>{"name": "edit", "arguments": {"file": "x"}})";
  (void)replied(asked_, "<think> hm", "");
  EXPECT_TRUE(is_untouched(asked_, with_reasoning(assistant(""), "hm")));
  use_template(kKeepsThinking);
  (void)replied(asked_, call_text, "", {"call_1"});
  EXPECT_TRUE(is_untouched(asked_, call("call_1", R"({"file": "x"})"))) << "told as a call, but never closed";
  use_template(kKeepsThinking);
  (void)replied(asked_, " <tool_call>{\"name", "");
  EXPECT_TRUE(is_untouched(asked_, assistant("<tool_call>{\"name"))) << "text is no marker";
}

TEST_F(ExactReplayTest, ATurnThatTheModelEndedInItsOwnWayEndsAsTheTemplateHasIt) {
  const auto head = replied(asked_, " hello ", "</s>");
  EXPECT_TRUE(keeps_sampled(head, asked_, assistant("hello")));
}

TEST_F(ExactReplayTest, TextBeforeAStopStringComesBack) {
  const std::vector<std::pair<std::string, std::string>> cuts = {
      {" so far", "STOP"}, {" so ", "<|im_start|>"}, {" so f", "hello"}, {"   ", "x"}};
  for (const auto& [told, stop] : cuts) {
    const auto head = replied(asked_, told, stop, {}, stop);
    EXPECT_TRUE(keeps_sampled(head, asked_, assistant(told.substr(1)))) << told;
  }
  const auto thought = replied(asked_, "<think>hm</think>", "x", {}, "x");
  EXPECT_TRUE(keeps_sampled(thought, asked_, with_reasoning(assistant(""), "hm"))) << "the marker before it is one";
  // In the middle of a token: its first part is there as text.
  service_.turns =
      std::make_unique<TurnKeeper>(TurnKeeperOptions{mebibytes(1), vocabulary_->size()}, files_, executor_);
  std::vector<TokenId> head = prompt_of(asked_);
  TurnRecorder recorder(service_, head);
  for (const TokenId id : {TokenId{' '}, TokenId{'a'}, vocabulary_->tokenize("hello", {})[0]}) recorder.add_token(id);
  recorder.finish("llo");
  for (const char byte : std::string(" ahe")) head.push_back(byte);
  head.push_back(*vocabulary_->id_of(kEnd));
  EXPECT_TRUE(keeps_sampled(head, asked_, assistant("ahe")));
  EXPECT_FALSE(keeps_sampled(head, asked_, assistant("a")));
}

TEST_F(ExactReplayTest, AStopStringThatIsNotInWhatWasSampledLeavesNothing) {
  (void)replied(asked_, " \xE2", "\x82 x", {}, "\uFFFD");
  EXPECT_EQ(service_.turns->size(), 0U);
}

// The end of a code point, and a stop string: the token's part that the client got is no text by itself.
class TornVocabulary final : public chat::FakeVocabulary {
 public:
  std::string piece(TokenId id, bool with_special) const override {
    return id == 'Z' ? "\x82\xACSTOP" : FakeVocabulary::piece(id, with_special);
  }
};

TEST_F(ExactReplayTest, AStopStringAfterHalfACodePointLeavesNothing) {
  service_.vocabulary = std::make_shared<TornVocabulary>();
  TurnRecorder recorder(service_, prompt_of(asked_));
  for (const TokenId id : {0xE2, int{'Z'}}) recorder.add_token(id);
  recorder.finish("STOP");
  EXPECT_EQ(service_.turns->size(), 0U);
}

TEST_F(ExactReplayTest, ManyTurnsStandAsSampled) {
  ordered_json messages = ordered_json::array();
  for (int turn = 0; turn < 12; ++turn) {
    messages.push_back(user(std::to_string(turn)));
    const char* end = turn % 3 == 0 ? "<|im_end|>" : turn % 3 == 1 ? "</s>" : "";
    const auto head = replied(messages, "  the hello world", end);
    ASSERT_TRUE(keeps_sampled(head, messages, assistant("the hello world"))) << turn;
    messages.push_back(assistant("the hello world"));
  }
}

TEST_F(ExactReplayTest, ARestartKnowsWhatWasSampled) {
  ASSERT_TRUE(files_.make_directories("/cache"));
  const auto open = [&] {
    service_.turns = nullptr;
    service_.turns = std::make_unique<TurnKeeper>(TurnKeeperOptions{mebibytes(1), vocabulary_->size(), "/cache/turns"},
                                                  files_, executor_);
  };
  open();
  const auto head = replied(asked_, " hello ");
  const ordered_json other = ordered_json::array({user("other")});
  const auto cut = replied(other, " hell", "");
  open();
  EXPECT_TRUE(keeps_sampled(head, asked_, assistant("hello")));
  EXPECT_TRUE(keeps_sampled(cut, other, assistant("hell")));
}

}  // namespace
}  // namespace kvkeep::server
