// The learnt changes of templates in the manner of common model families, and the turns of their tool loops.

#include "chat/history_changes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/synthetic.h"
#include "chat/test_templates_test.h"
#include "chat/tokenize.h"
#include "chat/turns.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;
using synthetic::Thinking;

// ---- templates ----

const std::string kToolList =
    "{%- macro tool_list() %}{{- 'You may call:' }}{%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}"
    "{%- endmacro %}";
const std::string kAnswerOpening = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}";
const std::string kCalls =
    "{%- for call in message.tool_calls or [] %}"
    "{{- '<tool_call>' + call.function.name + ' ' }}{{- call.function.arguments | tojson }}{{- '</tool_call>' }}"
    "{%- endfor %}";

// ChatML: the system message and tools by `head`, assistant turns by `thinking`, tool results as user turns with a
// marker of their own.
std::string chatml(const std::string& head, const std::string& thinking, const std::string& opening = kAnswerOpening) {
  return head +
         "{%- for message in messages %}{%- if message.role == 'user' %}"
         "{{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}"
         "{%- elif message.role == 'assistant' %}{{- '<|im_start|>assistant\n' }}" +
         thinking + "{{- message.content }}" + kCalls +
         "{{- '<|im_end|>\n' }}"
         "{%- elif message.role == 'tool' %}"
         "{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}"
         "{%- endif %}{%- endfor %}" +
         opening;
}

const std::string kSystemFirst = kToolList +
                                 "{%- if tools or messages[0].role == 'system' %}{{- '<|im_start|>system\n' }}"
                                 "{%- if messages[0].role == 'system' %}{{- messages[0].content + '\n' }}{%- endif %}"
                                 "{%- if tools %}{{- tool_list() }}{%- endif %}{{- '<|im_end|>\n' }}{%- endif %}";
const std::string kToolsFirst =
    kToolList +
    "{%- if tools or messages[0].role == 'system' %}{{- '<|im_start|>system\n' }}"
    "{%- if tools %}{{- tool_list() + '\n' }}{%- endif %}"
    "{%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}{{- '<|im_end|>\n' }}{%- endif %}";

const std::string kKept =
    "{%- if message.reasoning_content %}{{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{%- endif %}";
const std::string kLastTask =
    "{%- set state = namespace(task=-1) %}{%- for message in messages %}"
    "{%- if message.role == 'user' %}{%- set state.task = loop.index0 %}{%- endif %}{%- endfor %}";
const std::string kKeptSinceLastTask =
    "{%- if loop.index0 > state.task and message.reasoning_content %}"
    "{{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{%- endif %}";
const std::string kThinkingOpening =
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}";

// Cuts thinking out of every content; results have markers of their own.
const std::string kDropsAlways =
    "{{- bos_token }}{%- for message in messages %}{%- if message.role == 'system' %}{{- message.content }}"
    "{%- elif message.role == 'user' %}{{- '<|User|>' + message.content }}"
    "{%- elif message.role == 'assistant' %}{%- set content = message.content %}"
    "{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1] %}{%- endif %}"
    "{{- '<|Assistant|>' + content }}" +
    kCalls +
    "{{- '<|end|>' }}"
    "{%- elif message.role == 'tool' %}{{- '<|result|>' + message.content + '<|end|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|Assistant|><think>\n' }}{%- endif %}";

// The engine writes what such a template does not know as text: tools in the system message, results as user turns.
const std::string kNoToolRole =
    "{%- for message in messages %}{%- if message.role not in ['system', 'user', 'assistant'] %}"
    "{{- raise_exception('no such role') }}{%- endif %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endfor %}" +
    kAnswerOpening;
const std::string kFewMessages =
    "{%- if messages | length > 3 %}{{- raise_exception('too long a talk') }}{%- endif %}" +
    chatml(kSystemFirst, kKept);
const std::string kOneQuestion =
    "{%- for message in messages %}{%- if message.role not in ['system', 'user'] %}"
    "{{- raise_exception('one question') }}{%- endif %}{{- message.content + '\n' }}{%- endfor %}";

// Tools stand next to the last user message.
const std::string kToolsAtTheLastTask =
    kToolList + kLastTask +
    "{{- bos_token }}{%- for message in messages %}{%- if message.role == 'user' %}"
    "{%- if tools and loop.index0 == state.task %}{{- '[TOOLS]' + tool_list() + '[/TOOLS]' }}{%- endif %}"
    "{{- '[INST]' + message.content + '[/INST]' }}"
    "{%- elif message.role == 'assistant' %}{{- message.content }}" +
    kCalls +
    "{{- eos_token }}"
    "{%- elif message.role == 'tool' %}{{- '[RESULT]' + message.content + '[/RESULT]' }}"
    "{%- elif message.role == 'system' %}{{- message.content }}{%- endif %}{%- endfor %}";

// The date stands next to tools.
std::string dated(const std::string& format) {
  return "{%- if tools %}{{- '<|im_start|>system\nToday is ' + strftime_now('" + format +
         "') + '<|im_end|>\n' }}{%- endif %}" + chatml(kSystemFirst, kKept);
}

struct LearntFamily {
  std::string name;
  std::string source;
  HistoryChanges expected;
  std::string words;        // of the log line, after "chat template: "
  std::string tool_result;  // the opening of results that look like user turns
};

constexpr Change kUnknown = Change::kUnknown;
constexpr Change kNothing = Change::kNothing;
constexpr Change kReply = Change::kReply;
constexpr Change kToolLoop = Change::kLoop;
constexpr Change kEarlier = Change::kEarlier;

std::vector<LearntFamily> learnt_families() {
  const std::string never = "earlier turns never change";
  const std::string since =
      "thinking stays until the next user message, and is dropped then from all since the one before";
  const std::string result = "<|im_start|>user\n<tool_response>\n";
  return {
      {"keeps thinking",
       chatml(kSystemFirst, kKept),
       {kNothing, kNothing, kNothing, Order::kSystemFirst, Clock::kNone},
       never + "; tools come after the system message",
       result},
      {"keeps thinking, results open as user turns do",
       std::string(kHermes),
       {kNothing, kNothing, kNothing, Order::kSystemFirst, Clock::kNone},
       never + "; tools come after the system message",
       ""},
      {"drops thinking before the last user message",
       kLastTask + chatml(kSystemFirst, kKeptSinceLastTask),
       {kReply, kNothing, kToolLoop, Order::kSystemFirst, Clock::kNone},
       since + "; tools come after the system message",
       result},
      {"the same, and opens thinking for the new answer",
       kLastTask + chatml(kToolsFirst, kKeptSinceLastTask, kThinkingOpening),
       {kReply, kNothing, kToolLoop, Order::kToolsFirst, Clock::kNone},
       since + "; tools come before the system message",
       result},
      {"drops thinking from all answers",
       kDropsAlways,
       {kReply, kReply, kReply, Order::kToolsFirst, Clock::kNone},
       "every reply with thinking is written anew; tools come before the system message",
       ""},
      {"tools first",
       chatml(kToolsFirst, kKept),
       {kNothing, kNothing, kNothing, Order::kToolsFirst, Clock::kNone},
       never + "; tools come before the system message",
       result},
      {"refuses the role of tool results",
       kNoToolRole,
       {kReply, kReply, kReply, Order::kToolsFirst, Clock::kNone},
       "every reply with thinking is written anew; tools come before the system message",
       "<|im_start|>user\n{\n  \"tool_response\": {\n    \"tool\": \"kvkeeptool\",\n    \"content\": \""},
      {"refuses long conversations",
       kFewMessages,
       {kNothing, kNothing, kUnknown, Order::kSystemFirst, Clock::kNone},
       "earlier turns never change; it refuses tool calls; tools come after the system message",
       result},
      {"takes one question",
       kOneQuestion,
       {kUnknown, kUnknown, kUnknown, Order::kToolsFirst, Clock::kNone},
       "where it changes earlier turns is not known (it refuses such conversations); tools come before the system "
       "message",
       ""},
      {"tools beside the last user message",
       kToolsAtTheLastTask,
       {kReply, kReply, kEarlier, Order::kSystemFirst, Clock::kNone},
       "a user message changes what lies before the last one, too; tools come after the system message",
       ""},
      {"the date",
       dated("%d %b %Y"),
       {kNothing, kNothing, kNothing, Order::kSystemFirst, Clock::kDate},
       never + "; tools come after the system message; it writes the date",
       result},
      {"the time",
       dated("%H:%M"),
       {kNothing, kNothing, kNothing, Order::kSystemFirst, Clock::kTimeOfDay},
       never + "; tools come after the system message; it writes the time of day, which changes every prompt",
       result},
      {"refuses everything",
       "{{- raise_exception('never') }}",
       {},
       "where it changes earlier turns is not known (it refuses such conversations)",
       ""},
  };
}

struct LearntChat {
  explicit LearntChat(const std::string& source) : vocabulary(special()), markers(vocabulary, source) {
    auto made = make_chat_template(source, {.bos = "<s>", .eos = "</s>"});
    if (!made) throw std::runtime_error(made.error().message);
    engine = std::move(made).value();
  }
  static std::vector<SpecialToken> special() {
    std::vector<SpecialToken> tokens;
    for (const char* control : {"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|User|>", "<|Assistant|>", "<|end|>",
                                "<|result|>", "[INST]", "[/INST]", "[TOOLS]", "[/TOOLS]", "[RESULT]", "[/RESULT]"}) {
      tokens.push_back({.id = 0, .spelling = control, .control = true});
    }
    for (const char* defined : {"<think>", "</think>", "<tool_response>", "</tool_response>"}) {
      tokens.push_back({.id = 0, .spelling = defined, .control = false});
    }
    return tokens;
  }
  HistoryChanges learn() const { return learn_history_changes(*engine, markers); }

  FakeVocabulary vocabulary;
  MarkerSet markers;
  std::unique_ptr<ChatTemplate> engine;
};

std::string told(Change change) {
  constexpr const char* kNames[] = {"unknown", "nothing", "reply", "loop", "earlier"};
  return kNames[static_cast<int>(change)];
}

std::string told(const HistoryChanges& changes) {
  return told(changes.next_message) + " " + told(changes.tool_result) + " " + told(changes.after_tools) + " order " +
         std::to_string(static_cast<int>(changes.order)) + " clock " + std::to_string(static_cast<int>(changes.clock));
}

TEST(HistoryChanges, AreLearntFromEachFamilyOfTemplates) {
  for (const LearntFamily& family : learnt_families()) {
    SCOPED_TRACE(family.name);
    const LearntChat chat(family.source);
    EXPECT_EQ(told(chat.learn()), told(family.expected));
    EXPECT_EQ(describe(chat.learn()), "chat template: " + family.words);
    std::string opening;
    const TurnOpenings openings = learn_turn_openings(*chat.engine, chat.markers, chat.vocabulary);
    for (const TokenId id : openings.tool_result) opening += chat.vocabulary.piece(id, true);
    EXPECT_EQ(opening, family.tool_result);
  }
}

// Only where `<think>` is no marker does thinking that clients send as text have the ids that were sampled.
TEST(HistoryChanges, ThinkingInTheContentStaysWhereItIsNoMarker) {
  const std::vector<SpecialToken> special{{.id = 0, .spelling = "<|im_start|>", .control = true},
                                          {.id = 0, .spelling = "<|im_end|>", .control = true}};
  const FakeVocabulary vocabulary(special);
  const MarkerSet markers(vocabulary, default_template_source());
  const auto engine = make_chat_template("", {});
  ASSERT_TRUE(engine.ok());
  const HistoryChanges changes = learn_history_changes(**engine, markers);
  EXPECT_EQ(changes.next_message, kNothing);
  EXPECT_EQ(changes.after_tools, kNothing);
  EXPECT_FALSE(changes.loop_may_change());
}

TEST(HistoryChanges, TheServersTemplateVariablesAreUsedHereToo) {
  const LearntChat chat(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content and keep %}<think>"
      "{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const auto next_message = [&](const ordered_json& kwargs) {
    return learn_history_changes(*chat.engine, chat.markers, kwargs).next_message;
  };
  EXPECT_EQ(next_message(nullptr), kReply);
  EXPECT_EQ(next_message({{"keep", true}}), kNothing);
  // It knows no tools, so that the server says where they stand.
  const auto order = [&](bool tools_first) {
    return learn_history_changes(*chat.engine, chat.markers, nullptr, tools_first).order;
  };
  EXPECT_EQ(order(true), Order::kToolsFirst);
  EXPECT_EQ(order(false), Order::kSystemFirst);
}

TEST(HistoryChanges, OnlyWhatIsKnownToStayNeedsNoPlaceToReturnTo) {
  for (const Change change : {kUnknown, kNothing, kReply, kToolLoop, kEarlier}) {
    HistoryChanges changes;
    changes.after_tools = change;
    EXPECT_EQ(changes.loop_may_change(), change != kNothing && change != kReply);
  }
}

// A conversation as two agents have it: three tool loops, of two calls each. The words of a result are what comes first
// in some users' messages, too.
ordered_json loops(const std::string& content) {
  ordered_json messages = ordered_json::array();
  for (int task = 0; task < 3; ++task) {
    messages.push_back(synthetic::message("user", content));
    for (int call = 0; call < 2; ++call) {
      messages.push_back(synthetic::call("why not", Thinking::kField));
      messages.push_back(synthetic::result(content));
    }
    messages.push_back(synthetic::answer("so", "Done.", Thinking::kField));
  }
  messages.push_back(synthetic::message("user", content));
  return messages;
}

TEST(HistoryChanges, ToolResultsAreToldFromUserTurns) {
  for (const LearntFamily& family : learnt_families()) {
    SCOPED_TRACE(family.name);
    if (family.tool_result.empty() || family.source == kFewMessages) continue;
    const LearntChat chat(family.source);
    const TurnOpenings openings = learn_turn_openings(*chat.engine, chat.markers, chat.vocabulary);
    for (const std::string content : {"Do it.", "\n\n<tool_response>\n{}", "7", " {}"}) {
      RenderInput input;
      input.messages = loops(content);
      input.tools = synthetic::tools("Reads.");
      const auto rendered = render_prompt(*chat.engine, chat.markers, std::move(input));
      ASSERT_TRUE(rendered.ok());
      const PromptTurns turns = find_turns(*tokenize_prompt(chat.vocabulary, chat.markers, *rendered), openings);
      EXPECT_EQ(turns.user.size(), 4U) << content;
      EXPECT_EQ(turns.tool_results.size(), 6U) << content;
      EXPECT_EQ(turns.assistant.size(), 10U) << content;
      EXPECT_EQ(turns.stable_end, turns.assistant.back());
    }
  }
}

}  // namespace
}  // namespace kvkeep::chat
