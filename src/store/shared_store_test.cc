// Several servers on one directory: their reports to each other, and their rights.

#include "store/shared_store_fixture.h"

namespace kvkeep::store {
namespace {

TEST_F(SharedStoreTest, AServerByItselfLeavesNoTraceOfSharing) {
  const auto store = open();
  ASSERT_TRUE(put(*store, first_).ok());
  (void)tick(*store);
  EXPECT_TRUE(store->keeper());
  EXPECT_FALSE(store->shared());
  EXPECT_TRUE(store->keeps_notes());
  EXPECT_FALSE(fs::exists(servers()));
}

TEST_F(SharedStoreTest, AMemberWritesAsMuchAsItMay) {
  const auto keeper = open();
  const auto member = open();
  EXPECT_FALSE(member->keeper());
  const Status refused = put(*member, first_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoSpace);
  (void)tick(*keeper);
  EXPECT_TRUE(keeper->shared());
  EXPECT_TRUE(tick(*member).more_room);
  EXPECT_TRUE(put(*member, first_).ok());
  EXPECT_GE(keeper->used(), member->used());
}

TEST_F(SharedStoreTest, AMembersOwnBudgetDoesNotCount) {
  const auto keeper = open();
  const auto member = open(kModel, mebibytes(1));  // less than it may write at a time
  (void)tick(*keeper);
  EXPECT_TRUE(tick(*member).more_room);
  EXPECT_TRUE(put(*member, first_).ok());
}

TEST_F(SharedStoreTest, AFileOfOneServerIsServedByTheOther) {
  const auto keeper = open();
  const auto member = open();
  (void)tick(*keeper);
  ASSERT_TRUE(put(*keeper, first_).ok());
  EXPECT_FALSE(has(*member, first_));
  (void)tick(*keeper);
  const DiskTick found = tick(*member);
  ASSERT_EQ(found.found.size(), 1u);
  EXPECT_EQ(found.found.front().header.name, first_.header.name);
  EXPECT_TRUE(has(*member, first_));
  EXPECT_TRUE(tick(*member).found.empty()) << "found once";

  ASSERT_TRUE(put(*member, second_).ok());
  (void)tick(*member);
  ASSERT_EQ(tick(*keeper).found.size(), 1u);
  EXPECT_TRUE(has(*keeper, second_));

  ASSERT_TRUE(keeper->remove(first_.header.name).ok());
  (void)tick(*keeper);
  const DiskTick gone = tick(*member);
  ASSERT_EQ(gone.gone.size(), 1u);
  EXPECT_EQ(gone.gone.front(), first_.header.name);
}

// kvkeep cache rm is no server: a server by itself, and its members, learn of its changes only from it.
TEST_F(SharedStoreTest, AllServersNoticeARemovalByHand) {
  const auto keeper = open();
  ASSERT_TRUE(put(*keeper, first_).ok());
  const auto removed_by_hand = [&](const SampleSegment& segment) {
    fs::remove(root() + "/" + kModel.hex() + "/" + format::file_name(segment.header.name));
    EXPECT_TRUE(Servers(servers(), os::real_file_system(), clock_).tell_change().ok());
  };
  removed_by_hand(first_);
  ASSERT_EQ(tick(*keeper).gone.size(), 1u);
  EXPECT_EQ(names(), std::vector<std::string>());
  EXPECT_FALSE(keeper->shared());

  ASSERT_TRUE(put(*keeper, second_).ok());
  const auto member = open();
  (void)tick(*keeper);
  (void)tick(*member);
  removed_by_hand(second_);
  EXPECT_EQ(tick(*keeper).gone.size(), 1u);  // and removes that name, before the member looked
  EXPECT_EQ(tick(*member).gone.size(), 1u);
}

TEST_F(SharedStoreTest, AUseByOneServerIsNoticedByTheOther) {
  const auto keeper = open();
  const auto member = open();
  (void)tick(*keeper);
  ASSERT_TRUE(put(*keeper, first_).ok());
  ASSERT_TRUE(put(*keeper, second_).ok());
  (void)tick(*keeper);
  (void)tick(*member);
  const std::int64_t used_ns = clock_.wall_ns();
  member->touch(first_.header.name, used_ns);
  std::vector<UsedSegment> heard;
  for (int i = 0; i < 8; ++i) std::ranges::copy(tick(*keeper).used, std::back_inserter(heard));
  ASSERT_EQ(heard.size(), 1u) << "once, and within a minute or so, though nobody stored anything";
  EXPECT_EQ(heard.front().name, first_.header.name);
  EXPECT_EQ(heard.front().modified_ns, used_ns);
}

TEST_F(SharedStoreTest, ADaysWritingIsTheDisksWhoeverWrites) {
  constexpr std::uint64_t kBackMeanwhile = 1000;  // a tick's share of a day
  written_per_day_ = ByteCount{800'000};          // 100,000 may gather
  const auto keeper = open();
  ASSERT_TRUE(put(*keeper, first_).ok());
  const auto member = open();
  (void)tick(*keeper);
  (void)tick(*member);
  const std::uint64_t member_left = left(*member);
  EXPECT_GT(member_left, 60'000U) << "what was written before it came is told by the file alone";

  ASSERT_TRUE(put(*keeper, second_).ok());
  (void)tick(*keeper);
  (void)tick(*member);
  EXPECT_LT(left(*member) + second_.payload.size(), member_left + kBackMeanwhile);

  const std::uint64_t keeper_left = left(*keeper);
  ASSERT_TRUE(put(*member, third_).ok());
  (void)tick(*member);
  (void)tick(*keeper);
  EXPECT_LT(left(*keeper) + third_.payload.size(), keeper_left + kBackMeanwhile);
  const std::uint64_t counted = left(*keeper);
  (void)tick(*keeper);
  EXPECT_GE(left(*keeper), counted) << "once";
}

TEST_F(SharedStoreTest, ARefusedPutLearnsOfRoomThatAnotherPutFound) {
  const auto keeper = open();
  const auto member = open();
  ASSERT_FALSE(put(*member, first_).ok());
  (void)tick(*keeper);
  ASSERT_TRUE(put(*member, second_).ok()) << "it looks for a lease by itself";
  EXPECT_TRUE(tick(*member).more_room);
  EXPECT_FALSE(tick(*member).more_room) << "told once";
}

// Whole states may be stored built on an earlier one or not, whichever their server has.
TEST_F(SharedStoreTest, AFileRewrittenWithOtherPartsIsNoDamage) {
  const SampleSegment one = sim::sample_leaf(kModel, 1, 0, format::PartKind::kWhole, 9'000);
  const SampleSegment other = sim::sample_leaf(kModel, 1, 0, format::PartKind::kWhole, 3'000);
  ASSERT_EQ(one.header.name, other.header.name);
  const auto keeper = open();
  const auto member = open();
  (void)tick(*keeper);
  ASSERT_TRUE(put(*keeper, one).ok());
  ASSERT_TRUE(put(*member, other).ok());
  std::vector<std::byte> out(one.payload.size());
  EXPECT_EQ(keeper->get(one.header, format::PartKind::kWhole, out).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(keeper->counters().damaged, 0u);
  EXPECT_TRUE(has(*member, other)) << "nobody took it away";
  const DiskTick found = tick(*keeper);
  ASSERT_EQ(found.found.size(), 1u);
  EXPECT_TRUE(has(*keeper, other));
}

TEST_F(SharedStoreTest, AMemberLeavesDamagedFilesToTheKeeper) {
  const auto keeper = open();
  const auto member = open();
  (void)tick(*keeper);
  ASSERT_TRUE(put(*keeper, first_).ok());
  (void)tick(*keeper);
  (void)tick(*member);
  const std::string path = root() + "/" + kModel.hex() + "/" + format::file_name(first_.header.name);
  std::fstream(path, std::ios::in | std::ios::out).seekp(-1, std::ios::end).put('?');
  EXPECT_FALSE(has(*member, first_));
  EXPECT_EQ(member->counters().damaged, 1u);
  EXPECT_TRUE(fs::exists(path));
  EXPECT_TRUE(put(*member, first_).ok());
  EXPECT_TRUE(has(*member, first_));
  EXPECT_TRUE(has(*keeper, first_));
}

// Notes are rewritten through temporary files that name no owner.
TEST_F(SharedStoreTest, NotesThatAreBeingWrittenAreLeftAlone) {
  const auto keeper = open();
  auto member = open(kOtherModel);
  (void)tick(*keeper);
  const std::string notes = root() + "/" + kOtherModel.hex() + "/turns.tmp";
  std::ofstream(notes) << "half";
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(os::real_file_system().set_modified(notes, clock_.wall_ns()).ok());
    (void)tick(*keeper);
  }
  EXPECT_TRUE(fs::exists(notes));
  EXPECT_GT(keeper->used(), member->used());
  member.reset();
  (void)tick(*keeper);
  EXPECT_FALSE(fs::exists(notes)) << "nobody goes on with it";
}

TEST_F(SharedStoreTest, NotesThatADeadKeeperLeftHalfAreSweptThoughOthersLive) {
  auto first = open();
  const auto second = open();
  const auto third = open();
  const std::string notes = root() + "/" + kModel.hex() + "/turns.tmp";
  std::ofstream(notes) << "half";
  ASSERT_TRUE(os::real_file_system().set_modified(notes, clock_.wall_ns()).ok());
  first.reset();
  (void)tick(*second);
  ASSERT_TRUE(second->keeper());
  EXPECT_TRUE(fs::exists(notes)) << "the third may be at it";
  for (int i = 0; i < 14; ++i) {
    (void)tick(*third);
    (void)tick(*second);
  }
  EXPECT_FALSE(fs::exists(notes));
}

TEST_F(SharedStoreTest, ALookNowFindsUnreportedChanges) {
  const auto keeper = open();
  const auto member = open();
  ASSERT_TRUE(put(*keeper, first_).ok());
  (void)tick(*keeper);
  (void)tick(*member);
  ASSERT_TRUE(has(*member, first_));
  ASSERT_TRUE(keeper->remove(first_.header.name).ok());
  EXPECT_TRUE(member->tick().gone.empty()) << "not told yet";
  EXPECT_EQ(member->tick(Look::kNow).gone.size(), 1U);
}

TEST_F(SharedStoreTest, AMemberBecomesTheKeeperWhenThereIsNone) {
  auto keeper = open();
  const auto member = open(kOtherModel);
  ASSERT_TRUE(put(*keeper, first_).ok());
  (void)tick(*member);
  EXPECT_FALSE(member->keeper());
  keeper.reset();
  EXPECT_TRUE(tick(*member).more_room);
  EXPECT_TRUE(member->keeper());
  EXPECT_GT(member->foreign_bytes(), ByteCount{0}) << "the other model's files can leave now";
  EXPECT_GT(member->remove_foreign(ByteCount{1}), ByteCount{0});
}

TEST_F(SharedStoreTest, OneOfAFingerprintWritesItsNotes) {
  const auto keeper = open(kOtherModel);
  auto first = open();
  const auto second = open();
  (void)tick(*keeper);
  EXPECT_TRUE(keeper->keeps_notes());
  EXPECT_TRUE(first->keeps_notes());
  EXPECT_FALSE(second->keeps_notes());
  first.reset();
  (void)tick(*second);
  EXPECT_TRUE(second->keeps_notes());
}

TEST_F(SharedStoreTest, TheDeadAreSwept) {
  {
    const auto keeper = open();
    const auto member = open();
    (void)tick(*keeper);
    (void)tick(*member);
    ASSERT_TRUE(put(*member, first_).ok());
    (void)tick(*member);
    EXPECT_GE(names().size(), 3u);
  }
  const auto next = open();
  for (const std::string& name : names()) EXPECT_TRUE(name.ends_with(".notes")) << name;
  EXPECT_FALSE(next->shared());
}

TEST_F(SharedStoreTest, AllowedDiskSpaceThatWasNeverUsedComesBack) {
  constexpr ByteCount kBudget = mebibytes(1);
  const auto keeper = open(kModel, kBudget);
  auto member = open(kModel, kBudget);
  (void)tick(*keeper);
  EXPECT_GT(keeper->used(), ByteCount{100'000});
  member.reset();
  (void)tick(*keeper);
  EXPECT_LT(keeper->used(), ByteCount{10'000});
}

}  // namespace
}  // namespace kvkeep::store
