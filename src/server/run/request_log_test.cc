// The one line about a request, for a reader who wants to know why so much was prefilled again.

#include "server/run/request_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "server/run/trace.h"

namespace kvkeep::server {
namespace {

struct Case {
  JobStats stats;
  std::optional<Difference> difference;
  policy::PromptMarkers markers;
  bool started = true;
  Finish how = Finish::kStop;
  std::optional<Error> error;
  ShowTokens show;
  std::shared_ptr<const FoundBreak> found;

  EndedRequest ended() const {
    return {.stats = stats,
            .started = started,
            .difference = difference ? &*difference : nullptr,
            .markers = markers,
            .how = how,
            .error = error,
            .found = found};
  }
  std::string miss() const { return miss_text(ended(), show ? &show : nullptr); }
  std::string done() const { return done_text(ended(), show ? &show : nullptr); }
};

// A prompt of 625 tokens whose date, at token 8, has changed since yesterday.
Case changed_date() {
  Case one;
  one.stats.prompt_tokens = 625;
  one.stats.cached_tokens = one.stats.memory_tokens = one.stats.known_tokens = 8;
  one.stats.prefilled_tokens = 617;
  one.stats.predicted_tokens = 41;
  one.stats.prompt_ms = 1930;
  one.stats.predicted_ms = 512;
  one.stats.source = CacheSource::kMemoryToken;
  one.stats.miss = MissReason::kNewTokens;
  one.difference =
      Difference{.at = Position{8}, .begin = Position{6}, .prompt = {1, 2, 30, 4}, .cached = {1, 2, 31, 4}};
  one.difference->known_beyond = 640;
  one.markers.user_turns = {Position{500}};
  one.markers.generation_prompt = Position{620};
  return one;
}

TEST(RequestLog, AChangedDateIsReportedWithItsPlaceAndCost) {
  EXPECT_EQ(
      changed_date().done(),
      "end=stop prompt=625 cached=8 (memory 8) prefilled=617 in 1.930s reply=41 in 0.512s reason=new-tokens: parts at "
      "token 8, in the system prompt or the tools, from a known conversation with 640 more tokens");
}

TEST(RequestLog, TextsAreShownOnlyIfAskedFor) {
  Case one = changed_date();
  one.show = [](TokenSpan tokens) {
    std::string text = "<";
    for (const TokenId id : tokens) text += std::to_string(id) + ".";
    return text + ">";
  };
  EXPECT_TRUE(one.miss().ends_with("with 640 more tokens, after <1.2.>: here <30.4.>, there <31.4.>")) << one.miss();
}

TEST(RequestLog, SaysInWhichTurnItParts) {
  Case one = changed_date();
  one.markers.user_turns = {Position{2}, Position{7}, Position{40}};
  EXPECT_TRUE(one.miss().starts_with("parts at token 8, in turn 2 of the user, from")) << one.miss();
  one.markers.assistant_turns = {Position{5}, Position{8}};
  EXPECT_TRUE(one.miss().starts_with("parts at token 8, in or after turn 2 of the assistant, from")) << one.miss();
  one.markers.generation_prompt = Position{8};
  EXPECT_TRUE(one.miss().starts_with("parts at token 8, where the reply begins, from")) << one.miss();
  one.markers = {};
  EXPECT_TRUE(one.miss().starts_with("parts at token 8 from")) << "a raw prompt: " << one.miss();
}

TEST(RequestLog, APromptThatContinuesAnotherLeavesNone) {
  Case one;
  one.stats.cached_tokens = one.stats.known_tokens = 1830;
  one.stats.miss = MissReason::kNewTokens;
  EXPECT_EQ(one.miss(), "new from token 1830 on");
  one.stats.cached_tokens = one.stats.known_tokens = 0;
  one.stats.miss = MissReason::kNothingCached;
  EXPECT_EQ(one.miss(), "no part of the prompt was known");
  one.difference = Difference{.at = Position{}, .begin = Position{}, .prompt = {1}, .cached = {2}};
  EXPECT_EQ(one.miss(), "no part of the prompt was known") << "there is always one with which it shares nothing";
}

TEST(RequestLog, ASharedBeginningOfTheTemplateIsNoKnownConversation) {
  Case one = changed_date();
  one.stats.miss = MissReason::kNothingCached;
  one.markers.beginning = Position{9};
  EXPECT_EQ(one.miss(), "no known prompt is like it: only 8 tokens, with which the template begins, were known");
  one.stats.known_tokens = one.stats.cached_tokens = 1;
  EXPECT_EQ(one.miss(), "no known prompt is like it: only one token, with which the template begins, was known");
  one.stats.known_tokens = one.stats.cached_tokens = 10;
  EXPECT_TRUE(one.miss().starts_with("parts at token 8")) << one.miss();
}

TEST(RequestLog, PointsThatLieBeforeAreNamed) {
  Case one = changed_date();
  one.stats.known_tokens = 8;
  one.stats.cached_tokens = 5;
  one.stats.miss = MissReason::kNoPoint;
  EXPECT_TRUE(
      one.miss().ends_with("; before that this model can go on only from points (docs/cuts.md), the last of them "
                           "at 5"))
      << one.miss();
  one.stats.cached_tokens = 0;
  EXPECT_TRUE(one.miss().ends_with("(docs/cuts.md), none of them is kept")) << one.miss();
  one.stats.cached_tokens = 5;
  one.difference.reset();
  EXPECT_EQ(one.miss(),
            "known up to token 8, but this model can go on only from points (docs/cuts.md), the last of them at 5");
}

TEST(RequestLog, EveryReasonHasItsWords) {
  Case one = changed_date();
  for (const MissReason reason : {MissReason::kWholePrompt, MissReason::kCacheOff, MissReason::kNotCacheable,
                                  MissReason::kLoadFailed, MissReason::kLoadTooSlow, MissReason::kNoCells}) {
    one.stats.miss = reason;
    EXPECT_EQ(one.miss().find("parts at"), std::string::npos) << to_string(reason);
    EXPECT_FALSE(one.miss().empty());
    EXPECT_NE(one.done().find(fmt::format(" reason={}: {}", to_string(reason), one.miss())), std::string::npos);
  }
}

TEST(RequestLog, TiersQueueAndErrorsAreReported) {
  Case one = changed_date();
  one.stats.cached_tokens = 20;
  one.stats.ram_tokens = 2;
  one.stats.disk_tokens = 10;
  one.stats.queue_ms = 1500;
  one.how = Finish::kError;
  one.error = io_error("it broke");
  EXPECT_TRUE(one.done().starts_with(
      "end=error (it broke) prompt=625 queue=1.500s cached=20 (memory 8, RAM 2, disk 10) prefilled=617 in"))
      << one.done();
}

TEST(RequestLog, WaitsForMoreThanAPlaceAreReportedByCause) {
  constexpr std::int64_t kMs = 1'000'000;
  Case one = changed_date();
  one.stats.waits.begin(WaitCause::kPlace, 0);
  one.stats.waits.begin(WaitCause::kDisk, 1'500 * kMs);
  one.stats.waits.end(1'505 * kMs);
  EXPECT_EQ(one.done().find("waited="), std::string::npos) << "queue= says so";
  one.stats.waits.begin(WaitCause::kTurn, 2'000 * kMs);
  one.stats.waits.end(2'250 * kMs);
  one.stats.preemptions = 2;
  EXPECT_TRUE(one.done().starts_with("end=stop prompt=625 waited=(place 1.500s, turn 0.250s) preempted=2 cached="))
      << one.done();
}

TEST(RequestLog, ARequestThatNeverStartedHasNoReason) {
  Case one = changed_date();
  one.started = false;
  one.how = Finish::kGone;
  EXPECT_EQ(one.done(), "end=client-left prompt=625: never started");
}

TEST(RequestLog, FieldsSayAllThatTheLineSays) {
  using Value = std::variant<std::int64_t, double, std::string>;
  const auto value_of = [](const LogFields& fields, std::string_view name) {
    const auto found = std::ranges::find(fields, name, &LogField::name);
    return found == fields.end() ? Value("none") : found->value;
  };
  Case one = changed_date();
  one.stats.prompt_ms = 617;
  one.stats.waits.begin(WaitCause::kCells, 0);
  one.stats.waits.end(250'000'000);
  auto found = std::make_shared<FoundBreak>();
  found->found = {.kind = explain::BreakKind::kEvicted, .at = Position{8}, .lost_tokens = 500};
  found->found.lost = explain::LostState{explain::LossCause::kDiskBudget, 1, 500};
  one.found = found;
  const LogFields fields = done_fields(one.ended());
  EXPECT_EQ(value_of(fields, "kind"), Value("evicted"));
  EXPECT_EQ(value_of(fields, "cause"), Value("disk-budget"));
  EXPECT_EQ(value_of(fields, "place"), Value("the prompt"));
  EXPECT_EQ(value_of(fields, "lost_tokens"), Value(std::int64_t{500}));
  EXPECT_EQ(value_of(fields, "lost_s"), Value(0.5));
  EXPECT_EQ(value_of(fields, "prompt_s"), Value(0.617));
  EXPECT_EQ(value_of(fields, "waited_cells_s"), Value(0.25));
  EXPECT_EQ(value_of(fields, "what"), Value("none")) << "no text that changes";
  one.started = false;
  EXPECT_EQ(value_of(done_fields(one.ended()), "kind"), Value("none"));
}

TEST(RequestLog, EndsWithWhatWasLost) {
  Case one = changed_date();
  one.stats.prompt_ms = 617;
  auto found = std::make_shared<FoundBreak>();
  found->found = {.kind = explain::BreakKind::kVolatileText,
                  .at = Position{8},
                  .has_place = true,
                  .place = {PromptField::kContent, PromptRole::kSystem, 0},
                  .what = explain::VolatileText::kDate,
                  .lost_tokens = 500};
  one.found = found;
  EXPECT_TRUE(one.done().ends_with("; volatile-text (date) in system: 500 tokens prefilled again in 0.500s"))
      << one.done();
  found->found.kind = explain::BreakKind::kEvicted;
  found->found.lost = explain::LostState{explain::LossCause::kDiskBudget, 1, 500};
  EXPECT_EQ(loss_text(one.ended()), "; evicted (disk-budget) in system: 500 tokens prefilled again in 0.500s");
  found->found.lost_tokens = 31;
  EXPECT_EQ(loss_text(one.ended()), "") << "next to nothing";
  found->found = {.kind = explain::BreakKind::kCacheOff, .at = Position{}, .lost_tokens = 625};
  EXPECT_EQ(loss_text(one.ended()), "") << "the reason says it, and whether it was known is not";
  one.found = nullptr;
  EXPECT_EQ(loss_text(one.ended()), "");
}

}  // namespace
}  // namespace kvkeep::server
