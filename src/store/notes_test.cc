#include "store/notes.h"

#include <gtest/gtest.h>

#include <memory>

#include "store/disk_store.h"
#include "store/layout.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::store {
namespace {

const FingerprintHash kDistrustedModel = sim::sample_fingerprint(3);

class Distrust : public testing::Test {
 protected:
  std::unique_ptr<DiskStore> open() {
    auto store = DiskStore::open({.directory = "/cache", .fingerprint = kDistrustedModel, .budget = mebibytes(1)},
                                 files_, clock_);
    EXPECT_TRUE(store.ok());
    return std::move(*store);
  }
  std::optional<std::string> note() { return read_distrust(files_, own_); }

  sim::SimFileSystem files_{1};
  sim::SimClock clock_;
  const std::string own_ = "/cache/" + kDistrustedModel.hex();
};

TEST_F(Distrust, IsNotedDurablyAndReadBack) {
  EXPECT_EQ(note(), std::nullopt);
  EXPECT_TRUE(open()->distrust("rows of [0, 9) are wrong").ok());
  EXPECT_EQ(note(), "rows of [0, 9) are wrong");
  EXPECT_TRUE(open()->distrust("again").ok());
  EXPECT_EQ(note(), "again");
  files_.power_cut();
  EXPECT_EQ(note(), "again");
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {  // what a power cut leaves is chance
    sim::SimFileSystem files(seed);
    ASSERT_TRUE(files.make_directories(own_).ok());
    ASSERT_TRUE(write_distrust(files, own_, "wrong").ok());
    files.power_cut();
    EXPECT_EQ(read_distrust(files, own_), "wrong") << seed;
  }
}

TEST_F(Distrust, IsNeitherForeignNorASegmentNorSweptNorEvicted) {
  ASSERT_TRUE(open()->distrust("wrong").ok());
  const auto store = open();
  EXPECT_EQ(store->counters().foreign, 0U);
  EXPECT_TRUE(store->take_recovered().empty());
  auto other = DiskStore::open(
      {.directory = "/cache", .fingerprint = sim::sample_fingerprint(4), .budget = mebibytes(1)}, files_, clock_);
  ASSERT_TRUE(other.ok());
  (void)(*other)->remove_foreign(mebibytes(1));
  EXPECT_EQ(note(), "wrong");
}

TEST_F(Distrust, WhateverIsThereIsANote) {
  (void)open();
  files_.plant(own_ + "/" + std::string(kDistrustName), {});
  EXPECT_EQ(note(), "");
  files_.plant(own_ + "/" + std::string(kDistrustName), std::vector<std::byte>(5000, std::byte{0x1b}));
  EXPECT_EQ(note(), std::string(kMostDistrustBytes, '?'));
}

TEST_F(Distrust, ALongReasonIsCut) {
  ASSERT_TRUE(open()->distrust(std::string(5000, 'x')).ok());
  EXPECT_EQ(note()->size(), kMostDistrustBytes - 1);
}

}  // namespace
}  // namespace kvkeep::store
