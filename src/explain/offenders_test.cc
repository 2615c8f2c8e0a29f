#include "explain/offenders.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvkeep::explain {
namespace {

CacheBreak a_date(std::size_t lost) {
  return {.kind = BreakKind::kVolatileText,
          .at = Position{8},
          .has_place = true,
          .place = {PromptField::kContent, PromptRole::kSystem, 0},
          .what = VolatileText::kDate,
          .lost_tokens = lost,
          .differs = true};
}

TEST(Offenders, AddUpByClientAndPlace) {
  Offenders offenders;
  for (int i = 0; i < 50; ++i) {
    offenders.count("opencode");
    if (i % 5 != 0) offenders.add("opencode", a_date(1'000), "Today is ", 250, i);
  }
  offenders.count("codex");
  offenders.add("codex", a_date(500), "Today is ", 100, 7);
  const auto worst = offenders.worst();
  ASSERT_EQ(worst.size(), 2U);
  EXPECT_EQ(worst[0].client, "opencode");
  EXPECT_EQ(worst[0].times, 40U);
  EXPECT_EQ(worst[0].lost_tokens, 40'000U);
  EXPECT_EQ(worst[0].last_ns, 49);
  EXPECT_EQ(offenders.requests_of("opencode"), 50U);
  EXPECT_EQ(offence_text(worst[0], 50),
            "opencode: 40 of 50 requests: volatile-text (date) in system, after \"Today is\": 40,000 tokens (10.0 s) "
            "prefilled again");
  EXPECT_NE(offence_advice(worst[0]), "");
}

TEST(Offenders, RequestsOutsideTheCacheAreNamedAsSuch) {
  Offenders offenders;
  offenders.add("a", {.kind = BreakKind::kCacheOff, .at = Position{}, .lost_tokens = 700}, "", 70, 1);
  EXPECT_EQ(offence_text(offenders.worst().at(0), 0),
            "a: 1 request: cache-off in the prompt: 700 tokens (70 ms) prefilled without the cache");
  offenders.add("b", {.kind = BreakKind::kNoPoint, .at = Position{}, .lost_tokens = 800}, "", 0, 1);
  EXPECT_EQ(offence_text(offenders.worst().at(0), 4),
            "b: 1 of 4 requests: no-point in the prompt: 800 tokens prefilled again");
}

TEST(Offenders, IgnoreWhatCostsNothing) {
  Offenders offenders;
  offenders.add("a", a_date(kLeastLost - 1), "x", 1, 1);
  EXPECT_TRUE(offenders.worst().empty());
  offenders.add("a", a_date(kLeastLost), "x", 1, 1);
  EXPECT_EQ(offenders.worst().size(), 1U);
}

TEST(Offenders, KeepTheWorstOfTooMany) {
  Offenders offenders;
  for (std::size_t i = 0; i < Offenders::kMostOffenders + 50; ++i) {
    offenders.add("a", a_date(100 + i), "line " + std::to_string(i), 1, 1);
    offenders.count("client " + std::to_string(i));
  }
  const auto worst = offenders.worst();
  EXPECT_EQ(worst.size(), Offenders::kMostOffenders);
  EXPECT_EQ(worst.front().lost_tokens, 100 + Offenders::kMostOffenders + 49);
  EXPECT_EQ(worst.back().lost_tokens, 150U);
  EXPECT_EQ(offenders.clients().size(), Offenders::kMostClients);
}

// Counts of an earlier process and of this one add up to those of one process that counted all.
TEST(Offenders, MergeIsTheSameAsCounting) {
  Offenders whole;
  Offenders first;
  Offenders second;
  for (int i = 0; i < 20; ++i) {
    Offenders& half = i < 12 ? first : second;
    for (Offenders* one : {&whole, &half}) {
      one->count("a");
      one->add("a", a_date(64), i % 2 == 0 ? "even" : "odd", 2, i);
    }
  }
  second.merge(first);
  EXPECT_EQ(second.worst(), whole.worst());
  EXPECT_EQ(second.clients(), whole.clients());
}

// A table that is full of larger ones does not throw a new one out at each of its requests.
TEST(Offenders, ANewOneAddsUpInAFullTable) {
  constexpr std::int64_t kDayNs = 86'400'000'000'000;
  Offenders offenders;
  const auto cost_of = [&](const std::string& client) -> std::uint64_t {
    for (const Offender& offender : offenders.worst()) {
      if (offender.client == client) return offender.lost_tokens;
    }
    return 0;
  };
  for (std::size_t i = 0; i < Offenders::kMostOffenders; ++i) {
    offenders.add(i == 0 ? "mended" : "old", a_date(i == 0 ? 50'000 : 20'000), "line " + std::to_string(i), 1, kDayNs);
  }
  for (int i = 0; i < 5; ++i) {
    for (const char* client : {"a", "b"}) offenders.add(client, a_date(5'000), "", 1, 2 * kDayNs + i);
  }
  EXPECT_EQ(cost_of("a"), 25'000U);
  EXPECT_EQ(cost_of("b"), 25'000U);
  EXPECT_EQ(cost_of("mended"), 50'000U) << "the worst stay";
  for (std::size_t i = 0; i < Offenders::kMostOffenders; ++i) {
    offenders.add("new", a_date(20'000), "line " + std::to_string(i), 1, 200 * kDayNs);
  }
  EXPECT_EQ(cost_of("mended"), 0U) << "it was not seen for half a year";
}

TEST(Offenders, ForgetTheClientSeenLongestAgo) {
  Offenders offenders;
  for (std::size_t i = 0; i < Offenders::kMostClients; ++i) {
    offenders.count("client " + std::to_string(i), static_cast<std::int64_t>(i));
  }
  offenders.count("client 0", 1'000);
  offenders.count("new", 1'001);
  EXPECT_EQ(offenders.clients().size(), Offenders::kMostClients);
  EXPECT_EQ(offenders.requests_of("new"), 1U);
  EXPECT_EQ(offenders.requests_of("client 0"), 2U);
  EXPECT_EQ(offenders.requests_of("client 1"), 0U);
}

TEST(Offenders, LaterMessagesAreOnePlace) {
  Offenders offenders;
  for (std::uint32_t i = 2; i < 12; ++i) {
    CacheBreak found = a_date(100);
    found.kind = BreakKind::kCallReserialised;
    found.place = {PromptField::kCalls, PromptRole::kAssistant, i};
    offenders.add("a", found, "", 1, 1);
  }
  ASSERT_EQ(offenders.worst().size(), 1U);
  EXPECT_EQ(offenders.worst()[0].place, "calls of later messages");
  EXPECT_EQ(offenders.worst()[0].times, 10U);
}

// A sum knows its place only by name, and not when state left.
// The same that the reply to each of the requests had.
TEST(Offenders, GetTheAdviceOfTheirRequests) {
  for (const auto what :
       {VolatileText::kNone, VolatileText::kBillingLine, VolatileText::kDate, VolatileText::kNumber}) {
    const CacheBreak found{.kind = BreakKind::kVolatileText, .has_place = true, .what = what, .lost_tokens = 100};
    Offenders offenders;
    offenders.add("agent", found, "", 1, 1);
    EXPECT_EQ(offence_advice(offenders.worst().at(0)), advice(found)) << to_string(what);
  }
  for (const auto role : {PromptRole::kSystem, PromptRole::kUser, PromptRole::kNone}) {
    const CacheBreak found{.kind = BreakKind::kMessageChanged,
                           .has_place = role != PromptRole::kNone,
                           .place = {PromptField::kContent, role, 0},
                           .lost_tokens = 100};
    Offenders offenders;
    offenders.add("agent", found, "", 1, 1);
    EXPECT_EQ(offence_advice(offenders.worst().at(0)), advice(found)) << place_name(found);
  }
}

TEST(Offenders, GetTheAdviceOfTheirPlace) {
  const auto advice_at = [](PromptField field, PromptRole role, std::uint32_t index) {
    Offenders offenders;
    offenders.add(
        "a", {.kind = BreakKind::kNewContent, .has_place = true, .place = {field, role, index}, .lost_tokens = 200}, "",
        0, 0);
    return std::string(offence_advice(offenders.worst().at(0)));
  };
  for (const std::uint32_t index : {1U, 6U}) {
    for (const PromptField field : {PromptField::kContent, PromptField::kThinking, PromptField::kCalls}) {
      EXPECT_TRUE(advice_at(field, PromptRole::kAssistant, index).starts_with("A tool or the model answered"));
    }
    EXPECT_TRUE(advice_at(PromptField::kContent, PromptRole::kTool, index).starts_with("A tool or the model answered"));
    EXPECT_TRUE(advice_at(PromptField::kContent, PromptRole::kUser, index).starts_with("Text that stays the same"));
    EXPECT_TRUE(advice_at(PromptField::kTool, PromptRole::kNone, index).starts_with("Text that stays the same"));
  }
  Offender gone;
  gone.kind = "evicted";
  const std::string_view evicted = offence_advice(gone);
  EXPECT_TRUE(evicted.contains("--cache-ram") && evicted.contains("--kv-disk-space-mb")) << evicted;
}

}  // namespace
}  // namespace kvkeep::explain
