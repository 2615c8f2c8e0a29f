#include "server/http/budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "os/executor.h"

namespace kvkeep::server {
namespace {

TEST(Budget, SharesAreTakenAndGivenBack) {
  Budget budget(100);
  Budget::Share one(budget);
  EXPECT_TRUE(one.take(60));
  {
    Budget::Share two(budget);
    EXPECT_FALSE(two.take(41));
    EXPECT_TRUE(two.take(30));
    EXPECT_TRUE(two.take(10));
    EXPECT_FALSE(budget.has_room_for(1));
    EXPECT_TRUE(budget.has_room_for(0));
  }
  EXPECT_TRUE(budget.has_room_for(40));
  EXPECT_FALSE(budget.has_room_for(41));
  EXPECT_FALSE(budget.has_room_for(SIZE_MAX));
  one.give_back();
  one.give_back();
  EXPECT_TRUE(budget.has_room_for(100));
}

TEST(Budget, LargeSharesLeaveRoomForSmallOnes) {
  Budget budget(160, 20);
  Budget::Share large(budget);
  EXPECT_FALSE(budget.has_room_for(151));
  EXPECT_FALSE(large.take(151));
  EXPECT_TRUE(large.take(150));
  Budget::Share grown(budget);
  EXPECT_TRUE(grown.take(1));
  EXPECT_FALSE(budget.has_room_for(2, 19)) << "it would be large then";
  EXPECT_TRUE(budget.has_room_for(2, 18));
  EXPECT_FALSE(grown.take(20));
  EXPECT_FALSE(grown.take(SIZE_MAX));
  Budget::Share small(budget);
  EXPECT_TRUE(small.take(9));
  EXPECT_FALSE(small.take(1));
}

TEST(Budget, ThreadsTakeNoMoreThanThereIs) {
  Budget budget(1'000);
  std::size_t taken[2] = {};
  {
    const auto other = os::make_thread_executor("other");
    const auto take_all = [&](std::size_t& count) {
      Budget::Share share(budget);
      for (int i = 0; i < 100'000; ++i) {
        if (share.take(1)) ++count;
        if (i % 1'000 == 0) share.give_back();
        if (!share.take(1'001)) continue;
        ADD_FAILURE() << "more than all";
      }
    };
    other->post([&] { take_all(taken[1]); });
    take_all(taken[0]);
    other->drain();
  }
  EXPECT_TRUE(budget.has_room_for(1'000));
  EXPECT_GT(taken[0] + taken[1], 1'000U);
}

}  // namespace
}  // namespace kvkeep::server
