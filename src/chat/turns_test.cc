#include "chat/turns.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/test_templates_test.h"
#include "chat/tokenize.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

// One family of templates: its source, its markers, and what must be learnt.
struct TurnFamily {
  std::string name;
  std::string source;
  std::vector<std::string> markers;
  std::string user;
  std::string assistant;
};

const std::string kLoop = "{%- for message in messages %}";
const std::string kEnd = "{%- endfor %}";

std::vector<TurnFamily> turn_families() {
  return {
      {"chatml", std::string(kHermes), {"<|im_start|>", "<|im_end|>"}, "<|im_start|>user", "<|im_start|>assistant"},
      {"chatml with a system prompt of its own",
       "{%- if messages[0].role != 'system' %}{{- '<|im_start|>system\nYou help.<|im_end|>\n' }}{%- endif %}" + kLoop +
           "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}" + kEnd +
           "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}",
       {"<|im_start|>", "<|im_end|>"},
       "<|im_start|>user",
       "<|im_start|>assistant"},
      {"thinking is opened for the new answer alone",
       kLoop + "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}" + kEnd +
           "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}",
       {"<|im_start|>", "<|im_end|>", "<think>", "</think>"},
       "<|im_start|>user",
       "<|im_start|>assistant"},
      {"headers",
       "{{- bos_token }}" + kLoop +
           "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content + '<|eot_id|>' }}" +
           kEnd +
           "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}",
       {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       "<|start_header_id|>user<|end_header_id|>",
       "<|start_header_id|>assistant<|end_header_id|>"},
      {"one marker for each role",
       "{{- bos_token }}" + kLoop +
           "{%- if message.role == 'user' %}{{- '<|User|>' + message.content }}"
           "{%- elif message.role == 'assistant' %}{{- '<|Assistant|>' + message.content + '<|end|>' }}"
           "{%- else %}{{- message.content }}{%- endif %}" +
           kEnd + "{%- if add_generation_prompt %}{{- '<|Assistant|>' }}{%- endif %}",
       {"<|User|>", "<|Assistant|>", "<|end|>"},
       "<|User|>",
       "<|Assistant|>"},
      {"channels",
       kLoop +
           "{%- if message.role == 'assistant' %}"
           "{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}"
           "{%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{%- endif %}" +
           kEnd + "{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}",
       {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"},
       "<|start|>user<|message|>",
       "<|start|>assistant"},
      {"instructions in brackets",
       "{{- bos_token }}" + kLoop +
           "{%- if message.role == 'user' %}{{- '[INST]' + message.content + '[/INST]' }}"
           "{%- else %}{{- message.content + '</s>' }}{%- endif %}" +
           kEnd,
       {"[INST]", "[/INST]"},
       "[INST]",
       "[/INST]"},
      {"no markers", kLoop + "{{- message.role + ': ' + message.content + '\n' }}" + kEnd, {}, "", ""},
      {"refuses", "{{- raise_exception('never') }}", {"<|im_start|>"}, "", ""},
  };
}

struct TurnChat {
  explicit TurnChat(const TurnFamily& family) : vocabulary(special(family)), markers(vocabulary, family.source) {
    auto made = make_chat_template(family.source, {.bos = "<s>", .eos = "</s>"});
    if (!made) throw std::runtime_error(made.error().message);
    engine = std::move(made).value();
  }
  static std::vector<SpecialToken> special(const TurnFamily& family) {
    std::vector<SpecialToken> tokens;
    for (const char* always : {"<s>", "</s>"}) tokens.push_back({.id = 0, .spelling = always, .control = true});
    for (const std::string& marker : family.markers) tokens.push_back({.id = 0, .spelling = marker, .control = true});
    return tokens;
  }
  std::string text(const std::vector<TokenId>& ids) const {
    std::string text;
    for (const TokenId id : ids) text += vocabulary.piece(id, true);
    return text;
  }
  std::vector<TokenId> prompt(ordered_json messages) const {
    auto rendered = render_prompt(*engine, markers, {.messages = std::move(messages)});
    if (!rendered) throw std::runtime_error(rendered.error().message);
    return *tokenize_prompt(vocabulary, markers, *rendered);
  }

  FakeVocabulary vocabulary;
  MarkerSet markers;
  std::unique_ptr<ChatTemplate> engine;
};

TEST(Turns, OpeningsAreLearntFromEachFamilyOfTemplates) {
  for (const TurnFamily& family : turn_families()) {
    SCOPED_TRACE(family.name);
    const TurnChat chat(family);
    const TurnOpenings openings = learn_turn_openings(*chat.engine, chat.markers, chat.vocabulary);
    EXPECT_EQ(chat.text(openings.user), family.user);
    EXPECT_EQ(chat.text(openings.assistant), family.assistant);
  }
}

TEST(Turns, AreFoundWhateverTheMessagesSay) {
  for (const TurnFamily& family : turn_families()) {
    SCOPED_TRACE(family.name);
    if (family.user.empty()) continue;
    const TurnChat chat(family);
    const TurnOpenings openings = learn_turn_openings(*chat.engine, chat.markers, chat.vocabulary);
    const std::vector<TokenId> prompt = chat.prompt({{{"role", "system"}, {"content", "Be " + family.user + " kind."}},
                                                     {{"role", "user"}, {"content", "\n\nWhat is " + family.assistant}},
                                                     {{"role", "assistant"}, {"content", "\n" + family.user}},
                                                     {{"role", "user"}, {"content", "And then?"}}});
    const PromptTurns turns = find_turns(prompt, openings);
    EXPECT_EQ(turns.user.size(), 2U);
    EXPECT_EQ(turns.assistant.size(), 2U);
    EXPECT_LT(turns.user[0], turns.assistant[0]);
    EXPECT_LT(turns.assistant[0], turns.user[1]);
    EXPECT_LT(turns.user[1], turns.assistant[1]);
    EXPECT_EQ(turns.stable_end, turns.assistant[1]);
  }
}

TEST(Turns, PromptsWithNothingInCommonShareTheBeginning) {
  for (const TurnFamily& family : turn_families()) {
    SCOPED_TRACE(family.name);
    if (family.name == "refuses") continue;
    const TurnChat chat(family);
    const TurnOpenings openings = learn_turn_openings(*chat.engine, chat.markers, chat.vocabulary);
    for (const char* role : {"user", "system"}) {
      const std::vector<TokenId> prompt = chat.prompt({{{"role", role}, {"content", "Who?"}}});
      const std::vector<TokenId> other = chat.prompt({{{"role", role}, {"content", "1 + 1?"}}});
      EXPECT_EQ(beginning_size(prompt, openings), common_prefix(prompt, other)) << role;
    }
  }
  EXPECT_EQ(beginning_size(std::vector<TokenId>{1, 2}, {}), 0U);
}

TEST(Turns, TheLastUserMessageIsFoundInAPart) {
  for (const TurnFamily& family : turn_families()) {
    SCOPED_TRACE(family.name);
    const TurnChat chat(family);
    const TurnOpenings openings = learn_turn_openings(*chat.engine, chat.markers, chat.vocabulary);
    if (family.name == "refuses") continue;
    const std::vector<TokenId> prompt = chat.prompt({{{"role", "user"}, {"content", "Who?"}},
                                                     {{"role", "assistant"}, {"content", "Me."}},
                                                     {{"role", "user"}, {"content", "And why?"}}});
    const TokenSpan from_text = from_last_user_text(prompt, openings);
    const std::string text = chat.text({from_text.begin(), from_text.end()});
    EXPECT_EQ(text.find(family.user.empty() ? "Who?" : "And why?"), text.find_first_of("WA")) << text;
    EXPECT_EQ(from_last_user_text(TokenSpan(prompt).last(2), openings).size(), 2U);
  }
}

// The reason for stable_end: the next version of the prompt begins with everything before it.
TEST(Turns, TheNextPromptSharesEverythingBeforeTheStableEnd) {
  for (const TurnFamily& family : turn_families()) {
    SCOPED_TRACE(family.name);
    if (family.user.empty()) continue;
    const TurnChat chat(family);
    const TurnOpenings openings = learn_turn_openings(*chat.engine, chat.markers, chat.vocabulary);
    ordered_json messages = {{{"role", "user"}, {"content", "One?"}}};
    for (int turn = 0; turn < 3; ++turn) {
      const std::vector<TokenId> before = chat.prompt(messages);
      ordered_json in_its_place = messages;
      in_its_place.push_back({{"role", "user"}, {"content", "No, wait."}});
      messages.push_back({{"role", "assistant"}, {"content", "\nAn answer."}});
      messages.push_back({{"role", "user"}, {"content", "More?"}});
      const std::vector<TokenId> after = chat.prompt(messages);
      const Position stable = find_turns(before, openings).stable_end;
      EXPECT_GE(common_prefix(before, after), stable.value());
      EXPECT_GE(common_prefix(before, chat.prompt(in_its_place)), stable.value()) << "the user speaks instead";
      EXPECT_LE(before.size() - stable.value(), openings.assistant.size() + 12U) << "the opening, and what goes on it";
    }
  }
}

TEST(Turns, APromptWithoutAnOpenAnswerIsStableToItsEnd) {
  const TurnOpenings openings{{1, 2}, {1, 3}};
  const std::vector<TokenId> prompt{1, 2, 9, 1, 3, 9, 1, 2, 9, 9};
  const PromptTurns turns = find_turns(prompt, openings);
  EXPECT_EQ(turns.user, (std::vector<Position>{Position{0}, Position{6}}));
  EXPECT_EQ(turns.assistant, std::vector<Position>{Position{3}});
  EXPECT_EQ(turns.stable_end, Position{10});
  EXPECT_EQ(find_turns(prompt, {}), (PromptTurns{{}, {}, Position{10}}));
}

}  // namespace
}  // namespace kvkeep::chat
