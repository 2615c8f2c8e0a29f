// Several servers on one directory of the machine's own file system, and what may lie in servers/.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "store/disk_store.h"
#include "store/layout.h"
#include "store/servers.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::store {
namespace {

namespace fs = std::filesystem;
using sim::sample_segment;
using sim::SampleSegment;

const FingerprintHash kModel = sim::sample_fingerprint(0xab);
const FingerprintHash kOtherModel = sim::sample_fingerprint(0xcd);

class SharedStoreTest : public testing::Test {
 protected:
  std::unique_ptr<DiskStore> open(const FingerprintHash& fingerprint = kModel, ByteCount budget = mebibytes(64)) {
    auto store = DiskStore::open(
        {.directory = root(), .fingerprint = fingerprint, .budget = budget, .written_per_day = written_per_day_},
        os::real_file_system(), clock_);
    EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().message);
    return store.ok() ? std::move(*store) : nullptr;
  }
  DiskTick tick(DiskStore& store) {
    clock_.advance_ms(10'000);
    return store.tick();
  }
  std::string root() const { return directory_.path() + "/cache"; }
  std::string servers() const { return root() + "/servers"; }
  static Status put(DiskStore& store, const SampleSegment& segment) {
    return store.put(segment.header, {{segment.header.name.kind, segment.payload}});
  }
  static bool has(DiskStore& store, const SampleSegment& segment) {
    std::vector<std::byte> out(segment.payload.size());
    return store.get(segment.header, segment.header.name.kind, out).ok() && out == segment.payload;
  }
  void plant(const std::string& name) {
    fs::create_directories(servers());
    std::ofstream(servers() + "/" + name) << "x";
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    if (!fs::exists(servers())) return found;
    for (const auto& entry : fs::directory_iterator(servers())) found.push_back(entry.path().filename());
    return found;
  }

  static std::uint64_t left(DiskStore& store) {
    const auto allowance = store.writes();
    return allowance ? allowance->left.value() : 0;
  }

  const sim::TemporaryDirectory directory_;
  sim::SimClock clock_;
  ByteCount written_per_day_;
  const SampleSegment first_ = sample_segment(kModel, 1, 0, 10'000);
  const SampleSegment second_ = sample_segment(kModel, 1, 1, 5'000);
  const SampleSegment third_ = sample_segment(kModel, 1, 2, 5'000);
};

TEST_F(SharedStoreTest, AServerAloneLeavesNoTraceOfSharing) {
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

TEST_F(SharedStoreTest, WhatOneStoresTheOtherServes) {
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

// kvkeep cache rm and the like are no servers: beside one that is alone nobody else would tell it, nor its members.
TEST_F(SharedStoreTest, WhatOtherHandsRemoveAllHearOf) {
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
  EXPECT_EQ(tick(*keeper).gone.size(), 1u);  // and takes away what told it, before the member looked
  EXPECT_EQ(tick(*member).gone.size(), 1u);
}

TEST_F(SharedStoreTest, WhatOneUsesTheOtherHearsOf) {
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

TEST_F(SharedStoreTest, WhatWasRefusedHearsOfRoomThatAnotherPutFound) {
  const auto keeper = open();
  const auto member = open();
  ASSERT_FALSE(put(*member, first_).ok());
  (void)tick(*keeper);
  ASSERT_TRUE(put(*member, second_).ok()) << "it looks for a lease by itself";
  EXPECT_TRUE(tick(*member).more_room);
  EXPECT_FALSE(tick(*member).more_room) << "told once";
}

// Whole states may be stored built on an earlier one or not, whichever their server has.
TEST_F(SharedStoreTest, WhatAnotherWroteAnewWithOtherPartsIsNoDamage) {
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

// Notes are written anew through temporary files that tell no owner.
TEST_F(SharedStoreTest, NotesThatAreBeingWrittenAreLeftAlone) {
  const auto keeper = open();
  auto member = open(kOtherModel);
  (void)tick(*keeper);
  const std::string notes = root() + "/" + kOtherModel.hex() + "/turns.tmp";
  std::ofstream(notes) << "half";
  for (int i = 0; i < 8; ++i) (void)tick(*keeper);
  EXPECT_TRUE(fs::exists(notes));
  EXPECT_GT(keeper->used(), member->used());
  member.reset();
  (void)tick(*keeper);
  EXPECT_FALSE(fs::exists(notes)) << "nobody goes on with it";
}

// Of a conversation only its last file has the time of its use.
TEST_F(SharedStoreTest, OfOtherModelsTheOldestConversationLeavesFirstFromItsEnd) {
  const SampleSegment old = sample_segment(kModel, 2, 0, 5'000);
  {
    const auto store = open();
    for (const SampleSegment* segment : {&first_, &second_, &old, &third_}) {
      clock_.advance_ms(1000);
      ASSERT_TRUE(put(*store, *segment).ok());
    }
  }
  const auto store = open(kOtherModel);
  const auto there = [&](const SampleSegment& segment) {
    return fs::exists(root() + "/" + kModel.hex() + "/" + format::file_name(segment.header.name));
  };
  for (const SampleSegment* next : {&old, &third_, &second_, &first_}) {
    ASSERT_TRUE(there(*next));
    ASSERT_GT(store->remove_foreign(ByteCount{1}), ByteCount{});
    EXPECT_FALSE(there(*next));
  }
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

TEST_F(SharedStoreTest, WhatDiskSpaceWasAllowedAndNeverUsedComesBack) {
  constexpr ByteCount kBudget = mebibytes(1);
  const auto keeper = open(kModel, kBudget);
  auto member = open(kModel, kBudget);
  (void)tick(*keeper);
  EXPECT_GT(keeper->used(), ByteCount{100'000});
  member.reset();
  (void)tick(*keeper);
  EXPECT_LT(keeper->used(), ByteCount{10'000});
}

// ---- Anything may lie in servers/ ----

TEST_F(SharedStoreTest, NamesOfNobodyChangeNothing) {
  plant("ffffffffffffffff.ffffffffffffffff-00000000.grant");
  plant("ffffffffffffffff.ffffffffffffffff-ffffffffffffffff-00000000.used");
  plant("ffffffffffffffff.lock");
  plant("hello");
  plant(".grant");
  plant(std::string(200, 'f'));
  fs::create_directories(servers() + "/eeeeeeeeeeeeeeee.lock");
  fs::create_symlink("/etc/passwd", servers() + "/dddddddddddddddd.lock");
  for (int i = 0; i < 3000; ++i) plant(std::to_string(1'000'000'000'000'000'000 + i) + ".lock");
  const auto keeper = open();
  ASSERT_TRUE(put(*keeper, first_).ok());
  const auto member = open();
  (void)tick(*keeper);
  (void)tick(*member);
  EXPECT_TRUE(put(*member, second_).ok());
  EXPECT_TRUE(fs::exists(servers() + "/hello"));
  EXPECT_FALSE(fs::exists(servers() + "/ffffffffffffffff.lock"));
}

// Whoever went last, and however: the next that starts alone leaves nothing of it.
TEST_F(SharedStoreTest, TheNextAloneTakesWhatMembersLeft) {
  for (const bool keeper_first : {true, false}) {
    auto keeper = open();
    auto member = open();
    for (int i = 0; i < 2; ++i) {
      (void)tick(*keeper);
      (void)tick(*member);
    }
    EXPECT_FALSE(names().empty());
    (keeper_first ? keeper : member).reset();
    EXPECT_FALSE(names().empty()) << "one lives";
    if (keeper_first) (void)tick(*member);
    keeper.reset();
    member.reset();
    const auto alone = open();
    EXPECT_FALSE(fs::exists(servers())) << keeper_first;
  }
}

TEST_F(SharedStoreTest, TheNextAloneTakesWhatTheKilledLeft) {
  const std::string id(16, 'f');
  plant(id + ".lock");
  plant(kModel.hex() + ".notes");
  plant("hello");
  const auto alone = open();
  EXPECT_EQ(names(), std::vector<std::string>{"hello"});
  fs::remove(servers() + "/hello");
  plant(kModel.hex() + ".notes");
  const auto held = os::real_file_system().lock(servers() + "/" + kModel.hex() + ".notes");
  ASSERT_TRUE(held);
  Servers(servers(), os::real_file_system(), clock_).tidy();
  EXPECT_EQ(names().size(), 1U) << "who holds notes lives";
}

// The directory of a model may go while its server has not yet become the keeper.
TEST_F(SharedStoreTest, AMemberWhoseEmptyDirectoryWasRemovedTakesOver) {
  auto keeper = open(kOtherModel);
  const auto member = open();
  keeper.reset();
  fs::remove(root() + "/" + kModel.hex());
  (void)tick(*member);
  ASSERT_TRUE(member->keeper());
  EXPECT_TRUE(put(*member, first_).ok());
}

TEST_F(SharedStoreTest, AGrantThatTheKeeperDidNotMakeIsNone) {
  const auto keeper = open(kModel, mebibytes(1));
  const auto member = open(kModel, mebibytes(1));
  std::string id;
  for (const std::string& name : names()) {
    if (name.ends_with(".lock")) id = name.substr(0, 16);
  }
  ASSERT_FALSE(id.empty());
  plant(id + ".00000000ffffffff-12345678.grant");
  EXPECT_FALSE(tick(*member).more_room);
  EXPECT_FALSE(put(*member, first_).ok());
  // Made as it should be, but of more than there is.
  sim::SimClock clock;
  Servers forger(servers(), os::real_file_system(), clock);
  ASSERT_TRUE(forger.grant(id, 0, 1ULL << 40).ok());
  EXPECT_FALSE(tick(*member).more_room);
  EXPECT_FALSE(put(*member, first_).ok());
}

TEST_F(SharedStoreTest, SomethingElseHasTheNameOfServers) {
  fs::create_directories(root());
  std::ofstream(servers()) << "x";
  const auto keeper = open();
  ASSERT_TRUE(put(*keeper, first_).ok());
  (void)tick(*keeper);
  const auto member = open();
  EXPECT_TRUE(has(*member, first_)) << "it serves, and stores nothing";
  (void)tick(*member);
  EXPECT_FALSE(put(*member, second_).ok());
}

TEST_F(SharedStoreTest, AMemberWhoseFilesWereRemovedJoinsAgain) {
  const auto keeper = open();
  const auto member = open();
  (void)tick(*keeper);
  (void)tick(*member);
  ASSERT_TRUE(put(*member, first_).ok());
  fs::remove_all(servers());
  (void)tick(*member);
  (void)tick(*keeper);
  (void)tick(*member);
  EXPECT_TRUE(put(*member, second_).ok());
}

}  // namespace
}  // namespace kvkeep::store
