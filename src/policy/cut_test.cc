// Cuts: tables for each formula, prompts as clients send them, then every small prompt against the laws of cut.h.

#include "policy/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "policy/cut_fixture.h"

namespace kvkeep::policy {
namespace {

// ds4-server's defaults, so that its own tables hold.
CutOptions ds4() {
  CutOptions options;
  options.min_tokens = 512;
  options.cold_max_tokens = 30000;
  options.continued_interval_tokens = 10000;
  return options;
}

TEST(StoreLen, Ds4sTable) {
  CutOptions options = ds4();
  EXPECT_EQ(store_len(options, 11011), 10240U);
  EXPECT_EQ(store_len(options, 1695), 1695U) << "nothing is left of it after rounding: stored whole";
  EXPECT_EQ(store_len(options, 544), 544U);
  options.boundary_align_tokens = 256;
  EXPECT_EQ(store_len(options, 955), 768U);
  options.boundary_trim_tokens = 200;
  EXPECT_EQ(store_len(options, 955), 512U);
  EXPECT_EQ(store_len(options, 711), 711U);
  options.boundary_align_tokens = 0;
  EXPECT_EQ(store_len(options, 955), 755U);
}

TEST(StoreLen, IsNeverLongerThanThePromptNorEmpty) {
  for (const std::size_t min : {0U, 1U, 3U}) {
    for (const std::size_t trim : {0U, 2U, 9U}) {
      for (const std::size_t align : {0U, 1U, 4U}) {
        CutOptions options;
        options.min_tokens = min;
        options.boundary_trim_tokens = trim;
        options.boundary_align_tokens = align;
        for (std::size_t n = 1; n < 12; ++n) {
          const std::size_t length = store_len(options, n);
          EXPECT_TRUE(length == n || (length >= std::max<std::size_t>(min, 1) && length + trim <= n &&
                                      (align == 0 || length % align == 0)))
              << n << " " << length;
        }
      }
    }
  }
}

TEST(AnchorPos, TheFirstUserTurnAndTheLastBeforeAnAnswer) {
  const CutOptions options;
  const PromptMarkers agent{positions({870, 1200, 9000}), positions({4000, 9500}), {}, {}};
  EXPECT_EQ(anchor_pos(options, agent, Anchor::kFirst), at(870));
  EXPECT_EQ(anchor_pos(options, agent, Anchor::kLast), at(1200));
  const PromptMarkers first_turn{positions({870, 1200}), {}, {}, {}};
  EXPECT_EQ(anchor_pos(options, first_turn, Anchor::kLast), at(1200));
  const PromptMarkers greeted{positions({50}), positions({40}), {}, {}};
  EXPECT_EQ(anchor_pos(options, greeted, Anchor::kFirst), at(50));
  EXPECT_EQ(anchor_pos(options, greeted, Anchor::kLast), std::nullopt);
}

TEST(AnchorPos, NoneWithoutATurnBelowTheMinimumOrSwitchedOff) {
  CutOptions options;
  const PromptMarkers chat{positions({31, 100}), {}, {}, {}};
  EXPECT_EQ(anchor_pos(options, {}, Anchor::kFirst), std::nullopt);
  EXPECT_EQ(anchor_pos(options, chat, Anchor::kFirst), std::nullopt);
  EXPECT_EQ(anchor_pos(options, chat, Anchor::kLast), at(100));
  options.min_tokens = 31;
  EXPECT_EQ(anchor_pos(options, chat, Anchor::kFirst), at(31));
  options.anchor_user = false;
  EXPECT_EQ(anchor_pos(options, chat, Anchor::kFirst), std::nullopt);
  EXPECT_EQ(anchor_pos(options, chat, Anchor::kLast), std::nullopt);
}

TEST(ColdStoreTarget, AColdStart) {
  CutOptions options = ds4();
  EXPECT_EQ(cold_store_target(options, at(0), 11011, at(870)), at(870));
  EXPECT_EQ(cold_store_target(options, at(0), 11011, {}), at(10240));
  EXPECT_EQ(cold_store_target(options, at(0), 511, {}), std::nullopt);
  EXPECT_EQ(cold_store_target(options, at(0), 30000, {}), at(28672));
  EXPECT_EQ(cold_store_target(options, at(0), 30001, at(870)), std::nullopt);
  options.cold_max_tokens = 0;
  EXPECT_EQ(cold_store_target(options, at(0), 600, {}), std::nullopt);
}

TEST(ColdStoreTarget, APartialHitRefreshesTheAnchor) {
  const CutOptions options = ds4();
  EXPECT_EQ(cold_store_target(options, at(20480), 29000, at(27009)), at(27009));
  EXPECT_EQ(cold_store_target(options, at(27009), 29000, at(27009)), std::nullopt);
  EXPECT_EQ(cold_store_target(options, at(27010), 29000, at(27009)), std::nullopt);
  EXPECT_EQ(cold_store_target(options, at(20480), 29000, {}), std::nullopt);
  EXPECT_EQ(cold_store_target(options, at(20480), 30222, at(27009)), std::nullopt) << "beyond the longest";
}

TEST(ContinuedStoreTarget, FrontiersAreMultiplesOfTheAlignedInterval) {
  CutOptions options = ds4();
  EXPECT_EQ(continued_store_target(options, at(0)), at(10240));
  EXPECT_EQ(continued_store_target(options, at(10239)), at(10240));
  EXPECT_EQ(continued_store_target(options, at(10240)), at(20480));
  options.boundary_align_tokens = 0;
  EXPECT_EQ(continued_store_target(options, at(0)), at(10000));
  options.continued_interval_tokens = 100;
  EXPECT_EQ(continued_store_target(options, at(0)), at(600)) << "none below the minimum";
  options.continued_interval_tokens = 0;
  EXPECT_EQ(continued_store_target(options, at(0)), std::nullopt);
  options.continued_interval_tokens = SIZE_MAX;
  EXPECT_EQ(continued_store_target(options, at(UINT32_MAX - 1)), at(UINT32_MAX));
  EXPECT_EQ(continued_store_target(options, at(UINT32_MAX)), std::nullopt);
}

TEST(ContinuedStoreDue, NoFrontierIsSkippedByAStride) {
  CutOptions options = ds4();
  EXPECT_FALSE(continued_store_due(options, at(10239), at(0)));
  EXPECT_TRUE(continued_store_due(options, at(10240), at(0)));
  EXPECT_TRUE(continued_store_due(options, at(10300), at(0))) << "passed, not met";
  EXPECT_FALSE(continued_store_due(options, at(20479), at(10300)));
  EXPECT_TRUE(continued_store_due(options, at(20480), at(10300)));
  options.continued_interval_tokens = 0;
  EXPECT_FALSE(continued_store_due(options, at(20480), at(0)));
  options = ds4();
  options.most_points = 0;
  EXPECT_FALSE(continued_store_due(options, at(20480), at(0)));
}

TEST(EndPointWanted, WhereItAddsSomething) {
  CutOptions options;
  EXPECT_TRUE(end_point_wanted(options, at(32), at(0)));
  EXPECT_TRUE(end_point_wanted(options, at(33), at(32)));
  EXPECT_FALSE(end_point_wanted(options, at(33), at(33)));
  EXPECT_FALSE(end_point_wanted(options, at(31), at(0)));
  options.most_points = 0;
  EXPECT_FALSE(end_point_wanted(options, at(33), at(0)));
}

// ---- prompts as clients send them ----

TEST(PlanCuts, OneSystemPromptWithDifferingUserText) {
  CutView view = classifier();
  EXPECT_EQ(cuts(view), "anchor 870; turn 955; ") << "the system message's end is the same boundary as the anchor";
  view.cached = view.known = at(870);
  view.points = positions({870});
  EXPECT_EQ(cuts(view), "turn 955; ");
}

TEST(PlanCuts, AMessageThatEndsWithinEightTokensOfAnAnchorIsTheSameBoundary) {
  CutView view = classifier();
  view.markers.message_ends = positions({862, 955});
  EXPECT_EQ(cuts(view), "anchor 870; turn 955; ");
  view.markers.message_ends = positions({861, 955});
  EXPECT_EQ(cuts(view), "message 861; anchor 870; turn 955; ");
}

TEST(PlanCuts, AnIdenticalPromptCutsNothing) {
  CutView view = classifier();
  view.cached = at(955);
  view.known = at(960);
  view.points = positions({870, 955});
  EXPECT_EQ(cuts(view), "awaits 955; ");
}

TEST(PlanCuts, WithoutAnchorsTheLengthDecides) {
  CutView view = classifier();
  view.options.anchor_user = false;
  EXPECT_EQ(cuts(view), "turn 955; ") << "nor a message cut at the same boundary";
  view.options.boundary_align_tokens = 256;
  EXPECT_EQ(cuts(view), "cold 768; turn 955; ");
}

TEST(PlanCuts, AChangedBlockNearTheBeginningRefreshesTheAnchor) {
  CutView view;
  view.options.continued_interval_tokens = 10000;
  view.prompt_tokens = 30222;
  view.markers = {positions({27009}), {}, positions({27009, 30217}), at(30217)};
  view.points = positions({10240, 20480});
  view.cached = view.known = at(20480);
  EXPECT_EQ(cuts(view), "anchor 27009; turn 30217; ");
  view.cached = at(27009);
  view.points = positions({10240, 20480, 27009});
  EXPECT_EQ(cuts(view), "turn 30217; ");
}

TEST(PlanCuts, ALongColdPromptTellsThatItsAnchorIsSkipped) {
  CutView view;
  view.options.continued_interval_tokens = 10000;
  view.prompt_tokens = 30222;
  view.options.cold_max_tokens = 30000;
  view.markers = {positions({27009}), {}, {}, at(30217)};
  EXPECT_EQ(cuts(view), "continued 10240; continued 20480; turn 30217; cold skipped; ");
  view.cached = at(27009);
  EXPECT_EQ(cuts(view), "turn 30217; ") << "nothing would have been stored anyway";
  view.cached = at(20480);
  view.points = positions({20480, 27009});
  EXPECT_EQ(cuts(view), "turn 30217; ") << "it is there, though it was not restored";
  view.points = {};
  view.cached = {};
  view.markers.message_ends.insert(view.markers.message_ends.begin(), at(27007));
  EXPECT_EQ(cuts(view), "continued 10240; continued 20480; turn 30217; cold skipped; ") << "none at its boundary";
  view.cached = at(20480);
  view.options.cold_max_tokens = 0;
  EXPECT_EQ(cuts(view), "turn 30217; ") << "switched off, so there is nothing to tell";
}

TEST(PlanCuts, SeveralUserMessagesBeforeTheTask) {
  CutView view;
  view.prompt_tokens = 9000;
  view.markers = {positions({5000, 6000, 8000}), {}, positions({5000, 6000, 8000, 8990}), at(8990)};
  view.options.continued_interval_tokens = 0;
  EXPECT_EQ(cuts(view), "anchor 5000; message 6000; anchor 8000; turn 8990; ");
}

// system | user 1000..1500 | assistant | tool | assistant | tool | generation prompt
CutView tool_loop() {
  return {
      {}, 3005, {positions({1000}), positions({1500, 2500}), positions({1000, 1500, 1700, 2500, 2600, 3000}), at(3000)},
      {}, {},   {}};
}

TEST(PlanCuts, InAToolLoopTheEndOfTheLastUserMessageIsKept) {
  CutView view = tool_loop();
  EXPECT_EQ(cuts(view), "anchor 1000; message 1500; continued 2048; turn 3000; ");
  view.cached = view.known = at(2600);
  view.points = positions({1000, 1500, 2490, 2600});
  EXPECT_EQ(cuts(view), "turn 3000; awaits 1500; ");
  view.points = positions({1000, 1504, 2490, 2600});
  EXPECT_EQ(cuts(view), "turn 3000; awaits 1504; ") << "the turn of the first answer";
  view.points = positions({1000, 1490, 2490, 2600});
  EXPECT_EQ(cuts(view), "turn 3000; ") << "too late to capture it";
}

TEST(PlanCuts, InAToolLoopAPositionOfARunIsKeptAsAPointIs) {
  CutView view = tool_loop();
  view.cached = view.known = at(2600);
  view.points = positions({1000});
  for (const auto& [begin, end, awaited] :
       std::vector<std::tuple<std::uint32_t, std::uint32_t, std::string>>{{1500, 1530, "awaits 1500; "},
                                                                          {1400, 1501, "awaits 1500; "},
                                                                          {1504, 1600, "awaits 1504; "},
                                                                          {1400, 1500, ""},
                                                                          {1509, 1600, ""}}) {
    view.runs = {{at(begin), at(end)}};
    EXPECT_EQ(cuts(view), "turn 3000; " + awaited) << begin << " to " << end;
  }
  view.points = positions({1000, 1504});
  view.runs = {{at(900), at(950)}, {at(1502), at(1503)}, {at(1505), at(1600)}};
  EXPECT_EQ(cuts(view), "turn 3000; awaits 1502; ") << "the first that will do";
}

TEST(PlanCuts, ATemplateWhoseLoopsStayNeedsNoPointThere) {
  CutView view = tool_loop();
  view.options.loops_change = false;
  view.options.continued_interval_tokens = 0;
  view.markers.assistant_turns.insert(view.markers.assistant_turns.begin(), at(900));  // an earlier answer
  EXPECT_EQ(cuts(view), "anchor 1000; turn 3000; ");
  view.cached = view.known = at(2600);
  view.points = positions({1000, 1500, 2590, 2600});
  EXPECT_EQ(cuts(view), "turn 3000; ");
  view.options.most_points = 3;
  EXPECT_EQ(cuts(view), "turn 3000; leaves 1500; leaves 2600; ") << "it has no rank";
}

TEST(PlanCuts, TheMessageBeforeTheFirstAnswerIsCutInLaterTurnsToo) {
  CutView view = tool_loop();
  view.markers.user_turns.push_back(at(2600));  // the loop ended: a second question
  EXPECT_EQ(cuts(view), "anchor 1000; message 1500; continued 2048; turn 3000; ");
}

TEST(PlanCuts, ABranchIsCutWhenItIsSeen) {
  CutView view = classifier();
  view.options.min_tokens = 8;
  view.cached = at(870);
  view.known = at(920);  // another user text begins with the same 50 tokens
  view.points = positions({870});
  EXPECT_EQ(cuts(view), "branch 920; turn 955; ");
  view.points = positions({870, 890});
  view.cached = at(890);
  EXPECT_EQ(cuts(view), "turn 955; ") << "too little to be worth a point";
}

TEST(PlanCuts, ARawPromptHasOnlyItsLength) {
  CutView view;
  view.options.continued_interval_tokens = 10000;
  view.prompt_tokens = 25000;
  EXPECT_EQ(cuts(view), "continued 10240; continued 20480; cold 24576; turn 24999; ");
  view.prompt_tokens = 1000;
  EXPECT_EQ(cuts(view), "turn 999; ") << "stored whole would be one token more";
  view.prompt_tokens = 20513;
  EXPECT_EQ(cuts(view), "continued 10240; cold 20480; turn 20512; ") << "one cut where two rules agree";
}

TEST(PlanCuts, TheLimitKeepsTurnAnchorsAndTheLastUserMessage) {
  CutView view = tool_loop();
  view.cached = view.known = at(2600);
  view.points = positions({500, 1000, 1500, 2590, 2600});
  view.options.most_points = 4;
  EXPECT_EQ(cuts(view), "turn 3000; leaves 500; leaves 2600; awaits 1500; ") << "2590 saves 1090, 2600 only 10";
  view.points = positions({500, 1000, 1503, 2590, 2600});
  view.options.most_points = 3;
  EXPECT_EQ(cuts(view), "turn 3000; leaves 500; leaves 2590; leaves 2600; awaits 1503; ");
  view.options.most_points = 1;
  EXPECT_EQ(cuts(view), "turn 3000; leaves 500; leaves 1000; leaves 1503; leaves 2590; leaves 2600; ");
  view.options.most_points = 0;
  view.points = {};
  EXPECT_EQ(cuts(view), "");
  view = classifier();
  view.markers.user_turns = positions({40, 870});
  view.cached = view.known = at(902);
  view.points = positions({40, 870, 902});
  view.options.most_points = 3;
  EXPECT_EQ(cuts(view), "turn 955; leaves 902; ") << "the first anchor stays, though it saves 40 tokens";
  view.points = positions({40, 100, 870});
  EXPECT_EQ(cuts(view), "turn 955; leaves 100; ");
}

TEST(PlanCuts, LesserCutsKeepTheirDistance) {
  CutView view;
  view.options.continued_interval_tokens = 10000;
  view.prompt_tokens = 25000;
  view.markers = {{}, {}, positions({4000, 9000, 12000}), {}};
  EXPECT_EQ(cuts(view),
            "message 4000; message 9000; continued 10240; message 12000; continued 20480; cold 24576; turn 24999; ");
  view.options.least_step_tokens = 8192;
  EXPECT_EQ(cuts(view), "message 9000; continued 20480; turn 24999; ");
}

TEST(PlanCuts, NothingIsCutBelowTheMinimum) {
  CutView view;
  view.prompt_tokens = 31;
  view.markers = {positions({5}), {}, positions({5, 20}), at(30)};
  EXPECT_EQ(cuts(view), "");
  view.prompt_tokens = 1;
  view.options.min_tokens = 0;
  view.options.least_step_tokens = 0;
  view.markers = {};
  EXPECT_EQ(cuts(view), "cold 1; ") << "the turn would be at 0";
}

TEST(KnownPath, EndsWhereMemoryOrCacheDo) {
  PlanView view;
  EXPECT_EQ(known_path(view, false), KnownPath{});
  view.cached = {{{at(0), at(40)}, CacheTier::kRam, {}}, {{at(40), at(60)}, CacheTier::kDisk, {}}};
  EXPECT_EQ(known_path(view, false).end, at(60));
  view.residents.resize(2);
  view.residents[1].common = at(70);
  EXPECT_EQ(known_path(view, false).end, at(70));
}

TEST(KnownPath, TellsPointsFromRunsOfWindows) {
  PlanView view;
  view.restorable = {{at(10), at(10), CacheTier::kRam, {}},
                     {at(20), at(22), CacheTier::kRam, {}},
                     {at(23), at(24), CacheTier::kDisk, {}}};
  const KnownPath points = known_path(view, false);
  EXPECT_EQ(points.points, positions({10, 20, 21, 22, 23, 24}));
  EXPECT_TRUE(points.runs.empty());
  const KnownPath windows = known_path(view, true);
  EXPECT_EQ(windows.points, positions({10}));
  ASSERT_EQ(windows.runs.size(), 1U) << "two that touch are one, whatever tiers they lie in";
  EXPECT_EQ(windows.runs[0].begin, at(20));
  EXPECT_EQ(windows.runs[0].end, at(25));
}

TEST(WholeCaptureStride, AllCapturesTogetherCopyABoundedMultiple) {
  for (std::size_t least = 1; least <= 600; least = least * 3 + 1) {
    for (std::size_t most_copies = 2; most_copies <= 17; ++most_copies) {
      std::size_t copied = 0;
      for (std::size_t at = whole_capture_stride(0, least, most_copies); at < 20'000;) {
        copied += at;
        ASSERT_LE(copied, most_copies * at) << least << " " << most_copies;
        const std::size_t stride = whole_capture_stride(at, least, most_copies);
        ASSERT_GE(stride, least);
        ASSERT_LE(stride, std::max(least, at / (most_copies - 1) + 1)) << "no more is lost in a crash than needed";
        at += stride;
      }
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
