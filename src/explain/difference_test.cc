// Two prompts, written token by token, and what is said of their difference.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "explain/cache_break.h"

namespace kvkeep::explain {
namespace {

// Parts with their texts; a word is a token.
struct Written {
  Written& add(PromptPlace place, const std::string& text) {
    if (place.field == PromptField::kThinking && !text.empty()) parts.has_thoughts.push_back(place.index);
    if (place.field == PromptField::kTool) parts.tools = std::max(parts.tools, place.index + 1);
    if (place.role != PromptRole::kNone) parts.messages = std::max(parts.messages, place.index + 1);
    const bool goes_on = !parts.parts.empty() && parts.parts.back().place == place;
    if (!text.empty() && !goes_on) parts.parts.push_back({Position{} + tokens.size(), place});
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at + 1), text.size());
      tokens.push_back(id_of(text.substr(at, end - at)));
      at = end;
    }
    return *this;
  }
  Written& words(const std::string& text) { return add({}, text); }

  static std::vector<std::string>& spellings() {
    static std::vector<std::string> all;
    return all;
  }
  static TokenId id_of(const std::string& word) {
    const auto found = std::ranges::find(spellings(), word);
    if (found == spellings().end()) {
      spellings().push_back(word);
      return static_cast<TokenId>(spellings().size() - 1);
    }
    return static_cast<TokenId>(found - spellings().begin());
  }
  static std::string text(TokenSpan tokens) {
    std::string all;
    for (const TokenId token : tokens) all += spellings()[static_cast<std::size_t>(token)];
    return all;
  }

  std::vector<TokenId> tokens;
  PromptParts parts;
};

std::string some(int count, const std::string& stem) {
  std::string text;
  for (int i = 0; i < count; ++i) text += " " + stem + std::to_string(i);
  return text;
}

// As the server collects the facts.
CacheBreak break_between(const Written& here, const Written& known, std::size_t known_prompt = SIZE_MAX,
                         KnownFrom from = KnownFrom::kUnknown) {
  const std::size_t at = common_prefix(here.tokens, known.tokens);
  const TokenSpan rest = TokenSpan(here.tokens).subspan(at);
  const TokenSpan known_rest = TokenSpan(known.tokens).subspan(at);
  BreakFacts facts{.prompt_tokens = here.tokens.size(), .cached_tokens = at, .known_tokens = at, .beginning_tokens = 2};
  facts.at = Position{} + at;
  facts.comparison = compare(rest, known_rest);
  facts.parts = here.parts.parts.empty() ? nullptr : &here.parts;
  facts.known_parts = known.parts.parts.empty() ? nullptr : &known.parts;
  facts.known_prompt_tokens = known_prompt;
  facts.tokens = here.tokens;
  facts.known_rest = known_rest;
  facts.text = {Written::text(TokenSpan(here.tokens).first(at)), Written::text(rest.first(facts.comparison.here_gap)),
                Written::text(known_rest.first(facts.comparison.there_gap)),
                Written::text(rest.subspan(facts.comparison.here_gap))};
  facts.known_from = from;
  facts.thoughts = {"<think>", "</think>"};
  add_calls(facts, Written::text);
  return find_break(facts);
}

// What clients change at a conversation of two questions with a call in the first answer. "" is an empty text.
struct Told {
  std::vector<std::string> tools = {" {\"name\": read" + some(40, "read") + " }",
                                    " {\"name\": find" + some(40, "find") + " }"};
  std::string system = some(30, "rule");
  std::string question = some(20, "question");
  std::string thought = some(20, "thought");
  std::string call = " read \"path\": \"a.py\"";
  std::string end_of_call = " }";
  std::string result = some(9, "result");
  std::string answer = some(20, "answer");

  // Writes a conversation as templates do. `reply`: the answer is the model's, after the prompt, and no part.
  Written written(bool reply = false) const {
    Written prompt;
    prompt.words(" <s> system").add({PromptField::kContent, PromptRole::kSystem, 0}, system).words(" <end> tools");
    for (std::uint32_t i = 0; i < tools.size(); ++i)
      prompt.add({PromptField::kTool, PromptRole::kNone, i}, tools[i]).words(" ;");
    prompt.words(" <end> <s> user")
        .add({PromptField::kContent, PromptRole::kUser, 1}, question)
        .words(" <end> <s> assistant <think>");
    prompt.add({PromptField::kThinking, PromptRole::kAssistant, 2}, thought).words(" </think> <call> {");
    prompt.add({PromptField::kCalls, PromptRole::kAssistant, 2}, call)
        .words(end_of_call + " </call> <end> <s> tool <result>");
    prompt.add({PromptField::kContent, PromptRole::kTool, 3}, result)
        .words(" </result> <end> <s> assistant <think> </think> <answer>");
    if (reply) return append(std::move(prompt), answer);
    prompt.add({PromptField::kContent, PromptRole::kAssistant, 4}, answer);
    prompt.words(" <end> <s> user <question>").add({PromptField::kContent, PromptRole::kUser, 5}, some(50, "more"));
    return prompt.words(" <end> <s> assistant");
  }
  // With the reply and what its client sent after it, which are no parts of the prompt.
  static Written append(Written prompt, const std::string& reply) {
    const Written more = Written().words(reply + " <end> <s> user <question>" + some(50, "more"));
    prompt.tokens.insert(prompt.tokens.end(), more.tokens.begin(), more.tokens.end());
    return prompt;
  }
};

std::string kind_and_place(const CacheBreak& found) {
  return std::string(to_string(found.kind)) + " in " + place_name(found);
}

// The conversation that is known is `known`; what is sent now differs in one field.
std::string told_now(const Told& now, const Told& known) {
  return kind_and_place(break_between(now.written(), known.written()));
}

TEST(TwoPrompts, TextLeftOutAtTheEndOfAField) {
  const Told known;
  const auto without_end = [&](std::string Told::* field, int words) {
    Told now;
    for (int i = 0; i < words; ++i) (now.*field).resize((now.*field).rfind(' '));
    return told_now(now, known);
  };
  EXPECT_EQ(without_end(&Told::system, 2), "message-changed in system");
  EXPECT_EQ(without_end(&Told::question, 6), "message-changed in message 2 (user)");
  EXPECT_EQ(without_end(&Told::thought, 5), "message-changed in thinking of message 3");
  EXPECT_EQ(without_end(&Told::result, 3), "message-changed in message 4 (tool result)");
  EXPECT_EQ(without_end(&Told::result, 9), "message-changed in message 4 (tool result)") << "it is empty now";
  EXPECT_EQ(without_end(&Told::answer, 1), "message-changed in message 5 (assistant)");
  Told one_tool_shorter;
  std::string& tool = one_tool_shorter.tools[1];
  for (int i = 0; i < 3; ++i) tool.resize(tool.rfind(' '));
  EXPECT_EQ(told_now(one_tool_shorter, known), "tools-changed in tool 2");
  Told no_thought;
  no_thought.thought = "";
  EXPECT_EQ(told_now(no_thought, known), "thinking-dropped in thinking of message 3");
}

TEST(TwoPrompts, TextPutInAtTheEndOfAField) {
  const Told known;
  Told now;
  now.question += some(6, "reminder");
  EXPECT_EQ(told_now(now, known), "message-changed in message 2 (user)");
  EXPECT_EQ(kind_and_place(break_between(now.written(), known.written(), SIZE_MAX, KnownFrom::kAnother)),
            "new-content in message 2 (user)");
  now.question = some(12, "other");
  EXPECT_EQ(told_now(now, known), "new-content in message 2 (user)") << "another task";
}

// The known answer came from the model and is no part of the prompt.
TEST(TwoPrompts, AReplyComesBackChanged) {
  const Told known;
  const Written sampled = known.written(/*reply=*/true);
  const std::size_t prompt = common_prefix(sampled.tokens, Told{.answer = ""}.written(true).tokens);
  Told now;
  now.answer.resize(now.answer.rfind(' '));
  EXPECT_EQ(kind_and_place(break_between(now.written(), sampled, prompt)), "message-changed in message 5 (assistant)");
  now.answer = "";
  EXPECT_EQ(kind_and_place(break_between(now.written(), sampled, prompt)), "message-changed in message 5 (assistant)");
  Told with_blank;
  with_blank.answer += " \n";
  EXPECT_EQ(kind_and_place(break_between(known.written(), with_blank.written(true), prompt)),
            "template-rewrote-history in the template's own words")
      << "it leaves out a blank";
  EXPECT_EQ(told_now(known, with_blank), "message-changed in message 5 (assistant)") << "the client left it out";
}

TEST(TwoPrompts, MessagesLeftOutAreNoWordsOfTheTemplate) {
  const auto written = [](bool all, const std::string& words) {
    Written prompt;
    prompt.words(" <s> system")
        .add({PromptField::kContent, PromptRole::kSystem, 0}, some(40, "rule"))
        .words(words + " <end> <s>");
    if (all)
      prompt.words(" assistant").add({PromptField::kContent, PromptRole::kAssistant, 1}, " yes").words(" <end> <s>");
    prompt.words(" user").add({PromptField::kContent, PromptRole::kUser, all ? 2U : 1U}, some(60, "question"));
    prompt.words(" <end>");
    return prompt;
  };
  EXPECT_EQ(kind_and_place(break_between(written(false, ""), written(true, ""))),
            "message-changed in message 2 (assistant)");
  EXPECT_EQ(kind_and_place(break_between(written(true, ""), written(false, ""))),
            "message-changed in message 2 (assistant)");
  EXPECT_EQ(kind_and_place(break_between(written(true, ""), written(true, some(30, "words")))),
            "template-rewrote-history in the template's own words")
      << "however many words";
}

// A completion has no messages, and may begin like a conversation.
TEST(TwoPrompts, OneHasNoMessages) {
  const Written known = Told().written();
  Written plain;
  plain.tokens.assign(known.tokens.begin(), known.tokens.begin() + 30);
  plain.words(some(9, "own"));
  plain.tokens.insert(plain.tokens.end(), known.tokens.begin() + 30, known.tokens.end());
  plain.parts = {};
  EXPECT_EQ(kind_and_place(break_between(plain, known)), "message-changed in the prompt");
  EXPECT_EQ(kind_and_place(break_between(known, plain)), "message-changed in system");
  plain.tokens.resize(35);
  EXPECT_EQ(kind_and_place(break_between(plain, known)), "new-content in the prompt");
}

TEST(TwoPrompts, CallsAreComparedAsAWhole) {
  const Told known{.call = " edit \"file\": \"a.py\", \"old\": \"" + some(30, "old") + "\", \"new\": \"" +
                           some(20, "new") + "\", \"timeout\":",
                   .end_of_call = " 1000 }"};
  Told now = known;
  now.call = " edit \"new\": \"" + some(20, "new") + "\", \"old\": \"" + some(30, "old") +
             "\", \"file\": \"a.py\", \"timeout\":";
  EXPECT_EQ(told_now(now, known), "call-reserialised in calls of message 3") << "its arguments in another order";
  EXPECT_EQ(kind_and_place(break_between(now.written(), known.written(), SIZE_MAX, KnownFrom::kAnother)),
            "call-reserialised in calls of message 3");
  Told other = now;
  other.call.replace(other.call.find("a.py"), 4, "b.py");
  EXPECT_EQ(told_now(other, known), "new-content in calls of message 3") << "and another file";
  Told longer = now;
  longer.call += " \"all\": \"no\",";
  EXPECT_EQ(told_now(longer, known), "call-reserialised in calls of message 3") << "and a default";
  EXPECT_EQ(kind_and_place(break_between(longer.written(), known.written(), SIZE_MAX, KnownFrom::kAnother)),
            "new-content in calls of message 3")
      << "another conversation called with more words";
  Told without = known;
  without.call.resize(without.call.rfind(" \"timeout"));
  without.end_of_call = " }";
  EXPECT_EQ(told_now(without, known), "call-reserialised in calls of message 3") << "without its last argument";
  Told number = known;
  number.end_of_call = " 1000.0 }";
  EXPECT_EQ(told_now(number, known), "call-reserialised in calls of message 3") << "a number at the end";
  number.end_of_call = " 2000 }";
  EXPECT_NE(told_now(number, known), "call-reserialised in calls of message 3") << "another number";
}

TEST(TwoPrompts, ToolsAreComparedAsAWhole) {
  const auto schema = [](const std::string& name) { return " {\"name\": " + name + some(40, "schema") + " }"; };
  const Told known{.tools = {schema("read"), schema("find")}};
  const auto with = [&](std::vector<std::string> tools) { return told_now(Told{.tools = std::move(tools)}, known); };
  EXPECT_EQ(with({schema("find"), schema("read")}), "tools-reordered in tool 1") << "of one schema";
  EXPECT_EQ(with({schema("look"), schema("read"), schema("find")}), "tools-changed in tool 1");
  EXPECT_EQ(with({schema("read"), schema("look"), schema("find")}), "tools-changed in tool 2");
  EXPECT_EQ(with({schema("find"), schema("look")}), "tools-changed in tool 1") << "in another order, and one is new";
  const Told small{.tools = {" {\"name\": a does a }", " {\"name\": b does b }", " {\"name\": c does c }"}};
  const Told moved{.tools = {small.tools[2], small.tools[0], small.tools[1]}};
  EXPECT_EQ(told_now(moved, small), "tools-reordered in tool 1") << "of few words";
}

}  // namespace
}  // namespace kvkeep::explain
