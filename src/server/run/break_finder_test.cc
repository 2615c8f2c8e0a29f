#include "server/run/break_finder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/media_ids.h"
#include "server/run/lookup.h"
#include "server/run/parts_fixture.h"

namespace kvkeep::server {
namespace {

using explain::BreakKind;
using Tokens = std::vector<TokenId>;

// ---- what clients sent ----

TEST(OwnPrompts, KnowRunsOfTheirOwnersOnly) {
  OwnPrompts own;
  const Tokens prompt = counting(100);
  own.remember(1, 0, prompt);
  const TokenSpan all(prompt);
  EXPECT_TRUE(own.has(1, all.first(50), all.subspan(50, 10)));
  EXPECT_FALSE(own.has(2, all.first(50), all.subspan(50, 10))) << "another client";
  EXPECT_FALSE(own.has(1, all.first(49), all.subspan(50, 10))) << "another place";
  Tokens other = prompt;
  other[3] = 7;
  EXPECT_FALSE(own.has(1, TokenSpan(other).first(50), all.subspan(50, 10))) << "after other text";
  EXPECT_FALSE(own.has(1, all.first(95), counting(10, 195))) << "beyond its end";
}

TEST(OwnPrompts, TellConversationsOfOneOwnerApart) {
  using enum explain::KnownFrom;
  OwnPrompts own;
  const Tokens prompt = counting(100);
  const TokenSpan before = TokenSpan(prompt).first(50);
  const TokenSpan run = TokenSpan(prompt).subspan(50, 10);
  own.remember(1, 5, prompt);
  EXPECT_EQ(own.known_from(1, 5, before, run), kSameConversation);
  EXPECT_EQ(own.known_from(1, 6, before, run), kAnother);
  EXPECT_EQ(own.known_from(1, 0, before, run), kUnknown) << "the client names none";
  EXPECT_EQ(own.known_from(2, 5, before, run), kUnknown) << "another owner's prompts say nothing";
  EXPECT_EQ(own.known_from(1, 5, before, counting(10, 900)), kUnknown) << "nobody is known to have sent it";
  own.remember(1, 6, counting(120));
  EXPECT_EQ(own.known_from(1, 5, before, run), kSameConversation) << "another conversation goes on from it";
  EXPECT_EQ(own.known_from(1, 6, before, run), kSameConversation);
}

TEST(OwnPrompts, KeepThePartsOfPrompts) {
  OwnPrompts own;
  const Tokens prompt = counting(100);
  const TokenSpan all(prompt);
  const auto parts = std::make_shared<PromptParts>();
  own.remember(1, 0, prompt, {parts, 90});
  own.remember(2, 0, prompt);
  const PromptWithParts* found = own.parts_of(all.first(50), all.subspan(50, 10));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->parts, parts) << "the other prompt has no parts";
  EXPECT_EQ(found->tokens, 90U) << "without its reply";
  EXPECT_EQ(own.parts_of(all.first(49), all.subspan(50, 10)), nullptr) << "another place";
  const auto newer = std::make_shared<PromptParts>();
  own.remember(3, 0, prompt, {newer, 90});
  EXPECT_EQ(own.parts_of(all.first(50), all.subspan(50, 10))->parts, newer);
}

TEST(OwnPrompts, ShareWithTheirOwnersOnly) {
  OwnPrompts own;
  own.remember(1, 0, counting(100));
  own.remember(1, 0, counting(50, 900));
  EXPECT_EQ(own.shared_with(1, counting(80)), 80U);
  EXPECT_EQ(own.shared_with(1, counting(200)), 100U);
  EXPECT_EQ(own.shared_with(2, counting(80)), 0U);
  for (const std::size_t parts_at : {70U, 90U, 30U}) {
    std::vector<TokenId> other = counting(100);
    other[parts_at] = 9'999;
    own.remember(3, 0, other);
  }
  EXPECT_EQ(own.shared_with(3, counting(200)), 90U) << "neither the newest nor the oldest";
}

TEST(OwnPrompts, AreBounded) {
  OwnPrompts own(250);
  own.remember(1, 0, counting(100));
  own.remember(1, 0, counting(120));
  EXPECT_EQ(own.tokens(), 120U) << "a prompt that goes on takes the place of the one before";
  own.remember(2, 0, counting(100));
  own.remember(3, 0, counting(100, 900));
  EXPECT_EQ(own.tokens(), 200U);
  EXPECT_FALSE(own.has(1, {}, counting(5))) << "the oldest left";
  own.remember(4, 0, counting(251));
  EXPECT_EQ(own.tokens(), 200U) << "too long to remember";
}

// ---- finding breaks ----

class KeptExplanations final : public ExplainSink {
 public:
  void on_explained(ExplainedRequest request) override { requests.push_back(std::move(request)); }
  std::vector<ExplainedRequest> requests;
};

// Token 7 is " 7", and those from kNames on are names: 900 is " Ann", 901 " Bnn".
constexpr TokenId kNames = 900;
std::string numbered_text(TokenSpan tokens) {
  std::string text;
  for (const TokenId token : tokens) {
    const bool is_name = token >= kNames && token < kNames + 26;
    text += is_name ? fmt::format(" {}nn", static_cast<char>('A' + token - kNames)) : fmt::format(" {}", token);
  }
  return text;
}

class BreakFinderTest : public PartsTest {
 protected:
  BreakFinderTest() { stats.miss = MissReason::kNewTokens; }
  BreakFinder make(ExplainOptions chosen = {}) {
    chosen.text = numbered_text;
    chosen.sink = &kept;
    return {&options.emplace_back(std::move(chosen)), cache};
  }
  // The prompt of `job` differs from `known` after what they share, which was reused.
  std::shared_ptr<const FoundBreak> find(BreakFinder& breaks, const Tokens& prompt, const Tokens& known) {
    const std::size_t at = common_prefix(prompt, known);
    job.asker = std::make_shared<Asker>(asker);
    stats.prompt_tokens = prompt.size();
    stats.cached_tokens = stats.known_tokens = at;
    const TokenSpan rest = TokenSpan(known).subspan(at);
    const auto difference = difference_at(Position{} + at, prompt, rest, true);
    return breaks.find({.job = job,
                        .stats = stats,
                        .tokens = prompt,
                        .asker = job.asker.get(),
                        .difference = difference ? &*difference : nullptr,
                        .known_rest = rest});
  }
  void end(BreakFinder& breaks, std::shared_ptr<const FoundBreak> found, const Tokens& tokens, std::int64_t now_ns) {
    EffectiveTokens effective;
    effective.tokens = tokens;
    effective.asker = job.asker;
    breaks.end(job, stats, std::move(found), effective, now_ns);
  }
  static Tokens changed(Tokens tokens, std::size_t at) {
    tokens[at] = 7;
    return tokens;
  }

  std::deque<ExplainOptions> options;
  KeptExplanations kept;
  Job job;
  Asker asker;
  JobStats stats;
};

TEST_F(BreakFinderTest, WithoutTextNothingIsExplained) {
  BreakFinder off(nullptr, cache);
  EXPECT_FALSE(off.wanted());
  EXPECT_EQ(find(off, counting(100), counting(50)), nullptr);
  BreakFinder on = make();
  job.ahead = true;
  EXPECT_EQ(find(on, counting(100), counting(50)), nullptr) << "a prefill ahead is no request";
}

TEST_F(BreakFinderTest, ADifferenceHasTextsAndALoss) {
  BreakFinder breaks = make();
  const auto found = find(breaks, changed(counting(300), 100), counting(300));
  EXPECT_EQ(found->found.kind, BreakKind::kVolatileText) << "a number";
  EXPECT_EQ(found->found.lost_tokens, 199U);
  EXPECT_TRUE(found->texts.here.starts_with(" 7 201 "));
  EXPECT_TRUE(found->texts.there.starts_with(" 200 201 "));
  EXPECT_TRUE(found->texts.before.ends_with(" 198 199"));
  EXPECT_FALSE(found->texts.shows_there) << "nobody is known to have sent it";
}

// One other text may be an edit.
TEST_F(BreakFinderTest, ATextIsVolatileIfItsClientSentTwoOthersThere) {
  BreakFinder breaks = make();
  const auto named = [](TokenId name) {
    Tokens tokens = counting(300);
    tokens[100] = name;
    return tokens;
  };
  asker.owner = 5;
  for (const TokenId name : {900, 901}) end(breaks, find(breaks, named(name), {}), named(name), 1);
  asker.owner = 6;
  EXPECT_EQ(to_string(find(breaks, named(902), named(901))->found.kind), "message-changed") << "another client's";
  asker.owner = 5;
  EXPECT_EQ(to_string(find(breaks, named(902), named(901))->found.kind), "volatile-text");
  EXPECT_EQ(to_string(find(breaks, named(901), named(900))->found.kind), "message-changed")
      << "one of the two is its own";
}

// Turns were replaced by the ids that were sampled: the parts are those of what was evaluated.
TEST_F(BreakFinderTest, PartsAreThoseOfTheEvaluatedPrompt) {
  BreakFinder breaks = make();
  const Tokens known = counting(400);
  const auto found = find(breaks, known, {});
  EffectiveTokens effective;
  effective.tokens = known;
  auto evaluated = std::make_shared<Asker>();
  auto parts = std::make_shared<PromptParts>();
  parts->parts = {{Position{}, {}}, {Position{100}, {PromptField::kTool, PromptRole::kNone, 0}}, {Position{200}, {}}};
  parts->tools = 1;
  evaluated->parts = parts;
  effective.asker = evaluated;
  breaks.end(job, stats, found, effective, 1);
  Tokens without = known;
  without.erase(without.begin() + 100, without.begin() + 200);
  auto none = std::make_shared<PromptParts>();
  none->parts = {{Position{}, {}}};
  asker.parts = none;
  EXPECT_EQ(place_name(find(breaks, without, known)->found), "tool 1");
}

TEST_F(BreakFinderTest, AReplyThatComesBackShorterIsAnEdit) {
  const auto parts_of = [](std::uint32_t answer, std::uint32_t end) {
    auto parts = std::make_shared<PromptParts>();
    parts->parts = {{Position{}, {PromptField::kContent, PromptRole::kUser, 0}}, {Position{100}, {}}};
    parts->messages = 1;
    if (answer == 0) return parts;
    parts->parts.push_back({Position{answer}, {PromptField::kContent, PromptRole::kAssistant, 1}});
    parts->parts.push_back({Position{end}, {}});
    parts->messages = 2;
    return parts;
  };
  BreakFinder breaks = make();
  const Tokens known = counting(300);  // the answer of 20 tokens begins at 105
  asker.parts = parts_of(0, 0);
  const auto found = find(breaks, Tokens(known.begin(), known.begin() + 105), {});
  end(breaks, found, known, 1);
  Tokens shorter = known;
  shorter.erase(shorter.begin() + 120, shorter.begin() + 125);
  asker.parts = parts_of(105, 120);
  const auto edited = find(breaks, shorter, known)->found;
  EXPECT_EQ(to_string(edited.kind), "message-changed");
  EXPECT_EQ(place_name(edited), "message 2 (assistant)");
}

TEST_F(BreakFinderTest, ToolsThatAPromptLeavesOutAreNamed) {
  const auto parts_of = [](bool with_tool) {
    auto parts = std::make_shared<PromptParts>();
    parts->parts = {{Position{}, {PromptField::kContent, PromptRole::kSystem, 0}}, {Position{100}, {}}};
    if (with_tool) parts->parts.push_back({Position{102}, {PromptField::kTool, PromptRole::kNone, 0}});
    parts->tools = with_tool ? 1 : 0;
    return parts;
  };
  BreakFinder breaks = make();
  const Tokens known = counting(400);
  asker.parts = parts_of(true);
  end(breaks, find(breaks, known, {}), known, 1);
  Tokens without = known;
  without.erase(without.begin() + 101, without.begin() + 250);
  asker.parts = parts_of(false);
  const auto found = find(breaks, without, known)->found;
  EXPECT_EQ(to_string(found.kind), to_string(BreakKind::kToolsChanged));
  EXPECT_EQ(place_name(found), "tool 1");
}

TEST_F(BreakFinderTest, TheKnownTextIsShownToThoseWhoSentIt) {
  BreakFinder breaks = make();
  const Tokens known = counting(300);
  asker.owner = 5;
  end(breaks, find(breaks, known, {}), known, 1);
  EXPECT_TRUE(find(breaks, changed(known, 100), known)->texts.shows_there);
  asker.owner = 6;
  EXPECT_FALSE(find(breaks, changed(known, 100), known)->texts.shows_there);
  BreakFinder open = make({.shows_all = true});
  EXPECT_TRUE(find(open, changed(known, 100), known)->texts.shows_there) << "--explain-text";
}

TEST(NamedText, TellsPicturesApart) {
  const auto text = [](TokenSpan tokens) { return is_media_id(tokens.front()) ? "[media]" : numbered_text(tokens); };
  MediaHash file;
  const Tokens first = media_ids(file, 0, {.embeddings = 8, .positions = 8});
  file.bytes[0] = 1;
  const Tokens second = media_ids(file, 0, {.embeddings = 8, .positions = 8});
  const auto shown = [&](const Tokens& picture) {
    Tokens tokens = {3, 4};
    tokens.insert(tokens.end(), picture.begin(), picture.end());
    tokens.push_back(5);
    return named_text(text, tokens);
  };
  EXPECT_NE(shown(first), shown(second));
  EXPECT_TRUE(shown(first).starts_with(" 3 4[media ")) << shown(first);
  EXPECT_TRUE(shown(first).ends_with("] 5")) << shown(first);
  EXPECT_EQ(shown(first).size(), std::string(" 3 4[media 12345678] 5").size()) << shown(first);
  EXPECT_EQ(named_text(text, TokenSpan(first).subspan(1)), "[media]") << "it begins within the picture";
}

TEST_F(BreakFinderTest, LostStateIsNamed) {
  Sequences sequences = make_sequences();
  const Tokens prompt = counting(200);
  run(sequences, prompt);
  executor.run_all();
  sequences.clear_idle();  // it holds the state
  ASSERT_TRUE(cache.forget(prompt).ok());
  BreakFinder breaks = make();
  const auto found = find(breaks, prompt, {});
  EXPECT_EQ(found->found.kind, BreakKind::kEvicted);
  EXPECT_EQ(found->found.lost->cause, explain::LossCause::kForgotten);
  EXPECT_GE(found->found.lost_tokens, 128U);
}

// The tier was smaller than the prompt: only the beginning got there, and was lost.
TEST_F(BreakFinderTest, ALossReachesToTheEndOfWhatTheClientSent) {
  Sequences sequences = make_sequences();
  const Tokens prompt = counting(1'000);
  run(sequences, counting(200));
  executor.run_all();
  sequences.clear_idle();  // it holds the state
  ASSERT_TRUE(cache.forget(counting(200)).ok());
  BreakFinder breaks = make();
  asker.owner = 5;
  EXPECT_LE(find(breaks, prompt, {})->found.lost_tokens, 200U);
  end(breaks, find(breaks, prompt, {}), prompt, 1);
  EXPECT_EQ(find(breaks, prompt, {})->found.lost_tokens, 1'000U);
  Tokens other = prompt;
  other[600] = 7;
  EXPECT_EQ(find(breaks, other, {})->found.lost_tokens, 600U) << "only what they share was computed";
  asker.owner = 6;
  EXPECT_LE(find(breaks, prompt, {})->found.lost_tokens, 200U) << "another client sent it";
}

// The prompt was known to its end when the request came; its load found the rows damaged.
TEST_F(BreakFinderTest, DamageThatTheLoadFoundIsNamed) {
  Sequences sequences = make_sequences();
  const Tokens prompt = counting(200);
  run(sequences, prompt);
  executor.run_all();
  sequences.clear_idle();  // it holds the state
  cache.report_damaged(cache.lease(prompt)->steps().front().segment, explain::LossCause::kRefused);
  BreakFinder breaks = make();
  stats.prompt_tokens = stats.known_tokens = prompt.size();
  stats.miss = MissReason::kLoadFailed;
  const auto find_it = [&] {
    return breaks.find({job, stats, prompt, /*asker=*/nullptr, /*difference=*/nullptr, /*known_rest=*/{}})->found;
  };
  EXPECT_EQ(find_it().kind, BreakKind::kDamaged);
  ASSERT_TRUE(find_it().lost.has_value());
  EXPECT_EQ(find_it().lost->cause, explain::LossCause::kRefused) << "by the model's memory, and no disk is blamed";
  EXPECT_EQ(find_it().lost_tokens, 200U);
  stats.miss = MissReason::kNoCells;
  EXPECT_EQ(find_it().kind, BreakKind::kNoRoom);
}

TEST_F(BreakFinderTest, OtherSettingsAreRecognisedByTheBeginning) {
  BreakFinder breaks = make({.other_settings = {counting(64)}});
  EXPECT_EQ(find(breaks, counting(200), {})->found.kind, BreakKind::kOtherSettings);
  EXPECT_EQ(find(breaks, counting(200, 900), {})->found.kind, BreakKind::kNothingKnown);
  job.tenant.bytes[0] = 1;
  EXPECT_EQ(find(breaks, counting(200), {})->found.kind, BreakKind::kNothingKnown) << "tenants know of no other state";
}

TEST_F(BreakFinderTest, AnotherSaltIsNamedToTheSameSessionOnly) {
  BreakFinder breaks = make();
  asker.named_session = 9;
  job.tenant.bytes[0] = 1;
  find(breaks, counting(200), {});
  job.tenant.bytes[0] = 2;
  EXPECT_EQ(find(breaks, counting(200), {})->found.kind, BreakKind::kOtherSalt);
  EXPECT_EQ(find(breaks, counting(200, 900), {})->found.kind, BreakKind::kNothingKnown) << "another prompt";
  job.tenant.bytes[0] = 3;
  asker.named_session = 10;
  EXPECT_EQ(find(breaks, counting(200), {})->found.kind, BreakKind::kNothingKnown) << "another session";
  asker.named_session = 0;
  EXPECT_EQ(find(breaks, counting(200), {})->found.kind, BreakKind::kNothingKnown) << "no session";
}

TEST_F(BreakFinderTest, RequestsAreHandedOverAtTheirEnd) {
  BreakFinder breaks = make();
  job.id = "a";
  asker.program = "agent";
  end(breaks, nullptr, counting(10), 1);
  EXPECT_TRUE(kept.requests.empty()) << "it never began";
  end(breaks, find(breaks, counting(100), {}), counting(100), 42);
  ASSERT_EQ(kept.requests.size(), 1U);
  EXPECT_EQ(kept.requests[0].id, "a");
  EXPECT_EQ(kept.requests[0].client, "agent");
  EXPECT_EQ(kept.requests[0].ended_ns, 42);
}

TEST_F(BreakFinderTest, OnlyPrefilledTokensAreLost) {
  BreakFinder breaks = make();
  auto found = std::make_shared<FoundBreak>();
  found->found.lost_tokens = 100'000;
  stats.prefilled_tokens = 2'000;
  end(breaks, found, counting(10), 1);
  ASSERT_EQ(kept.requests.size(), 1U);
  EXPECT_EQ(kept.requests[0].found->found.lost_tokens, 2'000U) << "its client left";
  EXPECT_EQ(found->found.lost_tokens, 100'000U);
  stats.prefilled_tokens = 100'000;
  EXPECT_EQ(at_end(found, stats), found);
  EXPECT_EQ(at_end(nullptr, stats), nullptr);
}

TEST(LostMs, IsTheLostTokensPartOfThePrefill) {
  JobStats stats;
  stats.prompt_tokens = 1'000;
  stats.cached_tokens = 200;
  stats.prefilled_tokens = 800;
  stats.prompt_ms = 500;
  stats.load_ms = 100;
  EXPECT_DOUBLE_EQ(lost_ms({.lost_tokens = 400}, stats), 200);
  EXPECT_DOUBLE_EQ(lost_ms({.lost_tokens = 9'000}, stats), 400) << "at most all of it";
  stats.cached_tokens = 1'000;
  EXPECT_DOUBLE_EQ(lost_ms({.lost_tokens = 400}, stats), 0);
}

TEST(LostMs, OfAClientThatLeftIsThatOfWhatWasComputed) {
  const JobStats stats{.prompt_tokens = 1'000, .cached_tokens = 200, .prefilled_tokens = 100, .prompt_ms = 50};
  EXPECT_DOUBLE_EQ(lost_ms({.lost_tokens = 100}, stats), 50);
  EXPECT_DOUBLE_EQ(lost_ms({.lost_tokens = 50}, stats), 25);
}

}  // namespace
}  // namespace kvkeep::server
