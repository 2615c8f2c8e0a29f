#include "chat/render.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/test_templates_test.h"
#include "chat/tokenize.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

std::uint32_t seed_of_renders() {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const std::uint32_t seed = given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : 20240611;
  std::cout << "KVKEEP_TEST_SEED=" << seed << "\n";
  return seed;
}

// A template, the markers it makes, and the vocabulary: what a server has after loading a model.
struct Chat {
  explicit Chat(std::string_view source, bool add_bos = false)
      : vocabulary(FakeVocabulary::standard_special(), add_bos), markers(vocabulary, source) {
    auto made = make_chat_template(source, {.bos = "<s>", .eos = "</s>"});
    if (!made) throw std::runtime_error(made.error().message);
    engine = std::move(made).value();
  }
  RenderedPrompt render(ordered_json messages, ordered_json tools = {}) const {
    auto prompt = render_prompt(*engine, markers, {.messages = std::move(messages), .tools = std::move(tools)});
    if (!prompt) throw std::runtime_error(prompt.error().message);
    return std::move(prompt).value();
  }
  std::vector<TokenId> tokens(const RenderedPrompt& prompt) const {
    auto ids = tokenize_prompt(vocabulary, markers, prompt);
    if (!ids) throw std::runtime_error(ids.error().message);
    return std::move(ids).value();
  }
  // The markers of a prompt in order, by spelling.
  std::vector<std::string> marker_list(const std::vector<TokenId>& ids) const {
    std::vector<std::string> list;
    for (const TokenId id : ids) {
      if (const Marker* marker = markers.find(id)) list.push_back(marker->spelling);
    }
    return list;
  }

  FakeVocabulary vocabulary;
  MarkerSet markers;
  std::unique_ptr<ChatTemplate> engine;
};

ordered_json user(std::string content) { return {{"role", "user"}, {"content", std::move(content)}}; }

// As llama-server prints them, whatever a client leaves out, adds or puts first.
TEST(Render, ToolsHaveOneForm) {
  const auto form = [](const char* tool) {
    return canonical_tools(ordered_json::array({ordered_json::parse(tool)})).dump();
  };
  EXPECT_EQ(form(R"({"type":"function","function":{"name":"f"}})"),
            R"([{"type":"function","function":{"name":"f","description":"","parameters":{}}}])");
  EXPECT_EQ(form(R"({"function":{"parameters":{"b":1,"a":2},"strict":true,"description":"d","name":"f"},"more":1})"),
            R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"b":1,"a":2}}}])");
  EXPECT_EQ(form(R"({"type":"function","function":{"name":"f","description":null,"parameters":null}})"),
            form(R"({"type":"function","function":{"name":"f"}})"));
  EXPECT_EQ(form(R"({"name":"f"})"), R"([{"name":"f"}])") << "no tool of OpenAI's shape";
  EXPECT_EQ(canonical_tools(nullptr), nullptr);
}

TEST(Render, MarkersAreIdsAndTextIsText) {
  const Chat chat(kHermes);
  const RenderedPrompt prompt = chat.render(ordered_json::array({user("hello world")}));
  EXPECT_EQ(prompt.text(), "<|im_start|>user\nhello world<|im_end|>\n<|im_start|>assistant\n");
  ASSERT_EQ(prompt.spans.size(), 7u);
  EXPECT_EQ(prompt.spans[0].kind, SpanKind::kMarker);
  EXPECT_EQ(prompt.spans[0].marker, *chat.vocabulary.id_of("<|im_start|>"));
  EXPECT_EQ(prompt.spans[1].text, "user\n");
  EXPECT_EQ(prompt.spans[2].kind, SpanKind::kMessageText);
  EXPECT_EQ(prompt.spans[2].text, "hello world");
}

TEST(Render, ASpellingInAMessageComesBackAsMessageText) {
  const Chat chat(kHermes);
  const RenderedPrompt prompt = chat.render(ordered_json::array({user("say <|im_end|> and <think> now")}));
  EXPECT_EQ(prompt.text(), "<|im_start|>user\nsay <|im_end|> and <think> now<|im_end|>\n<|im_start|>assistant\n");
  std::vector<std::string> from_message;
  for (const PromptSpan& span : prompt.spans) {
    if (span.kind == SpanKind::kMessageText) from_message.push_back(span.text);
  }
  EXPECT_EQ(from_message, (std::vector<std::string>{"say <|im_end|> and <think> now"}));
  const auto ids = chat.tokens(prompt);
  EXPECT_EQ(chat.marker_list(ids), (std::vector<std::string>{"<|im_start|>", "<|im_end|>", "<|im_start|>"}));
  EXPECT_EQ(chat.vocabulary.text_of(ids, true), prompt.text());
}

TEST(Render, NeighboursDoNotCompleteASpelling) {
  const Chat chat(kRough);
  ordered_json messages = ordered_json::array();
  messages.push_back({{"role", "user"}, {"name", "think"}, {"content", "<|im_"}});
  messages.push_back({{"role", "user"}, {"name", "think>"}, {"content", "x  </thi  "}});
  messages.push_back({{"role", "assistant"},
                      {"content", "start|> y"},
                      {"tool_calls",
                       {{{"type", "function"},
                         {"function", {{"name", "f"}, {"arguments", R"({"tool_call":"<thi","think":"nk>"})"}}}}}}});
  const auto ids = chat.tokens(chat.render(messages));
  EXPECT_EQ(chat.marker_list(ids), (std::vector<std::string>{"<s>", "<|im_start|>", "<|im_end|>", "<|im_start|>",
                                                             "<|im_end|>", "<|im_start|>", "<|im_end|>"}));
}

TEST(Render, EscapedSpellingsInArgumentsStayText) {
  const Chat chat(kHermes);
  ordered_json messages = ordered_json::array({user("q")});
  messages.push_back(
      {{"role", "assistant"},
       {"content", nullptr},
       {"tool_calls",
        {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", R"({"a":"\u003c|im_end|>"})"}}}}}}});
  const RenderedPrompt prompt = chat.render(messages);
  EXPECT_NE(prompt.text().find(R"("arguments": {"a": "<|im_end|>"})"), std::string::npos) << prompt.text();
  EXPECT_EQ(chat.marker_list(chat.tokens(prompt)),
            (std::vector<std::string>{"<|im_start|>", "<|im_end|>", "<|im_start|>", "<tool_call>", "</tool_call>",
                                      "<|im_end|>", "<|im_start|>"}));
}

TEST(Render, TemplatesThatReplaceCannotAssembleAMarker) {
  const Chat chat("{% for m in messages %}<|im_start|>{{ m.content.replace('<x>', '') }}<|im_end|>{% endfor %}");
  const RenderedPrompt prompt = chat.render(ordered_json::array({user("a <|im_<x>start|> b")}));
  EXPECT_EQ(chat.marker_list(chat.tokens(prompt)), (std::vector<std::string>{"<|im_start|>", "<|im_end|>"}));
}

TEST(Render, PartsThatATemplateCutsOutOfAMessageStayText) {
  const Chat chat(
      "{% for m in messages %}<|im_start|>{{ m.content[:-3] }}{{ m.content[2:] }}{{ m.content | upper }}{% endfor %}");
  const RenderedPrompt prompt = chat.render(ordered_json::array({user("x <think>")}));
  EXPECT_EQ(prompt.text(), "<|im_start|>x <thi<think>X <THINK>");
  EXPECT_EQ(chat.marker_list(chat.tokens(prompt)), (std::vector<std::string>{"<|im_start|>"}));
}

TEST(Render, AMessageDoesNotMakeALongerMarkerOfTheTemplates) {
  const Chat chat("{% for m in messages %}<tool_call>{{ m.content }}{% endfor %}");
  EXPECT_EQ(chat.marker_list(chat.tokens(chat.render(ordered_json::array({user("<think>")})))),
            (std::vector<std::string>{"<tool_call>"}));
}

TEST(Render, ThinkingHasTheNameTheTemplateReads) {
  const Chat chat("{% for m in messages %}{{ m.thinking }}|{{ m.content }}{% endfor %}");
  ordered_json answer = {{"role", "assistant"}, {"content", "A"}, {"reasoning_content", "T"}};
  EXPECT_EQ(chat.render(ordered_json::array({user("U"), answer})).text(), "|UT|A");
  // Where a call next to both is refused, the content stays and the thinking goes.
  const Chat strict(
      "{% for m in messages %}{% if m.tool_calls and m.content and m.thinking %}{{ raise_exception('no') }}"
      "{% endif %}{{ m.thinking }}|{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson "
      "}}{% endfor %}{% endfor %}");
  answer["tool_calls"] = ordered_json::parse(R"([{"type":"function","function":{"name":"f","arguments":"{}"}}])");
  EXPECT_EQ(strict.render(ordered_json::array({user("U"), answer})).text(), "|U|A{}");
  answer["content"] = "";
  EXPECT_EQ(strict.render(ordered_json::array({user("U"), answer})).text(), "|UT|{}");
}

TEST(Render, BothFormsOfContentGiveTheSamePrompt) {
  const Chat chat(kHermes);
  ordered_json parts = {{"role", "user"},
                        {"content", {{{"type", "text"}, {"text", "one"}}, {{"type", "text"}, {"text", "two"}}}}};
  EXPECT_EQ(chat.render(ordered_json::array({parts})).text(),
            chat.render(ordered_json::array({user("one\ntwo")})).text());
}

TEST(Render, DeveloperBecomesSystemWhereTheTemplateDoesNotKnowIt) {
  const Chat chat(kHermes);
  const ordered_json messages = ordered_json::array({{{"role", "developer"}, {"content", "D"}}, user("q")});
  EXPECT_TRUE(chat.render(messages).text().starts_with("<|im_start|>system\nD<|im_end|>"));
}

TEST(Render, ReasoningLeftInTheContentMovesWhereTheTemplateWouldCutIt) {
  const Chat chat(std::string(kHermes) + "{# content.split('</think>') #}");
  ordered_json messages =
      ordered_json::array({user("q"), {{"role", "assistant"}, {"content", "<think>\nwhy\n</think>\n\nanswer"}}});
  const auto canonical = canonical_messages(*chat.engine, messages);
  EXPECT_EQ(canonical[1]["reasoning_content"], "why");
  EXPECT_EQ(canonical[1]["content"], "answer");
  EXPECT_NE(chat.render(messages).text().find("<think>\nwhy\n</think>\n\nanswer<|im_end|>"), std::string::npos);
}

TEST(Render, AnAssistantPrefixIsMessageTextAfterTheOpening) {
  const Chat chat(kHermes);
  auto prompt = render_prompt(*chat.engine, chat.markers,
                              {.messages = ordered_json::array({user("q")}), .assistant_prefix = "Sure<|im_end|>"});
  ASSERT_TRUE(prompt.ok());
  EXPECT_TRUE(prompt->text().ends_with("<|im_start|>assistant\nSure<|im_end|>"));
  EXPECT_EQ(chat.marker_list(chat.tokens(*prompt)).size(), 3u);
}

// In the manner of Qwen 3: a last answer has a thought, be it empty.
constexpr std::string_view kThinksLast =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' and loop.last %}"
    "{{ '<think>\n' + (m.reasoning_content or '').strip('\n') + '\n</think>\n\n' + m.content.lstrip('\n') }}"
    "{% else %}{{ m.content.split('</think>')[-1] }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

std::string going_on(std::string_view source, std::string prefix, std::string reasoning = {}) {
  const Chat chat(source);
  const auto prompt = render_prompt(*chat.engine, chat.markers,
                                    {.messages = ordered_json::array({user("q")}),
                                     .assistant_prefix = std::move(prefix),
                                     .assistant_reasoning = std::move(reasoning)});
  const std::string text = prompt.ok() ? prompt->text() : prompt.error().message;
  const std::size_t answer = text.rfind("<|im_start|>assistant\n");
  return answer == std::string::npos ? text : text.substr(answer + 22);
}

TEST(Render, AnAnswerGoesOnWhereTheTemplateWritesIt) {
  EXPECT_EQ(going_on(kThinksLast, "So"), "<think>\n\n</think>\n\nSo");
  EXPECT_EQ(going_on(kThinksLast, "\n So \n"), "<think>\n\n</think>\n\n\n So \n")
      << "the client's words stay as they are";
  EXPECT_EQ(going_on(kThinksLast, "So", "hm"), "<think>\nhm\n</think>\n\nSo");
  EXPECT_EQ(going_on(kThinksLast, "<think>\nhm\n</think>\n\nSo"), "<think>\nhm\n</think>\n\nSo");
  EXPECT_EQ(going_on(kThinksLast, "<|im_end|>"), "<think>\n\n</think>\n\n<|im_end|>") << "text, and no marker";
}

TEST(Render, AThoughtWithoutAnAnswerGoesOn) {
  EXPECT_EQ(going_on(kThinksLast, "", "hm"), "<think>\nhm");
  EXPECT_EQ(going_on(kThinksLast, "<think>\nhm"), "<think>\nhm");
  EXPECT_EQ(going_on(kThinksLast, "<think>\n"), "<think>\n");
}

TEST(Render, WhereTheTemplateShowsNoAnswerItFollowsTheOpening) {
  constexpr std::string_view kNoAnswers =
      "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor "
      "%}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  EXPECT_EQ(going_on(kNoAnswers, "So"), "So");
  EXPECT_EQ(going_on(kNoAnswers, "So", "hm"), "So");
}

TEST(Render, BrokenArgumentsStillRender) {
  const Chat chat(kRough);
  ordered_json messages = ordered_json::array({user("q")});
  messages.push_back(
      {{"role", "assistant"},
       {"tool_calls", {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{\"a\": <think>"}}}}}}});
  const std::string text = chat.render(messages).text();
  EXPECT_NE(text.find("<arguments>{\"a\": <think></arguments>"), std::string::npos) << text;
}

// Hostile text: spellings, parts of spellings, white space, digits, JSON's own characters.
std::string hostile_text(std::mt19937& random, const MarkerSet& markers) {
  std::string text;
  for (std::size_t parts = random() % 5; parts > 0; --parts) {
    const std::string& spelling = markers.markers()[random() % markers.markers().size()].spelling;
    const std::size_t begin = random() % spelling.size();
    switch (random() % 6) {
      case 0: text += spelling; break;
      case 1: text += spelling.substr(0, begin); break;
      case 2: text += spelling.substr(begin); break;
      case 3: text += spelling.substr(begin, 1 + random() % 3); break;
      case 4: text += " \n\t#1729<>\"\\/|"[random() % 14]; break;
      default: text += "hello wörld "; break;
    }
  }
  return text;
}

ordered_json hostile_conversation(std::mt19937& random, const MarkerSet& markers) {
  const auto text = [&] { return hostile_text(random, markers); };
  ordered_json messages = ordered_json::array();
  for (std::size_t count = 1 + random() % 4; count > 0; --count) {
    ordered_json message = {{"role", random() % 2 == 0 ? "user" : "tool"}, {"name", text()}};
    if (random() % 2 == 0)
      message["content"] = text();
    else
      message["content"] = {{{"type", "text"}, {"text", text()}}, {{"type", "text"}, {"text", text()}}};
    messages.push_back(message);
    const ordered_json arguments = {{text(), text()}, {"nested", {text(), {{text(), text()}}}}};
    messages.push_back({{"role", "assistant"},
                        {"content", text()},
                        {"reasoning_content", "because"},
                        {"tool_calls",
                         {{{"type", "function"},
                           {"id", text()},
                           {"function", {{"name", text()}, {"arguments", arguments.dump()}}}}}}});
  }
  return messages;
}

// The same conversation with nothing hostile in it: what markers the template writes by itself.
ordered_json tame(const ordered_json& value) {
  if (value.is_string()) return "x";
  ordered_json copy = value;
  if (copy.is_array()) {
    for (ordered_json& element : copy) element = tame(element);
  } else if (copy.is_object()) {
    for (auto& [key, element] : copy.items()) {
      if (key == "arguments")
        element = R"({"k":"x","nested":["x",{"x":"x"}]})";
      else if (key != "role" && key != "type")
        element = tame(element);
    }
  }
  return copy;
}

TEST(RenderProperty, MessageTextNeverYieldsAMarker) {
  std::mt19937 random(seed_of_renders());
  const ordered_json no_tools;
  for (const std::string_view source : {kHermes, kRough, default_template_source()}) {
    const Chat chat(source);
    for (int round = 0; round < 200; ++round) {
      const ordered_json messages = hostile_conversation(random, chat.markers);
      ordered_json tools = {
          {{"type", "function"},
           {"function",
            {{"name", hostile_text(random, chat.markers)},
             {"description", hostile_text(random, chat.markers)},
             {"parameters",
              {{"type", "object"}, {"properties", {{hostile_text(random, chat.markers), {{"type", "string"}}}}}}}}}}};
      const auto hostile = chat.tokens(chat.render(messages, tools));
      const auto harmless = chat.tokens(chat.render(tame(messages), tools));
      ASSERT_EQ(chat.marker_list(hostile), chat.marker_list(harmless)) << messages.dump(1);
    }
  }
}

TEST(RenderProperty, TextSurvivesWhole) {
  std::mt19937 random(seed_of_renders());
  const Chat chat(default_template_source());
  for (int round = 0; round < 500; ++round) {
    const std::string text = hostile_text(random, chat.markers);
    const RenderedPrompt prompt = chat.render(ordered_json::array({user(text)}));
    ASSERT_EQ(prompt.text(), "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n");
    ASSERT_EQ(chat.vocabulary.text_of(chat.tokens(prompt), true), prompt.text());
  }
}

TEST(RenderProperty, AGrowingConversationKeepsItsIds) {
  std::mt19937 random(seed_of_renders());
  const Chat chat(kHermes);
  for (int round = 0; round < 100; ++round) {
    ordered_json messages = ordered_json::array();
    std::vector<TokenId> before;
    for (int turn = 0; turn < 6; ++turn) {
      messages.push_back(user(hostile_text(random, chat.markers)));
      messages.push_back({{"role", "assistant"}, {"content", hostile_text(random, chat.markers)}});
      auto prompt = render_prompt(*chat.engine, chat.markers, {.messages = messages, .add_generation_prompt = false});
      ASSERT_TRUE(prompt.ok());
      const auto now = chat.tokens(*prompt);
      ASSERT_TRUE(now.size() >= before.size() &&
                  std::equal(before.begin(), before.end() - (before.empty() ? 0 : 1), now.begin()));
      before = now;
    }
  }
}

}  // namespace
}  // namespace kvkeep::chat
