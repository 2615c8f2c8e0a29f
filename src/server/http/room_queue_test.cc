#include "server/http/room_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace kvkeep::server {
namespace {

struct FakeWaiter {
  bool is_waiting() const { return waits; }
  void resume() { *resumed += name; }
  char name = 'a';
  std::string* resumed = nullptr;
  bool waits = true;
};

class RoomQueueTest : public testing::Test {
 protected:
  std::shared_ptr<FakeWaiter> add(char name, std::size_t held, std::size_t wanted) {
    const auto waiter = std::make_shared<FakeWaiter>(FakeWaiter{name, &resumed_});
    queue_.add(waiter, held, wanted);
    return waiter;
  }

  std::string resumed_;
  Budget budget_{100};
  Budget::Share others_{budget_};
  RoomQueue<FakeWaiter> queue_;
};

TEST_F(RoomQueueTest, BodiesThatFitGoOnInOrder) {
  ASSERT_TRUE(others_.take(90));
  const auto a = add('a', 0, 5);
  const auto large = add('b', 0, 50);
  const auto c = add('c', 20, 10);
  queue_.resume(budget_);
  EXPECT_EQ(resumed_, "ac");
  EXPECT_FALSE(queue_.empty());
  others_.give_back();
  queue_.resume(budget_);
  EXPECT_EQ(resumed_, "acb");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(RoomQueueTest, BodiesThatAreGoneOrWaitNoLongerAreDropped) {
  add('a', 0, 1'000);
  const auto refused = add('b', 0, 1'000);
  refused->waits = false;
  queue_.resume(budget_);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(resumed_, "");
}

TEST_F(RoomQueueTest, TheBodyThatHoldsMostGivesWayIfThatHelps) {
  EXPECT_EQ(queue_.in_the_way(), nullptr);
  const auto a = add('a', 60, 20);
  EXPECT_EQ(queue_.in_the_way(), nullptr) << "nobody else waits";
  const auto b = add('b', 0, 70);
  EXPECT_EQ(queue_.in_the_way(), nullptr) << "60 is too little for it";
  const auto c = add('c', 50, 60);
  EXPECT_EQ(queue_.in_the_way(), a);
  const auto d = add('d', 61, 1);
  EXPECT_EQ(queue_.in_the_way(), d) << "though it came last";
}

}  // namespace
}  // namespace kvkeep::server
