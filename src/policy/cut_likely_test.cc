// Cuts where prompts parted in the opening of the user's turn, and where they are likely to part.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policy/cut.h"
#include "policy/cut_fixture.h"

namespace kvkeep::policy {
namespace {

TEST(PlanCuts, ABranchInTheOpeningOfTheUsersTurnReplacesTheAnchor) {
  CutView view = classifier();
  view.cached = at(870);
  view.known = at(873);
  view.points = positions({870});
  EXPECT_EQ(cuts(view), "branch 873; turn 955; ") << "the second prompt: one word more may be shared by chance";
  view.cached = at(873);
  view.points = positions({870, 873});
  EXPECT_EQ(cuts(view), "turn 955; leaves 870; ") << "the third parts there, too";
  view.points = positions({873});
  EXPECT_EQ(cuts(view), "turn 955; ");
  view.known = at(875);
  view.points = positions({870, 873});
  EXPECT_EQ(cuts(view), "turn 955; ") << "it goes further: nothing is known of 873";
  view.points = positions({870, 875});
  view.cached = at(870);
  view.known = at(873);
  EXPECT_EQ(cuts(view), "branch 873; turn 955; ") << "875 was chance";
  view.points = positions({870});
  view.known = at(902);
  EXPECT_EQ(cuts(view), "branch 902; turn 955; ") << "no opening is so long: a branch like others";
  view.cached = view.known = at(902);
  view.points = positions({870, 902});
  EXPECT_EQ(cuts(view), "turn 955; ");
  view.options.least_step_tokens = 8192;
  view.points = positions({870});
  view.cached = at(870);
  EXPECT_EQ(cuts(view), "turn 955; ");
  view.known = at(873);
  EXPECT_EQ(cuts(view), "branch 873; turn 955; ");
}

TEST(PlanCuts, AnAnchorThatIsReplacedLeavesRoomBelowTheLimit) {
  CutView view = classifier();
  view.options.most_points = 2;
  view.cached = view.known = at(873);
  view.points = positions({870, 873});
  EXPECT_EQ(cuts(view), "turn 955; leaves 870; ");
}

TEST(PlanCuts, PromptsArePartedWhereTheyAreLikelyTo) {
  CutView view = classifier();
  view.likely = positions({20, 400, 500, 890});
  EXPECT_EQ(cuts(view), "likely 400; anchor 870; turn 955; ") << "the others are near, or below the minimum";
  view.most_fine = 9;
  EXPECT_EQ(cuts(view), "likely 400; fine likely 500; anchor 870; turn 955; ") << "890 is too near to the anchor";
  view.likely = positions({500, 867, 930, 952});
  EXPECT_EQ(cuts(view), "likely 500; anchor 870; fine likely 930; turn 955; ") << "a short task before the turn";
  view.most_fine = 1;
  view.likely = positions({400, 500, 600});
  EXPECT_EQ(cuts(view), "likely 400; fine likely 500; anchor 870; turn 955; ");
  view.likely = positions({400, 500});
  view.fine = positions({200});
  EXPECT_EQ(cuts(view), "likely 400; fine likely 500; anchor 870; turn 955; ") << "lines come first";
  view.options.anchor_user = false;
  EXPECT_EQ(cuts(view), "turn 955; ");
  view.options.anchor_user = true;
  view.options.cold_max_tokens = 900;
  EXPECT_EQ(cuts(view), "turn 955; cold skipped; ");
}

TEST(PlanCuts, ALikelyPartingYieldsToWherePromptsDidPart) {
  CutView view = classifier();
  view.cached = at(100);
  view.points = positions({100});
  view.likely = positions({500});
  view.known = at(520);
  EXPECT_EQ(cuts(view), "branch 520; anchor 870; turn 955; ");
  view.known = at(532);
  EXPECT_EQ(cuts(view), "likely 500; branch 532; anchor 870; turn 955; ");
  view.known = at(480);
  EXPECT_EQ(cuts(view), "branch 480; anchor 870; turn 955; ");
}

TEST(PlanCuts, FineCutsTakeNothingFromOthers) {
  CutView view = classifier();
  view.fine = positions({60, 80, 120, 860, 880, 954, 955, 960});
  EXPECT_EQ(cuts(view), "anchor 870; turn 955; ") << "memory has room for none";
  view.most_fine = 9;
  EXPECT_EQ(cuts(view), "fine likely 60; fine likely 120; anchor 870; turn 955; ");
  view.most_fine = 1;
  EXPECT_EQ(cuts(view), "fine likely 80; anchor 870; turn 955; ") << "twice as far apart, from each other and from 0";
  view.options.most_points = 9;
  EXPECT_EQ(cuts(view), "anchor 870; turn 955; ");
}

TEST(FineSteps, AreEqualAndNoMoreThanAllowed) {
  const auto steps = [](std::size_t begin, std::size_t end, std::size_t least, std::size_t most) {
    std::string all;
    for (const Position step : fine_steps({at(begin), at(end)}, least, most)) all += text(step) + " ";
    return all;
  };
  EXPECT_EQ(steps(100, 200, 32, 8), "132 164 196 ");
  EXPECT_EQ(steps(100, 200, 32, 2), "134 168 ");
  EXPECT_EQ(steps(100, 1000, 32, 8), "201 302 403 504 605 706 807 908 ");
  EXPECT_EQ(steps(100, 132, 32, 8), "");
  EXPECT_EQ(steps(200, 100, 32, 8), "");
  EXPECT_EQ(steps(100, 1000, 32, 0), "");
  EXPECT_EQ(steps(0, 4, 0, 8), "1 2 3 ");
  for (std::size_t size = 0; size < 60; ++size) {
    for (std::size_t most = 0; most < 9; ++most) {
      EXPECT_LE(fine_steps({at(7), at(7 + size)}, 3, most).size(), most);
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
