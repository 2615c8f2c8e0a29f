// Either side of a lease: the keeper that grants, and the member that draws on it.

#include "store/leases.h"

#include <gtest/gtest.h>

#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::store {
namespace {

constexpr ByteCount kBudget{1'000'000};

struct Side {
  Side(sim::SimFileSystem& on, sim::SimClock& clock)
      : servers("/cache/servers", on, clock), syncs(on, ledger, counting) {}
  Servers servers;
  SpaceLedger ledger{kBudget};
  DiskCounting counting;
  Syncs syncs;
};

class LeasesTest : public testing::Test {
 protected:
  LeasesTest() {
    EXPECT_TRUE(files_.make_directories("/cache/own").ok());
    EXPECT_TRUE(account_.join());
  }
  ListedServers listed() { return *keeper_.servers.list(); }
  // As the keeper does when it looked at the files.
  void look() { leases_.accept(listed()); }

  sim::SimFileSystem files_{1};
  sim::SimClock clock_;
  Side keeper_{files_, clock_};
  Side member_{files_, clock_};
  Leases leases_{keeper_.servers, keeper_.ledger, keeper_.syncs};
  OwnAccount account_{member_.servers, member_.ledger, member_.syncs};
};

TEST_F(LeasesTest, AMemberDrawsWhatItWasGranted) {
  EXPECT_FALSE(account_.draw(ByteCount{5000}).ok()) << "nothing was granted yet";
  look();
  EXPECT_EQ(leases_.top_up(), ByteCount{});
  EXPECT_EQ(keeper_.ledger.used(), ByteCount{kBudget.value() / 8}) << "a lease counts as if it were written";
  account_.take_lease(listed());
  EXPECT_TRUE(account_.take_more_room());
  EXPECT_FALSE(account_.take_more_room()) << "it is told once";
  EXPECT_TRUE(member_.ledger.reserve(ByteCount{5000}));
  account_.tell_news();
  EXPECT_TRUE(account_.all_is_told());
  look();
  EXPECT_EQ(keeper_.ledger.used(), ByteCount{kBudget.value() / 8 - 5000});
}

TEST_F(LeasesTest, BytesWithoutRoomAreLacking) {
  ASSERT_TRUE(keeper_.ledger.reserve(kBudget - ByteCount{1000}));
  EXPECT_FALSE(account_.draw(ByteCount{400'000}).ok());
  look();
  EXPECT_EQ(leases_.top_up(), ByteCount{399'000});
  EXPECT_EQ(keeper_.ledger.used(), kBudget);
  keeper_.ledger.release("/cache/own", ByteCount{500'000});
  EXPECT_EQ(leases_.top_up(), ByteCount{}) << "the removals become durable first";
  EXPECT_TRUE(account_.draw(ByteCount{400'000}).ok());
}

TEST_F(LeasesTest, TheLargerGrantCountsThatIsKnownOrListed) {
  look();
  (void)leases_.top_up();
  const ByteCount before = keeper_.ledger.used();
  files_.miss_in_lists(".grant");
  look();
  EXPECT_EQ(keeper_.ledger.used(), before) << "a listing beside a rename may miss the name";
}

TEST_F(LeasesTest, AGrantThatFailedStaysLeasedUntilItWasLookedAt) {
  look();
  files_.set_plan({sim::FaultKind::kFailOnce, 1});
  (void)leases_.top_up();
  files_.heal();
  EXPECT_TRUE(leases_.uncertain());
  const ByteCount before = keeper_.ledger.used();
  EXPECT_GT(before, ByteCount{});
  (void)leases_.top_up();
  EXPECT_EQ(keeper_.ledger.used(), before);
  look();
  EXPECT_FALSE(leases_.uncertain());
}

TEST_F(LeasesTest, ForgedGrantsAreIgnored) {
  sim::SimClock clock;
  Servers forger("/cache/servers", files_, clock);
  ASSERT_TRUE(forger.grant(member_.servers.id(), 0, 1ULL << 40).ok());
  EXPECT_FALSE(account_.draw(ByteCount{5000}).ok());
  EXPECT_EQ(member_.ledger.lease_left(), ByteCount{});
}

TEST_F(LeasesTest, NothingIsReportedBeforeRemovalsAreDurable) {
  account_.tell();
  account_.note_removal();
  member_.ledger.release("/cache/own", ByteCount{});
  files_.set_plan({sim::FaultKind::kFailOnce, 1, sim::kSyncs});
  account_.tell_news();
  EXPECT_FALSE(account_.all_is_told());
  account_.tell_news();
  EXPECT_TRUE(account_.all_is_told());
  EXPECT_EQ(listed().at(member_.servers.id()).used, 1U) << "a removal is told as a byte";
  EXPECT_EQ(member_.counting.counters().sync_failures, 1U);
}

}  // namespace
}  // namespace kvkeep::store
