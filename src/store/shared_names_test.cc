// Names that may lie in servers/: of dead servers, of none, and forged ones.

#include "store/shared_store_fixture.h"

namespace kvkeep::store {
namespace {

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

// However the last server went: the next that starts by itself removes all of its names.
TEST_F(SharedStoreTest, OnlyTheNextTakesWhatMembersLeft) {
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

TEST_F(SharedStoreTest, OnlyTheNextTakesWhatTheKilledLeft) {
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

// Totals in the names of servers only grow, and no faster than anybody writes.
TEST_F(SharedStoreTest, AForgedTotalIsNoWritingOfToday) {
  written_per_day_ = ByteCount{800'000};
  const auto keeper = open();
  const auto member = open();
  (void)tick(*keeper);
  (void)tick(*member);
  const std::uint64_t before = left(*keeper);
  for (const std::uint64_t total : {std::uint64_t{1} << 40, std::uint64_t{1} << 61, std::uint64_t{1} << 63}) {
    Servers forger(servers(), os::real_file_system(), clock_);
    ASSERT_TRUE(forger.publish(total, 0).ok());
    (void)tick(*member);
    (void)tick(*keeper);
    EXPECT_GE(left(*keeper), before);
    EXPECT_GE(left(*member), before / 2);
  }
}

}  // namespace
}  // namespace kvkeep::store
