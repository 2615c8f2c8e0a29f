#include "store/inventory.h"

#include <gtest/gtest.h>

#include "store/store_parts_fixture.h"

namespace kvkeep::store {
namespace {

class InventoryTest : public testing::Test {
 protected:
  static bool nobody_lives(const os::FileInfo&) { return false; }
  std::string own(const std::string& name) const { return parts_.place.path_of(name); }
  void plant_garbage(const std::string& path, std::size_t size = 100) {
    parts_.plant(path, std::vector<std::byte>(size));
  }
  void check_count() { EXPECT_EQ(parts_.ledger.used().value(), files_.physical_bytes()); }

  sim::SimFileSystem files_{1};
  sim::SimClock clock_;
  StoreParts parts_{files_, clock_};
  Inventory& inventory_ = parts_.inventory;
  const SampleSegment first_ = sample_segment(parts_.options.fingerprint, 1, 0, 700);
  const SampleSegment second_ = sample_segment(parts_.options.fingerprint, 1, 1, 5000);
  const SampleSegment foreign_ = sample_segment(sample_fingerprint(2), 1, 0, 900);
};

TEST_F(InventoryTest, EveryFileOfTheRootIsCountedOnce) {
  parts_.plant(first_);
  plant_garbage(own(format::file_name(second_.header.name)));  // damaged
  plant_garbage(own("index"));                                 // the same
  plant_garbage(own("left.tmp"), 9000);
  plant_garbage("/cache/lock", 0);
  plant_garbage("/cache/quarantine/old.1.1");
  parts_.plant(foreign_);
  plant_garbage("/cache/" + foreign_.header.fingerprint.hex() + "/left.tmp");
  ASSERT_TRUE(inventory_.open_root(nobody_lives).ok());
  check_count();
  EXPECT_TRUE(parts_.serves(first_));
  EXPECT_EQ(parts_.served.size(), 1U);
  EXPECT_EQ(inventory_.foreign_bytes(), os::physical_size(ByteCount{bytes_of_file(foreign_).size()}));
  EXPECT_EQ(parts_.counting.counters().damaged, 2U);
  EXPECT_EQ(parts_.counting.counters().temporaries, 2U);
  EXPECT_FALSE(inventory_.knows(format::file_name(second_.header.name))) << "it was set aside";
}

TEST_F(InventoryTest, AMemberMovesNoFile) {
  const std::string damaged = own(format::file_name(second_.header.name));
  parts_.plant(first_);
  plant_garbage(damaged);
  plant_garbage(own("left.tmp"));
  ASSERT_TRUE(inventory_.open_own().ok());
  EXPECT_TRUE(parts_.serves(first_));
  const std::string name = format::file_name(first_.header.name);
  inventory_.set_aside(name, *parts_.served.generation_of(name));
  EXPECT_FALSE(parts_.serves(first_));
  for (const std::string& path : {damaged, own("left.tmp"), own(name)}) {
    EXPECT_TRUE(files_.contents(path)) << path;
  }
}

TEST_F(InventoryTest, TemporariesOfTheLivingAreCountedAndStay) {
  plant_garbage(own("theirs.tmp"));
  plant_garbage(own("left.tmp"));
  ASSERT_TRUE(inventory_.open_root([](const os::FileInfo& info) { return info.name == "theirs.tmp"; }).ok());
  check_count();
  EXPECT_TRUE(files_.contents(own("theirs.tmp")));
  EXPECT_FALSE(files_.contents(own("left.tmp")));
  EXPECT_EQ(inventory_.remove_oldest(mebibytes(1), Kept::kTake), ByteCount{});
}

TEST_F(InventoryTest, ALookFollowsWhatOthersDid) {
  parts_.plant(first_);
  ASSERT_TRUE(inventory_.open_root(nobody_lives).ok());
  (void)parts_.served.take_found();
  parts_.plant(second_);
  parts_.plant(foreign_);
  ASSERT_TRUE(files_.remove(parts_.path_of(first_)).ok());
  DiskTick tick;
  const auto found = inventory_.survey();
  ASSERT_TRUE(found.ok());
  inventory_.merge(*found, nobody_lives, tick);
  check_count();
  EXPECT_TRUE(tick.looked);
  EXPECT_EQ(tick.gone, std::vector{first_.header.name});
  ASSERT_EQ(parts_.served.take_found().size(), 1U);
  EXPECT_TRUE(parts_.serves(second_));
  EXPECT_GT(inventory_.foreign_bytes(), ByteCount{});
}

TEST_F(InventoryTest, AMemberThatBecomesTheKeeperCountsTheWholeRoot) {
  parts_.ledger.draw_on_lease();
  parts_.plant(first_);
  ASSERT_TRUE(inventory_.open_own().ok());
  parts_.plant(foreign_);
  const auto found = inventory_.look_to_keep();
  ASSERT_TRUE(found.ok());
  DiskTick tick;
  inventory_.recount(*found);
  inventory_.merge(*found, nobody_lives, tick);
  check_count();
  EXPECT_EQ(inventory_.remove_oldest(ByteCount{1}, Kept::kTake),
            os::physical_size(ByteCount{bytes_of_file(foreign_).size()}));
  check_count();
}

TEST_F(InventoryTest, AFileThatAnotherServerWroteAnewIsNoDamage) {
  parts_.plant(first_);
  ASSERT_TRUE(inventory_.open_root(nobody_lives).ok());
  (void)parts_.served.take_found();
  const std::string name = format::file_name(first_.header.name);
  const auto generation = parts_.served.generation_of(name);
  EXPECT_FALSE(inventory_.adopt_anew(name, *generation)) << "it holds what was known";
  parts_.plant(sample_segment(parts_.options.fingerprint, 1, 0, 9000));
  EXPECT_TRUE(inventory_.adopt_anew(name, *generation));
  check_count();
  EXPECT_EQ(parts_.served.take_found().size(), 1U);
  EXPECT_TRUE(inventory_.adopt_anew(name, *generation)) << "it was adopted meanwhile";
}

}  // namespace
}  // namespace kvkeep::store
