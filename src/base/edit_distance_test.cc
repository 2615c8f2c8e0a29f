#include "base/edit_distance.h"

#include <gtest/gtest.h>

namespace kvkeep {
namespace {

TEST(EditDistance, CountsTheFourEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("abc", "abd"), 1);
  EXPECT_EQ(edit_distance("abc", "acb"), 1) << "a swap is one edit";
  EXPECT_EQ(edit_distance("abc", "xabc"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(EditDistance, TheNearestIsTheFirstThatIsNearEnough) {
  EXPECT_EQ(nearest_within(2, "host", {"port", "most", "ghost"}), "most");
  EXPECT_EQ(nearest_within(0, "host", {"most"}), "");
  EXPECT_EQ(nearest_within(0, "host", {"host"}), "host");
  EXPECT_EQ(nearest_within(9, "host", {}), "");
}

}  // namespace
}  // namespace kvkeep
