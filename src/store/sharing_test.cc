#include "store/sharing.h"

#include <gtest/gtest.h>

#include "store/store_parts_fixture.h"

namespace kvkeep::store {
namespace {

struct Node {
  Node(sim::SimFileSystem& files, sim::SimClock& clock) : parts(files, clock) {}
  bool enter() { return sharing.enter().ok(); }
  DiskTick tick(Look look = Look::kWhenDue) {
    parts.clock.advance_ms(10'000);
    DiskTick tick;
    sharing.tick(look, tick);
    return tick;
  }
  StoreParts parts;
  Sharing sharing{parts.place, parts.options.fingerprint, parts.ledger, parts.syncs, parts.inventory, parts.writes};
};

class SharingTest : public testing::Test {
 protected:
  sim::SimFileSystem files_{1};
  sim::SimClock clock_;
  Node first_{files_, clock_};
  Node second_{files_, clock_};
  const SampleSegment segment_ = sample_segment(sample_fingerprint(1), 1, 0, 700);
};

TEST_F(SharingTest, AServerByItselfKeepsTheDirectoryAndMeetsNobody) {
  ASSERT_TRUE(first_.enter());
  (void)first_.tick();
  EXPECT_TRUE(first_.sharing.keeper());
  EXPECT_FALSE(first_.sharing.shared());
  EXPECT_TRUE(first_.sharing.keeps_notes());
  EXPECT_FALSE(files_.list("/cache/servers").ok()) << "it leaves no name";
  EXPECT_EQ(first_.parts.ledger.used().value(), files_.physical_bytes());
}

TEST_F(SharingTest, TheSecondIsAMemberAndDrawsOnALease) {
  ASSERT_TRUE(first_.enter());
  ASSERT_TRUE(second_.enter());
  EXPECT_TRUE(second_.sharing.shared());
  EXPECT_FALSE(second_.sharing.keeper());
  EXPECT_FALSE(second_.sharing.draw(ByteCount{5000}).ok());
  (void)first_.tick();
  EXPECT_TRUE(first_.sharing.shared());
  EXPECT_TRUE(second_.tick().more_room);
  EXPECT_TRUE(second_.sharing.draw(ByteCount{5000}).ok());
}

TEST_F(SharingTest, EachFindsTheFilesOfTheOther) {
  ASSERT_TRUE(first_.enter());
  ASSERT_TRUE(second_.enter());
  (void)first_.tick();
  (void)second_.tick();
  ASSERT_TRUE(second_.parts.publish(segment_, true).ok());
  EXPECT_FALSE(first_.tick().looked) << "nothing was told";
  (void)second_.tick();
  EXPECT_TRUE(first_.tick().looked);
  EXPECT_TRUE(first_.parts.serves(segment_));
  EXPECT_EQ(second_.tick(Look::kNow).looked, true);
}

TEST_F(SharingTest, AMemberTakesOverWhenTheKeeperLeft) {
  ASSERT_TRUE(first_.enter());
  ASSERT_TRUE(second_.enter());
  (void)first_.tick();
  first_.sharing.leave();
  EXPECT_TRUE(second_.tick().more_room);
  EXPECT_TRUE(second_.sharing.keeper());
  EXPECT_FALSE(second_.sharing.shared());
  EXPECT_EQ(second_.parts.ledger.used().value(), files_.physical_bytes("/cache/servers"));
  ASSERT_TRUE(first_.enter());
  EXPECT_FALSE(first_.sharing.keeper());
}

TEST_F(SharingTest, TheRoomOfADeadMemberComesBack) {
  ASSERT_TRUE(first_.enter());
  {
    Node third(files_, clock_);
    ASSERT_TRUE(third.enter());
    (void)first_.tick();
    EXPECT_GT(first_.parts.ledger.used().value(), files_.physical_bytes("/cache/servers"));
  }
  (void)first_.tick();
  EXPECT_EQ(first_.parts.ledger.used().value(), files_.physical_bytes("/cache/servers"));
  EXPECT_FALSE(first_.sharing.shared());
}

TEST(OthersWriting, OnlyPlausibleGrowthCounts) {
  sim::SimFileSystem files(1);
  sim::SimClock clock;
  WriteBudget budget("/writes", ByteCount{8'000'000}, files, clock);
  budget.open();
  const auto left = [&] { return budget.allowance().left.value(); };
  OthersWriting others(budget, ByteCount{10'000});
  const std::uint64_t all = left();
  others.hear({{"a", 5000}});
  EXPECT_EQ(left(), all) << "counted before this server came";
  others.hear({{"a", 6000}, {"b", 2000}});
  EXPECT_NEAR(static_cast<double>(left()), static_cast<double>(all - 3000), 10);
  others.hear({{"a", 1ULL << 40}});
  others.hear({{"a", 100}});
  EXPECT_NEAR(static_cast<double>(left()), static_cast<double>(all - 3000), 10) << "forged, and an old name";
}

TEST(LookPace, LookingTakesATwentiethOfTheTime) {
  sim::SimClock clock;
  LookPace pace(clock);
  EXPECT_TRUE(pace.may_look());
  const std::int64_t begin_ns = clock.monotonic_ns();
  clock.advance_ms(100);
  pace.looked_since(begin_ns);
  clock.advance_ms(1'900);
  EXPECT_FALSE(pace.may_look());
  clock.advance_ms(200);
  EXPECT_TRUE(pace.may_look());
  EXPECT_FALSE(pace.is_overdue());
  pace.looked_since(clock.monotonic_ns() - 60'000'000'000);
  clock.advance_ms(10'001);
  EXPECT_TRUE(pace.may_look()) << "ten seconds at most";
  clock.advance_ms(50'000);
  EXPECT_TRUE(pace.is_overdue());
}

}  // namespace
}  // namespace kvkeep::store
