// The ledger grants files that fit into a budget, and reports its numbers.

#include "store/space_ledger.h"

#include <gtest/gtest.h>

#include "testing/sim/sim_file_system.h"

namespace kvkeep::store {
namespace {

constexpr ByteCount kBudget{100};

TEST(SpaceLedger, BytesThatWereNeverWrittenWereNeverDrawn) {
  SpaceLedger member(kBudget);
  member.draw_on_lease();
  EXPECT_FALSE(member.reserve(ByteCount{1}));
  member.add_to_lease(ByteCount{50});
  ASSERT_TRUE(member.reserve(ByteCount{40}));
  member.cancel(ByteCount{30});
  EXPECT_EQ(member.drawn(), ByteCount{10}) << "the keeper is told of no more";
  EXPECT_EQ(member.lease_left(), ByteCount{40});
  EXPECT_EQ(member.used(), ByteCount{10});
}

TEST(SpaceLedger, RoomComesBackWhenAllDirectoriesAreSynced) {
  SpaceLedger ledger(kBudget);
  ASSERT_TRUE(ledger.reserve(kBudget));
  ledger.release("a", ByteCount{60});
  ledger.note_unsynced("b");
  EXPECT_EQ(ledger.used(), ByteCount{40});
  ledger.directory_synced("a");
  EXPECT_FALSE(ledger.reserve(ByteCount{1})) << "a name in the other may depend on it";
  ledger.directory_synced("b");
  EXPECT_TRUE(ledger.reserve(ByteCount{60}));
  EXPECT_FALSE(ledger.reserve(ByteCount{1}));
}

TEST(SpaceLedger, LeasesAreOfWhatThereIsRoomFor) {
  SpaceLedger keeper(kBudget);
  ASSERT_TRUE(keeper.reserve(ByteCount{70}));
  EXPECT_EQ(keeper.lease(ByteCount{50}), ByteCount{30});
  EXPECT_EQ(keeper.used(), kBudget);
  EXPECT_FALSE(keeper.reserve(ByteCount{1}));
  keeper.set_leased(ByteCount{10});
  EXPECT_TRUE(keeper.reserve(ByteCount{20}));
}

TEST(SpaceLedger, ARecountThatIsBegunAgainForgetsTheOneBefore) {
  SpaceLedger ledger(kBudget);
  ASSERT_TRUE(ledger.reserve(ByteCount{20}));
  ledger.release("a", ByteCount{5});
  EXPECT_EQ(ledger.lease(ByteCount{10}), ByteCount{10});
  for (int attempt = 0; attempt < 3; ++attempt) {
    ledger.begin_recount();
    ledger.add_existing(ByteCount{30});
    EXPECT_EQ(ledger.used(), ByteCount{60}) << "beside what was there, unlinked and leased";
  }
  ledger.end_recount();
  EXPECT_EQ(ledger.used(), ByteCount{30});
  EXPECT_TRUE(ledger.reserve(ByteCount{70}));
}

TEST(Syncs, ASyncedDirectoryGivesItsRoomAgain) {
  sim::SimFileSystem files(1);
  ASSERT_TRUE(files.make_directories("/a").ok());
  SpaceLedger ledger(kBudget);
  DiskCounting counting;
  Syncs syncs(files, ledger, counting);
  ASSERT_TRUE(ledger.reserve(kBudget));
  ledger.release("/a", ByteCount{60});
  files.set_plan({sim::FaultKind::kFailOnce, 1, sim::kSyncs});
  EXPECT_FALSE(syncs.removals().ok());
  EXPECT_FALSE(ledger.reserve(ByteCount{1}));
  EXPECT_EQ(counting.counters().sync_failures, 1U);
  EXPECT_TRUE(syncs.removals().ok());
  EXPECT_TRUE(ledger.reserve(ByteCount{60}));
}

}  // namespace
}  // namespace kvkeep::store
