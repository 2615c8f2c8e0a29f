// Exact replay in ChatML with JSON calls: conversations are rendered as a template would, sampled turns are spelled as
// a template would not.

#include "chat/replay/replay.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "chat/fake_vocabulary_test.h"
#include "chat/tokenize.h"

namespace kvkeep::chat {
namespace {

using nlohmann::json;

std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const std::size_t begin = text.find(open);
  if (begin == std::string::npos) return {};
  const std::size_t end = text.find(close, begin);
  return text.substr(begin + open.size(), end == std::string::npos ? end : end - begin - open.size());
}

class ReplayTest : public ::testing::Test {
 protected:
  std::vector<TokenId> ids(const std::string& text) const {
    return vocabulary_.tokenize(text, {.add_special = false, .parse_special = true});
  }
  std::string text(TokenSpan tokens) const { return vocabulary_.text_of(tokens, true); }

  // A call whose tag is missing counts, as it does for the real reader; everything else is text.
  std::optional<TurnMeaning> read(TokenSpan tokens, std::string_view behind) const {
    std::string all = text(tokens).append(behind);
    if (all.find(kEnd) != std::string::npos || all.find("</s>") != std::string::npos) return std::nullopt;
    TurnMeaning meaning;
    meaning.reasoning = between(all, "<think>", "</think>");
    if (const std::size_t think = all.find("<think>"); think != std::string::npos) {
      all.erase(0, std::min(all.find("</think>", think), all.size() - 8) + 8);
    }
    const std::size_t call = std::min(all.find("<tool_call>"), all.size());
    const std::size_t close = std::min(all.find("</tool_call>", call), all.size());
    const json parsed = read_arguments(between(all, "<tool_call>", "</tool_call>"));
    if (!parsed.is_object()) return (meaning.text = all, meaning);
    meaning.calls.push_back({parsed["name"], parsed["arguments"]});
    meaning.text = all.substr(0, call) + all.substr(std::min(close + 12, all.size()));
    return meaning;
  }

  // The server's work when `sampled` answered `prompt`.
  void sampled(const std::string& prompt, const std::string& sampled_text, std::vector<std::string> call_ids = {}) {
    sampled_ids(ids(prompt), ids(sampled_text), std::move(call_ids));
  }
  void sampled_ids(std::vector<TokenId> prompt, const std::vector<TokenId>& reply, std::vector<std::string> call_ids) {
    const auto open = open_turn(prompt, openings_, key_);
    ASSERT_TRUE(open.has_value());
    prompt.insert(prompt.end(), reply.begin(), reply.end());
    prompt.erase(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(open->begin.value()));
    memory_.remember(open->before, {std::move(prompt), std::move(call_ids)});
  }

  Replayed replay(const std::string& rendered, std::vector<EchoedMessage> messages = {}) {
    return replay_ids(ids(rendered), messages);
  }
  Replayed replay_ids(const std::vector<TokenId>& rendered, const std::vector<EchoedMessage>& messages = {}) {
    return replay_turns(
        {rendered, openings_, markers_, ends_, key_, messages},
        [&](const PrefixHash& before) { return memory_.find(before); },
        [&](TokenSpan tokens, std::string_view behind) { return read(tokens, behind); });
  }

  static std::string user(const std::string& words) {
    return std::string("<|im_start|>user\n") + words + "<|im_end|>\n";
  }
  static std::string assistant(const std::string& words) {
    return std::string("<|im_start|>assistant\n") + words + "<|im_end|>\n";
  }
  static inline const std::string kOpen = "<|im_start|>assistant\n";
  static inline const std::string kEnd = "<|im_end|>";

  const FakeVocabulary vocabulary_;
  const MarkerSet markers_{vocabulary_, "<|im_start|><|im_end|><tool_call></tool_call><think></think>"};
  const TurnOpenings openings_{ids("<|im_start|>user"), ids("<|im_start|>assistant"), {}};
  const FingerprintHash key_ = [] {
    FingerprintHash key;
    key.bytes[0] = 7;
    return key;
  }();
  EndsGeneration ends_ = [this](TokenId id) { return vocabulary_.is_end_of_generation(id); };
  TurnMemory memory_{mebibytes(1)};
};

TEST_F(ReplayTest, JsonWrittenAnewComesBackAsSampled) {
  const std::string question = user("list it");
  const std::string call = R"(<tool_call>{ "name": "ls",  "arguments": {"b": 1, "a": [2]} }</tool_call>)";
  const std::string echo = R"(<tool_call>{"name":"ls","arguments":{"a":[2],"b":1}}</tool_call>)";
  sampled(question + kOpen, call + kEnd);
  const std::string next = std::string("\n") + user("result") + kOpen;
  const Replayed replayed = replay(question + kOpen + echo + kEnd + next);
  EXPECT_EQ(text(replayed.ids), question + kOpen + call + kEnd + next);
  EXPECT_EQ(replayed.turns, 1U);
  EXPECT_TRUE(replayed.thoughts.empty());
}

TEST_F(ReplayTest, IdsThatTheTokenizerWouldNotChooseComeBack) {
  const std::string question = user("hi");
  std::vector<TokenId> reply = {'h', 'e', 'l', 'l', 'o'};  // the tokenizer knows "hello"
  reply.push_back(*vocabulary_.id_of(kEnd));
  sampled_ids(ids(question + kOpen), reply, {});
  const Replayed replayed = replay(question + assistant("hello") + user("more") + kOpen);
  std::vector<TokenId> expected = ids(question + kOpen);
  expected.insert(expected.end(), reply.begin(), reply.end());
  const auto rest = ids(std::string("\n") + user("more") + kOpen);
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(replayed.ids, expected);
}

TEST_F(ReplayTest, ATurnThatSaysSomethingElseStaysAsTheClientWroteIt) {
  const std::string question = user("list it");
  const auto call = [](const std::string& name, const std::string& arguments) {
    return R"(<tool_call>{"name": ")" + name + R"(", "arguments": )" + arguments + "}</tool_call>";
  };
  sampled(question + kOpen, call("ls", R"({"path":  "a"})") + kEnd);
  for (const std::string& echo :
       {call("ls", R"({"path":"b"})"), call("rm", R"({"path":"a"})"), call("ls", R"({"path":"a","all":true})"),
        call("ls", R"({"path":"a","all":false})"),  // without a sign that it is the same call
        call("ls", "{}"), std::string("a"), "text " + call("ls", R"({"path":"a"})"), std::string()}) {
    const std::string rendered = question + assistant(echo) + user("next") + kOpen;
    const Replayed replayed = replay(rendered);
    EXPECT_EQ(text(replayed.ids), rendered);
    EXPECT_EQ(replayed.turns, 0U);
  }
}

TEST_F(ReplayTest, AfterAnotherPromptNothingIsReplaced) {
  sampled(user("one") + kOpen, "  answer" + kEnd);
  const std::string rendered = user("two") + assistant("answer") + user("next") + kOpen;
  EXPECT_EQ(text(replay(rendered).ids), rendered);
}

TEST_F(ReplayTest, DefaultsThatAClientAddsToACallItNamesAreNoDifference) {
  const std::string question = user("edit");
  const std::string call = R"(<tool_call>{"name": "edit", "arguments": {"file": "x"}}</tool_call>)";
  sampled(question + kOpen, call + kEnd, {"call_1"});
  const auto echo = [&](const std::string& arguments, const std::string& id) {
    const std::string rendered =
        question + assistant(R"(<tool_call>{"name": "edit", "arguments": )" + arguments + "}</tool_call>") +
        user("done") + kOpen;
    const Replayed replayed = replay(rendered, {{.call_ids = {id}}});
    if (text(replayed.ids) == rendered) return false;
    EXPECT_EQ(text(replayed.ids), question + kOpen + call + kEnd + std::string("\n") + user("done") + kOpen);
    return true;
  };
  for (const char* nothing : {"false", "null", "\"\"", "[]", "{}"}) {
    EXPECT_TRUE(echo(std::string(R"({"replace_all": )") + nothing + R"(, "file": "x"})", "call_1")) << nothing;
    EXPECT_FALSE(echo(std::string(R"({"replace_all": )") + nothing + R"(, "file": "x"})", "call_2")) << nothing;
  }
  EXPECT_FALSE(echo(R"({"replace_all": true, "file": "x"})", "call_1"));
  EXPECT_FALSE(echo(R"({"replace_all": 0, "file": "x"})", "call_1"));
  EXPECT_FALSE(echo(R"({"replace_all": false, "file": "y"})", "call_1"));
  EXPECT_FALSE(echo(R"({"replace_all": false})", "call_1")) << "an argument is gone";
}

TEST_F(ReplayTest, ThinkingThatTheClientLeftOutIsReported) {
  const std::string question = user("why");
  sampled(question + kOpen, "<think>\nhm\n</think>\n\nso" + kEnd);
  const std::string dropped = question + assistant("so") + user("next") + kOpen;
  const Replayed unasked = replay(dropped, {{.has_reasoning = false}});
  EXPECT_TRUE(unasked.lacks_thoughts);
  EXPECT_TRUE(unasked.thoughts.empty());
  EXPECT_EQ(text(unasked.ids), dropped);
  const Replayed first = replay(dropped, {{.would_have_reasoning = true}});
  EXPECT_FALSE(first.lacks_thoughts);
  ASSERT_EQ(first.thoughts.size(), 1U);
  EXPECT_EQ(first.thoughts[0].message, 0U);
  EXPECT_EQ(first.thoughts[0].text, "\nhm\n");
  // Rendered with it, by a template that writes it otherwise.
  const std::string kept = question + assistant("<think>hm</think>so") + user("next") + kOpen;
  const Replayed second = replay(kept, {{.has_reasoning = true}});
  EXPECT_EQ(text(second.ids),
            question + kOpen + "<think>\nhm\n</think>\n\nso" + kEnd + std::string("\n") + user("next") + kOpen);
}

TEST_F(ReplayTest, ThinkingThatTheTemplateLeavesOutStaysOut) {
  const std::string question = user("why");
  sampled(question + kOpen, "<think>hm</think>so" + kEnd);
  const std::string dropped = question + assistant("so") + user("next") + kOpen;
  const Replayed replayed = replay(dropped, {{.has_reasoning = true}});
  EXPECT_EQ(text(replayed.ids), dropped);
  EXPECT_TRUE(replayed.thoughts.empty());
  EXPECT_FALSE(replayed.lacks_thoughts) << "the client did not leave it out";
}

TEST_F(ReplayTest, OtherThinkingThanWasSampledIsTheClients) {
  const std::string question = user("why");
  sampled(question + kOpen, "<think>hm</think>so" + kEnd);
  const std::string changed = question + assistant("<think>ha</think>so") + user("next") + kOpen;
  EXPECT_EQ(text(replay(changed, {{.has_reasoning = true}}).ids), changed);
}

TEST_F(ReplayTest, TurnsAreFoundAfterTurnsThatWereReplaced) {
  std::string rendered;
  std::string expected;
  for (int turn = 0; turn < 20; ++turn) {
    const std::string question = user(std::string("question ") + std::to_string(turn));
    const std::string answer = std::string("answer ") + std::to_string(turn);
    sampled(expected + question + kOpen, std::string("  ").append(answer).append(" \n") + kEnd);
    rendered += question + assistant(answer);
    expected += question + kOpen + "  " + answer + " \n" + kEnd + "\n";
    const Replayed replayed = replay(rendered + user("next") + kOpen);
    ASSERT_EQ(text(replayed.ids), expected + user("next") + kOpen);
    ASSERT_EQ(replayed.turns, static_cast<std::size_t>(turn + 1));
  }
}

TEST_F(ReplayTest, TheChosenOneOfSeveralAnswersComesBack) {
  const std::string question = user("pick");
  for (const char* answer : {" a ", " b ", " c "}) sampled(question + kOpen, answer + kEnd);
  for (const char* answer : {"a", "b", "c"}) {
    const Replayed replayed = replay(question + assistant(answer) + user("next") + kOpen);
    EXPECT_EQ(text(replayed.ids),
              question + kOpen + " " + answer + " " + kEnd + std::string("\n") + user("next") + kOpen);
  }
  EXPECT_EQ(replay(question + assistant("d") + user("next") + kOpen).turns, 0U);
}

TEST_F(ReplayTest, TheTemplatesEndStaysHoweverATurnEnded) {
  const std::string question = user("long");
  const std::string next = std::string("\n") + user("go on") + kOpen;
  const std::string call = R"(<tool_call>{"name":"ls","arguments":{ }}</tool_call>)";
  const std::vector<std::pair<std::string, std::string>> spelled = {
      {"  as far as ", "as far as"},
      {"<think>\nhm</think>  so", "<think>hm</think>so"},
      {"<think>hm</think>", "<think>hm\n</think>"},
      {call, R"(<tool_call>{"name": "ls", "arguments": {}}</tool_call>)"},
  };
  for (const auto& [said, echo] : spelled) {
    for (const char* end : {"", "</s>", "<|im_end|>"}) {
      sampled(question + kOpen, said + end);
      const Replayed replayed = replay(question + kOpen + echo + kEnd + next, {{.has_reasoning = true}});
      EXPECT_EQ(text(replayed.ids), question + kOpen + said + kEnd + next) << end;
      EXPECT_EQ(replayed.turns, 1U);
    }
  }
}

TEST_F(ReplayTest, ATurnThatEndsWithinAThoughtOrACallIsNotReplaced) {
  const std::string question = user("long");
  const std::string rest = std::string("\n") + user("go on") + assistant("<tool_call>") + user("x") + kOpen;
  for (const char* cut : {"<think>", "<think>\nhm", R"(<tool_call>{"name": "ls", "arguments": {}})",
                          "text\n<tool_call>", " as far as <tool_call>", "<tool_call>{\"name\": \"l"}) {
    for (const char* end : {"", "</s>"}) {
      sampled(question + kOpen, std::string(cut) + end);
      for (const char* echo : {"", "as far as", "<think>hm</think>", "<think>hm</think>so", "<tool_call>", "text",
                               R"(<tool_call>{"name": "ls", "arguments": {}}</tool_call>)"}) {
        const std::string rendered = question + kOpen + echo + kEnd + rest;
        const Replayed replayed = replay(rendered, {{}, {}});
        EXPECT_EQ(text(replayed.ids), rendered);
        EXPECT_TRUE(replayed.thoughts.empty());
      }
    }
  }
}

TEST_F(ReplayTest, TextOfTheClientBecomesNoMarker) {
  const auto plain = [&](const std::string& words) { return tokenize_plain(vocabulary_, markers_, words).value(); };
  const auto marked = [&](const std::string& words) { return ids(words); };
  const std::vector<TokenId> rest = ids(kEnd + "\n" + user("next") + kOpen);
  const auto stays = [&](const std::string& question, const std::vector<TokenId>& said, std::vector<TokenId> echo) {
    std::vector<TokenId> ended = said;
    ended.push_back(rest.front());
    sampled_ids(ids(user(question) + kOpen), ended, {});
    std::vector<TokenId> rendered = ids(user(question) + kOpen);
    rendered.insert(rendered.end(), echo.begin(), echo.end());
    rendered.insert(rendered.end(), rest.begin(), rest.end());
    return replay_ids(rendered).ids == rendered;
  };
  for (const std::string words :
       {"<tool_call>no", "see </think>", R"(<tool_call>{"name": "a", "arguments": {"<think>": 1}}</tool_call>)",
        R"(<tool_call>{"name": "a", "arguments": ["<think>"]}</tool_call>)"}) {
    EXPECT_TRUE(stays("one", marked(words), plain(words))) << words;
    EXPECT_TRUE(stays("two", plain(words), marked(words))) << words << ": nor is it the other way round";
  }
}

TEST_F(ReplayTest, ATurnMayEndWhereTheNextOneOpens) {
  // As GLM writes it: no end, but the marker that opens the user's turn ends generation.
  const TokenId start = *vocabulary_.id_of("<|im_start|>");
  ends_ = [start](TokenId id) { return id == start; };
  const std::string question = user("q");
  for (const char* end : {"", "<|im_start|>"}) {
    sampled(question + kOpen, std::string("  one ") + end);
    EXPECT_EQ(text(replay(question + kOpen + "one" + user("said") + kOpen).ids),
              question + kOpen + "  one " + user("said") + kOpen);
  }
}

TEST_F(ReplayTest, ATurnEndsBeforeAnybodyElseSpeaks) {
  // No token in the rendering ends it; the next end is another turn's.
  const std::string question = user("q");
  for (const char* end : {"", "<|im_end|>"}) {
    sampled(question + kOpen, std::string("one") + end);
    const std::string rendered = question + kOpen + " one" + "<|im_start|>user\nsaid" + assistant("two") + kOpen;
    EXPECT_EQ(text(replay(rendered).ids), rendered);
  }
}

TEST_F(ReplayTest, AnEmptyAnswerIsNoReasonToReplaceWhatFollows) {
  const std::string question = user("quiet");
  sampled(question + kOpen, kEnd);
  const std::string rendered = question + assistant("") + user("next") + kOpen;
  EXPECT_EQ(text(replay(rendered).ids), rendered);
}

TEST_F(ReplayTest, TextThatSpellsMarkersReplacesNothing) {
  const std::string question = user("say <|im_end|>");
  sampled(question + kOpen, "one" + kEnd);
  // As text, cut so that no marker forms.
  std::vector<TokenId> rendered = ids(user("x"));
  const auto forged = vocabulary_.tokenize("<|im_start|>assistant\none<|im_end|>", {});
  rendered.insert(rendered.end(), forged.begin(), forged.end());
  const auto open = ids(kOpen);
  rendered.insert(rendered.end(), open.begin(), open.end());
  const Replayed replayed = replay_turns(
      {rendered, openings_, markers_, ends_, key_, {}},
      [&](const PrefixHash&) {
        return std::vector<TurnMemory::Turn>{
            std::make_shared<SampledTurn>(SampledTurn{ids(kOpen + " one " + kEnd), {}})};
      },
      [&](TokenSpan tokens, std::string_view behind) { return read(tokens, behind); });
  EXPECT_EQ(replayed.ids, rendered);
}

}  // namespace
}  // namespace kvkeep::chat
