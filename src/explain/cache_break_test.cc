#include "explain/cache_break.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace kvkeep::explain {
namespace {

using enum BreakKind;

// system, tools 1 and 2, user, assistant with thinking, content and calls, tool result, user; the template's words
// between them.
PromptParts conversation() {
  const auto part = [](std::uint32_t begin, PromptPlace place) { return PromptPart{Position{begin}, place}; };
  const PromptPlace words{};
  PromptParts parts;
  parts.parts = {part(0, words),   part(10, {PromptField::kContent, PromptRole::kSystem, 0}),
                 part(100, words), part(110, {PromptField::kTool, PromptRole::kNone, 0}),
                 part(200, words), part(205, {PromptField::kTool, PromptRole::kNone, 1}),
                 part(300, words), part(310, {PromptField::kContent, PromptRole::kUser, 1}),
                 part(400, words), part(410, {PromptField::kContent, PromptRole::kAssistant, 2}),
                 part(500, words), part(510, {PromptField::kCalls, PromptRole::kAssistant, 2}),
                 part(600, words), part(610, {PromptField::kContent, PromptRole::kTool, 3}),
                 part(700, words), part(710, {PromptField::kContent, PromptRole::kUser, 4}),
                 part(800, words)};
  parts.messages = 5;
  parts.tools = 2;
  return parts;
}

Comparison changed(std::uint32_t here_gap, std::uint32_t there_gap, std::uint32_t common) {
  Comparison compared{.here_gap = here_gap, .there_gap = there_gap};
  if (common > 0) compared.runs.push_back({here_gap, there_gap, common});
  compared.common = common;
  return compared;
}

// A prompt of 810 tokens that differs at one of them and reused all before it.
struct Differing {
  explicit Differing(std::uint32_t at, const Comparison& comparison, BreakText text = {"Name: ", "Ann", "Bob", ".\n"}) {
    facts = {.prompt_tokens = 810,
             .cached_tokens = at,
             .known_tokens = at,
             .beginning_tokens = 5,
             .at = Position{at},
             .comparison = comparison,
             .parts = &parts,
             .text = std::move(text),
             .thoughts = {"<think>", "</think>"}};
  }
  CacheBreak find() const { return find_break(facts); }
  BreakKind kind() const { return find().kind; }

  PromptParts parts = conversation();
  BreakFacts facts;
};

TEST(CacheBreak, VolatileTextStandsBeforeTextThatStayed) {
  const CacheBreak found = Differing(20, changed(1, 1, 789), {"Today is May ", "4", "5", ".\n"}).find();
  EXPECT_EQ(found.kind, kVolatileText);
  EXPECT_EQ(found.what, VolatileText::kDate);
  EXPECT_EQ(found.lost_tokens, 789U);
  EXPECT_EQ(place_name(found), "system");
  Differing name(20, changed(3, 3, 780));
  EXPECT_EQ(name.kind(), kMessageChanged) << "a line that is not known to change";
  EXPECT_TRUE(advice(name.find()).contains("If it changes often")) << advice(name.find());
  name.facts.other_values = 1;
  EXPECT_EQ(name.kind(), kMessageChanged) << "it was edited";
  name.facts.other_values = 2;
  EXPECT_EQ(name.kind(), kVolatileText) << "the client sent two others before";
  EXPECT_EQ(name.find().what, VolatileText::kNone);
  EXPECT_TRUE(advice(name.find()).contains("three different texts")) << advice(name.find());
  EXPECT_EQ(Differing(620, changed(1, 1, 180), {"Now: 2026-05-04 17:0", "5", "6", "\n"}).kind(), kVolatileText)
      << "a tool that prints the time";
  EXPECT_EQ(Differing(40, changed(1, 1, 0)).kind(), kNewContent) << "nothing after it stayed";
  EXPECT_EQ(Differing(20, changed(1, 1, 0)).kind(), kNothingKnown) << "nothing before it either";
  EXPECT_EQ(Differing(20, changed(200, 200, 100)).kind(), kNothingKnown) << "a little by chance";
}

// The client sent the message in two blocks, and the template writes words of its own between them.
TEST(CacheBreak, BlocksOfAMessageAreOneText) {
  Differing early(345, changed(3, 3, 400));
  const auto split = [](PromptParts& parts, std::uint32_t at) {
    const auto after = parts.parts.begin() + static_cast<std::ptrdiff_t>(parts.find(Position{at}) + 1);
    const PromptPlace block = (after - 1)->place;
    const auto second = parts.parts.insert(after, {Position{at + 2}, block});
    parts.parts.insert(second, {Position{at}, {}});
  };
  early.facts.other_values = 2;
  EXPECT_EQ(early.kind(), kVolatileText) << "one block";
  split(early.parts, 350);
  EXPECT_EQ(early.kind(), kVolatileText) << "the second block stayed";
  Differing late(394, changed(3, 3, 400));
  split(late.parts, 350);
  EXPECT_EQ(late.kind(), kNewContent) << "another task in the last block";
  // Of the instructions nearly all stayed, though the block that differs is another one.
  Differing instructions(64, changed(120, 120, 600));
  split(instructions.parts, 60);
  EXPECT_EQ(instructions.kind(), kMessageChanged);
}

TEST(CacheBreak, MessagesThatChanged) {
  EXPECT_EQ(Differing(20, changed(0, 3, 780)).kind(), kMessageChanged) << "text left out";
  EXPECT_EQ(Differing(60, changed(300, 200, 440)).kind(), kMessageChanged) << "a long change";
  EXPECT_EQ(Differing(400, changed(100, 0, 300)).kind(), kMessageChanged) << "a message put in";
  EXPECT_EQ(Differing(600, changed(0, 100, 200)).kind(), kMessageChanged) << "a message left out";
}

TEST(CacheBreak, AnotherTaskIsNew) {
  const CacheBreak found = Differing(312, changed(95, 40, 300)).find();
  EXPECT_EQ(found.kind, kNewContent) << "it ends with the message";
  EXPECT_EQ(found.lost_tokens, 300U);
  EXPECT_NE(advice(found), "");
  Differing line(312, changed(5, 6, 480));
  line.facts.other_values = 2;
  EXPECT_EQ(line.kind(), kVolatileText) << "the message goes on the same";
  EXPECT_EQ(Differing(312, changed(86, 6, 400)).kind(), kNewContent) << "only its full stop is the same";
  EXPECT_EQ(Differing(712, changed(98, 300, 0)).kind(), kNewContent);
}

// The same tools and other instructions, of which only phrases are alike: a sub-agent, for instance.
TEST(CacheBreak, AnotherAgentIsNew) {
  const CacheBreak found = Differing(25, changed(100, 700, 680)).find();
  EXPECT_EQ(found.kind, kNewContent);
  EXPECT_EQ(found.lost_tokens, 680U);
  EXPECT_EQ(place_name(found), "system");
  EXPECT_NE(advice(found), "");
  EXPECT_EQ(Differing(20, changed(100, 700, 680)).kind(), kNewContent) << "it tells more than that nothing is known";
  EXPECT_EQ(Differing(20, changed(100, 700, 300)).kind(), kNothingKnown) << "by chance";
  Differing salted(20, changed(100, 700, 680));
  salted.facts.other_salt = true;
  EXPECT_EQ(salted.kind(), kOtherSalt);
  Comparison edited = changed(30, 700, 680);
  edited.runs = {{30, 700, 680}};
  EXPECT_EQ(Differing(25, edited).kind(), kMessageChanged) << "half of the instructions stayed";
  EXPECT_EQ(Differing(34, changed(100, 700, 680)).kind(), kMessageChanged) << "a quarter of them stayed";
}

// The same difference is an edit within a conversation, and news in another one.
TEST(CacheBreak, ConversationsTellEditsFromNews) {
  const BreakText text{"Name: ", "Ann", "Bob", ".\n"};
  struct Case {
    std::uint32_t at;
    Comparison comparison;
    BreakKind unknown;
    BreakKind same;
    BreakKind another;
  };
  const Case cases[] = {
      {312, changed(95, 40, 300), kNewContent, kMessageChanged, kNewContent},      // another task, or a summary
      {410, changed(99, 120, 300), kNewContent, kMessageChanged, kNewContent},     // another answer
      {430, changed(5, 5, 300), kMessageChanged, kMessageChanged, kNewContent},    // words within an answer
      {410, changed(150, 0, 300), kMessageChanged, kMessageChanged, kNewContent},  // an answer put in
      {520, changed(9, 9, 200), kNewContent, kMessageChanged, kNewContent},        // another call
      {620, changed(3, 3, 180), kNewContent, kMessageChanged, kNewContent},        // a tool returned other text
      {612, changed(9, 400, 180), kMessageChanged, kMessageChanged, kNewContent},  // a result was cut
      {602, changed(100, 90, 100), kMessageChanged, kMessageChanged, kNewContent},
      {602, changed(100, 0, 100), kMessageChanged, kMessageChanged, kNewContent},
  };
  for (const Case& one : cases) {
    Differing differing(one.at, one.comparison, text);
    EXPECT_EQ(to_string(differing.kind()), to_string(one.unknown)) << one.at;
    differing.facts.known_from = KnownFrom::kSameConversation;
    EXPECT_EQ(to_string(differing.kind()), to_string(one.same)) << one.at;
    differing.facts.known_from = KnownFrom::kAnother;
    EXPECT_EQ(to_string(differing.kind()), to_string(one.another)) << one.at;
  }
  Differing version(620, changed(1, 1, 180), {"version = \"0.", "2.0", "1.0", "\"\n"});
  EXPECT_EQ(version.kind(), kNewContent) << "a file that has changed since another conversation read it";
  EXPECT_TRUE(advice(version.find()).contains("tool")) << advice(version.find());
  EXPECT_FALSE(advice(Differing(312, changed(95, 40, 300)).find()).contains("tool"));
}

TEST(CacheBreak, Tools) {
  Comparison moved = changed(90, 90, 500);
  moved.moved = 185;
  moved.runs = {{0, 90, 85, true}, {90, 200, 97, true}, {190, 290, 318}};
  const CacheBreak found = Differing(115, moved).find();
  EXPECT_EQ(found.kind, kToolsReordered);
  EXPECT_EQ(place_name(found), "tool 1");
  moved.runs = {{0, 90, 85}, {90, 200, 46, true}, {136, 250, 372}};
  EXPECT_EQ(Differing(115, moved).kind(), kToolsChanged) << "phrases that other tools have as well";
  moved.runs = {{0, 90, 85}, {90, 200, 49, true}, {139, 250, 369}};
  EXPECT_EQ(Differing(115, moved).kind(), kToolsReordered) << "most of tool 2 moved";
  moved.moved = 31;
  EXPECT_EQ(Differing(115, moved).kind(), kToolsChanged) << "tools of next to no words";
  EXPECT_EQ(Differing(210, changed(20, 30, 500)).kind(), kToolsChanged);
  Differing others(115, changed(80, 90, 300));
  others.facts.beginning_tokens = 110;
  EXPECT_EQ(others.kind(), kNothingKnown) << "tools of another client, which have phrases in common with these";
  others.facts.comparison = changed(80, 90, 500);
  EXPECT_EQ(others.kind(), kToolsChanged);
  EXPECT_EQ(place_name(Differing(202, changed(90, 0, 500)).find()), "tool 2") << "the sign between two tools";
  EXPECT_EQ(Differing(202, changed(90, 0, 500)).kind(), kToolsChanged);
  EXPECT_EQ(Differing(210, changed(1, 1, 590), {"Today is May ", "4", "5", ".\n"}).kind(), kVolatileText);
}

// The tools of conversation() begin at 110 and 205, after the template's words at 100 and 200; the words at 300 end
// them.
TEST(CacheBreak, ToolsPutInOrLeftOut) {
  const PromptParts with_tools = conversation();
  PromptParts with_one = conversation();
  with_one.tools = 1;
  with_one.parts.erase(with_one.parts.begin() + 5);
  PromptParts without = with_one;
  without.tools = 0;
  without.parts.erase(without.parts.begin() + 3);
  struct Case {
    const char* what;
    std::uint32_t at;
    Comparison comparison;
    const PromptParts& here;
    const PromptParts* known;
    BreakKind kind;
    const char* place;
  };
  const Case cases[] = {
      {"all left out", 102, changed(0, 200, 500), without, &with_tools, kToolsChanged, "tool 1"},
      {"left out, at a token with the end of the message", 99, changed(1, 200, 500), without, &with_tools,
       kToolsChanged, "tool 1"},
      {"the last one left out", 201, changed(0, 100, 500), with_one, &with_tools, kToolsChanged, "tool 2"},
      {"all put in", 102, changed(200, 0, 500), with_tools, &without, kToolsChanged, "tool 1"},
      {"put in, and the known prompt is not remembered", 102, changed(200, 0, 500), with_tools, nullptr, kToolsChanged,
       "tool 1"},
      {"the last one put in", 202, changed(100, 0, 500), with_tools, &with_one, kToolsChanged, "tool 2"},
      {"the template writes the same tools elsewhere", 102, changed(0, 200, 500), with_tools, &with_tools,
       kMessageChanged, "system"},
      {"nothing after it stayed", 102, changed(0, 200, 31), without, &with_tools, kNewContent, nullptr},
      {"a message left out before tools", 60, changed(0, 30, 700), with_tools, &without, kMessageChanged, "system"},
      {"a message put in after tools", 302, changed(100, 0, 500), with_tools, &with_one, kMessageChanged, nullptr},
  };
  for (const Case& one : cases) {
    Differing differing(one.at, one.comparison, {"end.", "a", "b", "\n"});
    differing.parts = one.here;
    differing.facts.known_parts = one.known;
    EXPECT_EQ(to_string(differing.kind()), to_string(one.kind)) << one.what;
    if (one.kind == kToolsChanged) {
      EXPECT_EQ(place_name(differing.find()), one.place) << one.what;
    }
  }
}

TEST(CacheBreak, CallsInOtherWords) {
  const BreakText spaced{"{\"path\"", ": \"a\", \"n\": 1", ":\"a\",\"n\":1", "}"};
  EXPECT_EQ(Differing(520, changed(9, 7, 200), spaced).kind(), kCallReserialised);
  EXPECT_EQ(place_name(Differing(520, changed(9, 7, 200), spaced).find()), "calls of message 3");
  const BreakText with_default{"{", "\"replace_all\":false,\"path\":\"a\"", "\"path\":\"a\"", "}"};
  EXPECT_EQ(Differing(520, changed(9, 4, 200), with_default).kind(), kCallReserialised);
  const BreakText other{"{\"path\"", ": \"a\"", ": \"b\"", "}"};
  EXPECT_EQ(Differing(520, changed(9, 9, 200), other).kind(), kNewContent) << "it says something else";
  EXPECT_EQ(Differing(520, changed(9, 9, 0), other).kind(), kNewContent) << "another call";
}

TEST(CacheBreak, ThoughtsThatDoNotComeBack) {
  const BreakText dropped{"<|im_start|>assistant\n", "", "<think>\nhm\n</think>\n\n", "The answer"};
  Differing client(410, changed(0, 9, 380), dropped);
  EXPECT_EQ(client.kind(), kThinkingDropped);
  EXPECT_EQ(place_name(client.find()), "thinking of message 3");
  EXPECT_EQ(place_name(Differing(400, changed(9, 18, 380), dropped).find()), "thinking of message 3")
      << "the template's words before the answer differ";
  client.parts.has_thoughts = {2};
  EXPECT_EQ(client.kind(), kTemplateRewrote) << "the client sent it, the template left it out";
  Differing last(410, changed(0, 9, 0), dropped);
  EXPECT_EQ(last.kind(), kThinkingDropped) << "also where little follows";
  const BreakText opened{"<|im_start|>assistant\n<think>\n", "\n</think>\n\n", "hm\n</think>\n\n", "The answer"};
  EXPECT_EQ(Differing(410, changed(2, 3, 380), opened).kind(), kThinkingDropped) << "the template opened it";
  const BreakText both{"<|im_start|>assistant\n", "<think>\na\n</think>", "<think>\nb\n</think>", "The answer"};
  EXPECT_NE(Differing(410, changed(9, 9, 380), both).kind(), kThinkingDropped);
}

TEST(CacheBreak, TheTemplatesOwnWords) {
  const BreakText blank{"</tool_response>", "\n", "", "<|im_end|>"};
  const CacheBreak found = Differing(602, changed(1, 0, 200), blank).find();
  EXPECT_EQ(found.kind, kTemplateRewrote);
  EXPECT_EQ(place_name(found), "the template's own words");
  EXPECT_EQ(Differing(2, changed(1, 1, 800), {"Today Date: ", "04 May 2026", "05 May 2026", "\n"}).kind(),
            kVolatileText);
}

TEST(CacheBreak, PromptsWithoutMessages) {
  Differing plain(40, changed(1, 1, 700));
  plain.facts.parts = nullptr;
  EXPECT_EQ(plain.kind(), kMessageChanged);
  plain.facts.other_values = 2;
  EXPECT_EQ(plain.kind(), kVolatileText);
  EXPECT_EQ(place_name(plain.find()), "the prompt");
  plain.facts.comparison = changed(300, 20, 400);
  EXPECT_EQ(plain.kind(), kMessageChanged);
  plain.facts.comparison = changed(300, 20, 0);
  EXPECT_EQ(plain.kind(), kNewContent);
}

TEST(CacheBreak, APromptWithoutMessagesOfWhichLittleStayedIsAnotherOne) {
  Differing plain(40, changed(200, 300, 100));
  plain.facts.parts = nullptr;
  plain.facts.prompt_tokens = 340;
  EXPECT_EQ(plain.kind(), kNewContent);
  EXPECT_EQ(plain.find().lost_tokens, 100U) << "which came again after all";
  plain.facts.comparison = changed(150, 300, 150);
  EXPECT_EQ(plain.kind(), kMessageChanged);
}

TEST(CacheBreak, LossesComeBeforeDifferences) {
  Differing lost(20, changed(1, 1, 700));
  lost.facts.lost = LostState{LossCause::kDiskBudget, 42, 512};
  const CacheBreak found = lost.find();
  EXPECT_EQ(found.kind, kEvicted);
  EXPECT_EQ(found.lost_tokens, 512U);
  EXPECT_EQ(found.lost->when_ns, 42);
  lost.facts.lost->cause = LossCause::kDamaged;
  EXPECT_EQ(lost.kind(), kDamaged);
  EXPECT_NE(advice(lost.find()).find("Check the disk"), std::string_view::npos);
  lost.facts.lost->cause = LossCause::kRefused;
  EXPECT_EQ(lost.kind(), kDamaged);
  EXPECT_NE(advice(lost.find()).find("no disk is at fault"), std::string_view::npos) << "its bytes were whole";
  lost.facts.hindrance = Hindrance::kDamaged;
  lost.facts.known_tokens = 700;
  EXPECT_NE(advice(lost.find()).find("no disk is at fault"), std::string_view::npos) << "also while it is still known";
  lost.facts.hindrance = Hindrance::kNone;
  lost.facts.known_tokens = 20;
  lost.facts.lost->tokens = 3;
  EXPECT_EQ(lost.kind(), kMessageChanged) << "next to nothing was lost";
}

TEST(CacheBreak, PointsThatAreMissing) {
  BreakFacts facts{.prompt_tokens = 810, .cached_tokens = 100, .known_tokens = 700, .beginning_tokens = 5};
  EXPECT_EQ(find_break(facts).kind, kNoPoint);
  EXPECT_EQ(find_break(facts).lost_tokens, 600U);
  facts.lost = LostState{LossCause::kRamBudget, 1, 0};
  EXPECT_EQ(find_break(facts).kind, kEvicted) << "a deeper point was there once";
  Differing parted(20, changed(1, 1, 700));
  parted.facts.cached_tokens = 0;
  EXPECT_EQ(parted.kind(), kMessageChanged);
  EXPECT_EQ(parted.find().lost_tokens, 720U) << "and the tokens back to the point";
  Differing fresh(712, changed(98, 300, 0));
  fresh.facts.cached_tokens = 300;
  EXPECT_EQ(fresh.kind(), kNoPoint);
}

TEST(CacheBreak, NothingIsKnown) {
  BreakFacts facts{.prompt_tokens = 810, .cached_tokens = 0, .known_tokens = 3, .beginning_tokens = 5};
  EXPECT_EQ(find_break(facts).kind, kNothingKnown);
  EXPECT_EQ(find_break(facts).lost_tokens, 0U);
  facts.other_settings = true;
  EXPECT_EQ(find_break(facts).kind, kOtherSettings);
  facts.other_salt = true;
  EXPECT_EQ(find_break(facts).kind, kOtherSalt);
  EXPECT_EQ(find_break(facts).lost_tokens, 810U);
  facts.known_tokens = 400;
  facts.cached_tokens = 400;
  EXPECT_EQ(find_break(facts).kind, kNewContent) << "much is known under this salt";
}

// Every hindrance with every amount of what is known: the naive twin is the table of docs/explain.md.
TEST(CacheBreak, HindrancesExhaustively) {
  for (int h = 0; h <= static_cast<int>(Hindrance::kNoRoom); ++h) {
    for (std::size_t known = 0; known <= 100; known += 10) {
      for (std::size_t cached = 0; cached <= known; cached += 10) {
        const auto hindrance = static_cast<Hindrance>(h);
        const CacheBreak found = find_break({.prompt_tokens = 100,
                                             .cached_tokens = cached,
                                             .known_tokens = known,
                                             .beginning_tokens = 5,
                                             .hindrance = hindrance});
        BreakKind expected = kNone;
        if (hindrance == Hindrance::kCacheOff) {
          expected = kCacheOff;
        } else if (hindrance == Hindrance::kPromptScored) {
          expected = kPromptScored;
        } else if (hindrance == Hindrance::kNotCacheable) {
          expected = kNotCacheable;
        } else if (cached < 99 && known > cached && hindrance != Hindrance::kNone) {
          expected = hindrance == Hindrance::kDamaged       ? kDamaged
                     : hindrance == Hindrance::kLoadFailed  ? kLoadFailed
                     : hindrance == Hindrance::kLoadTooSlow ? kLoadTooSlow
                                                            : kNoRoom;
        } else if (cached < 99 && known <= 21) {
          expected = kNothingKnown;
        } else if (cached < 99 && known > cached + 16) {
          expected = kNoPoint;
        } else if (cached < 99 && known < 100) {
          expected = kNewContent;
        }
        ASSERT_EQ(to_string(found.kind), to_string(expected)) << h << " " << known << " " << cached;
        ASSERT_LE(found.lost_tokens, 100 - cached);
      }
    }
  }
}

// Wherever and however a prompt differs: the place is named, the loss is what both sides share after it, and only texts
// that stayed are a loss.
TEST(CacheBreak, DifferencesExhaustively) {
  for (std::uint32_t at = 22; at < 809; ++at) {
    for (const std::uint32_t here_gap : {0U, 1U, 50U, 200U}) {
      for (const std::uint32_t there_gap : {0U, 1U, 50U, 200U}) {
        for (const std::uint32_t common : {0U, 31U, 32U, 300U}) {
          const Differing differing(at, changed(here_gap, there_gap, common));
          const CacheBreak found = differing.find();
          ASSERT_EQ(found.lost_tokens, common < 32 ? 0 : common);
          ASSERT_EQ(found.at, Position{at});
          ASSERT_TRUE(found.differs && found.has_place);
          ASSERT_FALSE(place_name(found).empty());
          if (common < 32) {
            ASSERT_TRUE(found.kind == kNewContent || found.kind == kToolsChanged || found.kind == kCallReserialised)
                << to_string(found.kind);
          } else if (found.kind != kNewContent) {
            ASSERT_NE(advice(found), "");
          }
          ASSERT_TRUE(found.kind != kToolsChanged || found.place.field == PromptField::kTool);
          ASSERT_TRUE(found.kind != kTemplateRewrote || found.place.field == PromptField::kTemplate);
        }
      }
    }
  }
}

TEST(CacheBreak, EachKindHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kBreakKinds; ++i) names.insert(to_string(static_cast<BreakKind>(i)));
  EXPECT_EQ(names.size(), kBreakKinds);
  EXPECT_EQ(names.count(""), 0U);
}

}  // namespace
}  // namespace kvkeep::explain
