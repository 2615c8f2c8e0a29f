#include "chat/prompt_places.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/render.h"
#include "chat/test_templates_test.h"
#include "chat/tokenize.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

// A template with its vocabulary, and the place of each byte of a prompt as one letter.
struct Placed {
  explicit Placed(std::string_view source, bool add_bos = false)
      : vocabulary(FakeVocabulary::standard_special(), add_bos), markers(vocabulary, source), sizes(vocabulary) {
    auto made = make_chat_template(source, {.bos = "<s>", .eos = "</s>"});
    if (!made) throw std::runtime_error(made.error().message);
    engine = std::move(made).value();
  }
  void render(ordered_json messages, ordered_json tools = {}) {
    auto rendered = render_prompt(*engine, markers, {.messages = std::move(messages), .tools = std::move(tools)});
    if (!rendered) throw std::runtime_error(rendered.error().message);
    auto tokenized = tokenize_prompt(vocabulary, markers, *rendered);
    if (!tokenized) throw std::runtime_error(tokenized.error().message);
    ids = std::move(*tokenized);
    const bool put_first = vocabulary.add_bos() && rendered->spans.front().marker != ids.front();
    parts = parts_of(*rendered, ids, sizes, put_first ? 1 : 0);
  }
  // The text of all tokens of a place.
  std::string text_of(const PromptPlace& place) const {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (parts.parts[parts.find(Position{} + i)].place == place) text += vocabulary.piece(ids[i], true);
    }
    return text;
  }

  FakeVocabulary vocabulary;
  MarkerSet markers;
  PieceSizes sizes;
  std::unique_ptr<ChatTemplate> engine;
  std::vector<TokenId> ids;
  PromptParts parts;
};

ordered_json talk() {
  return ordered_json::array({{{"role", "system"}, {"content", "be kind <|im_end|> ok"}},
                              {{"role", "user"}, {"content", "hello"}},
                              {{"role", "assistant"}, {"content", "hi"}, {"reasoning_content", "they greet"}},
                              {{"role", "user"}, {"content", "bye"}}});
}

constexpr PromptPlace content(PromptRole role, std::uint32_t message) { return {PromptField::kContent, role, message}; }

TEST(PromptPlaces, EachTokenKnowsItsMessage) {
  for (const bool add_bos : {false, true}) {
    Placed placed("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}<|im_start|>", add_bos);
    placed.render(talk());
    EXPECT_EQ(placed.text_of(content(PromptRole::kSystem, 0)), "be kind <|im_end|> ok");
    EXPECT_EQ(placed.text_of(content(PromptRole::kUser, 1)), "hello");
    EXPECT_EQ(placed.text_of(content(PromptRole::kAssistant, 2)), "hi");
    EXPECT_EQ(placed.text_of(content(PromptRole::kUser, 3)), "bye");
    EXPECT_EQ(placed.parts.messages, 4U);
    EXPECT_EQ(placed.parts.has_thoughts, std::vector<std::uint32_t>{2});
    EXPECT_TRUE(placed.parts.sent_thoughts(2));
    EXPECT_FALSE(placed.parts.sent_thoughts(1));
  }
}

TEST(PromptPlaces, TheTemplatesWordsAreTheTemplates) {
  Placed placed(kHermes);
  placed.render(ordered_json::array({{{"role", "user"}, {"content", "hello"}}}));
  EXPECT_EQ(placed.text_of({}), "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
}

// Through filters and slices, and with the template's own signs between the strings of one member.
TEST(PromptPlaces, MembersAreTheirsThroughFilters) {
  Placed placed(
      "{% for t in tools %}{{ t | tojson }};{% endfor %}"
      "{% for m in messages %}{{ m.content[1:] | upper }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}"
      "{% endif %}{% endfor %}");
  const ordered_json tool = {{"type", "function"},
                             {"function", {{"name", "f"}, {"description", "d"}, {"parameters", {{"n", 1}}}}}};
  ordered_json call = {{"role", "assistant"}, {"content", "xcall"}};
  call["tool_calls"] = ordered_json::array(
      {{{"id", "1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{\"a\": 12}"}}}}});
  placed.render(ordered_json::array({{{"role", "user"}, {"content", "xhello"}}, call}),
                ordered_json::array({tool, tool}));
  EXPECT_EQ(placed.text_of(content(PromptRole::kUser, 0)), "HELLO");
  EXPECT_EQ(placed.text_of(content(PromptRole::kAssistant, 1)), "CALL");
  const std::string calls = placed.text_of({PromptField::kCalls, PromptRole::kAssistant, 1});
  EXPECT_NE(calls.find("\"function\": {\"name\": \"f\", \"arguments\":"), std::string::npos) << calls;
  for (const std::uint32_t number : {0U, 1U}) {
    const std::string text = placed.text_of({PromptField::kTool, PromptRole::kNone, number});
    EXPECT_NE(text.find("\"description\": \"d\", \"parameters\": {\"n"), std::string::npos) << text;
  }
}

// For any spans and any lengths of tokens, each token has the place of its first byte.
TEST(PromptPlaces, AgreesWithBytesExhaustively) {
  const FakeVocabulary vocabulary;
  const MarkerSet markers(vocabulary, "");
  const PieceSizes sizes(vocabulary);
  const TokenId marker = *vocabulary.bos() + 2;
  const std::vector<PromptSpan> choices = {
      {.kind = SpanKind::kText, .marker = -1, .text = "hello "},
      {.kind = SpanKind::kMessageText, .marker = -1, .text = "wor", .place = 1},
      {.kind = SpanKind::kMessageText, .marker = -1, .text = "ld hello", .place = 2},
      {.kind = SpanKind::kMarker, .marker = marker, .text = vocabulary.piece(marker, true)}};
  for (std::size_t number = 0; number < 4 * 4 * 4 * 4; ++number) {
    RenderedPrompt prompt;
    prompt.places.members = {{PromptField::kContent, PromptRole::kUser, 0},
                             {PromptField::kThinking, PromptRole::kUser, 1}};
    for (std::size_t rest = number, i = 0; i < 4; ++i, rest /= 4) prompt.spans.push_back(choices[rest % 4]);
    std::vector<PromptPlace> of_byte;
    for (const PromptSpan& span : prompt.spans) {
      const bool message = span.kind == SpanKind::kMessageText;
      of_byte.insert(of_byte.end(), span.text.size(), message ? prompt.places.at(span.place) : PromptPlace{});
    }
    const auto ids = tokenize_prompt(vocabulary, markers, prompt);
    ASSERT_TRUE(ids.ok());
    const PromptParts parts = parts_of(prompt, *ids, sizes);
    std::size_t byte = 0;
    for (std::size_t i = 0; i < ids->size(); ++i) {
      const PromptPlace& found = parts.parts[parts.find(Position{} + i)].place;
      // The template's words between two pieces of one member belong to it.
      const bool between = of_byte[byte] == PromptPlace{} && found != PromptPlace{};
      if (!between) {
        ASSERT_EQ(found, of_byte[byte]) << number << " at " << i;
      }
      byte += sizes.of((*ids)[i]);
    }
  }
}

TEST(PromptPlaces, MoveWithTheirTurns) {
  const auto part = [](std::uint32_t begin, std::uint32_t message) {
    return PromptPart{Position{begin}, content(PromptRole::kUser, message)};
  };
  PromptParts parts{.parts = {part(0, 0), part(10, 1), part(14, 2), part(20, 3), part(27, 4)}};
  move_parts(parts, {Position{10}, Position{20}}, {Position{10}, Position{13}}, Position{18});
  EXPECT_EQ(parts.parts, (std::vector{part(0, 0), part(10, 1), part(13, 2), part(13, 3), part(18, 4)}));
  move_parts(parts, {Position{1}}, {}, Position{2});
  EXPECT_EQ(parts.parts.back(), part(18, 4)) << "turns that do not match change nothing";
}

}  // namespace
}  // namespace kvkeep::chat
