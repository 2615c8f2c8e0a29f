// Files that a later program wrote: left where they are, because it may come back, and the first to go where their room
// is needed.

#include <gtest/gtest.h>

#include "store/disk_store.h"
#include "store/layout.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_file_system.h"
#include "testing/sim/spliced_bytes.h"

namespace kvkeep::store {
namespace {

using sim::sample_segment;
using sim::SampleSegment;

const FingerprintHash kLaterModel = sim::sample_fingerprint(1);
constexpr std::uint32_t kFiles = 12;  // more than the quarantine would hold

class LaterVersions : public testing::Test {
 protected:
  void SetUp() override {
    open();
    for (std::uint32_t i = 0; i < kFiles; ++i) {
      later_.push_back(sample_segment(kLaterModel, 20 + i, 0, 3'000));
      ASSERT_TRUE(put(later_.back()));
    }
    ASSERT_TRUE(put(own_));
    store_->save_index();
    store_.reset();
    for (const SampleSegment& segment : later_) set_version(path_of(segment), sim::kSegmentSumOffset);
  }
  void open() {
    auto opened =
        DiskStore::open({.directory = "/cache", .fingerprint = kLaterModel, .budget = mebibytes(1)}, files_, clock_);
    ASSERT_TRUE(opened.ok());
    store_ = std::move(*opened);
  }
  void set_version(const std::string& path, std::size_t sum_at) {
    auto bytes = files_.contents(path);
    ASSERT_TRUE(bytes.has_value());
    sim::set_version(*bytes, sum_at, sim::kFutureVersion);
    files_.plant(path, std::move(*bytes));
  }
  bool put(const SampleSegment& segment) {
    return store_->put(segment.header, {{segment.header.name.kind, segment.payload}}).ok();
  }
  Status get(const SampleSegment& segment) {
    std::vector<std::byte> out(segment.payload.size());
    return store_->get(segment.header, segment.header.name.kind, out);
  }
  bool there(const SampleSegment& segment) const { return files_.contents(path_of(segment)).has_value(); }
  static std::string path_of(const SampleSegment& segment) {
    return make_layout("/cache", kLaterModel).own + "/" + format::file_name(segment.header.name);
  }

  sim::SimFileSystem files_{1};
  sim::SimClock clock_;
  std::unique_ptr<DiskStore> store_;
  const SampleSegment own_ = sample_segment(kLaterModel, 1, 0, 3'000);
  std::vector<SampleSegment> later_;  // the oldest first
};

TEST_F(LaterVersions, WaitUntilTheirRoomIsNeeded) {
  open();
  EXPECT_EQ(store_->counters().damaged, 0u);
  EXPECT_EQ(store_->take_recovered().size(), 1u);
  EXPECT_EQ(store_->used().value(), files_.physical_bytes());
  for (const SampleSegment& segment : later_) {
    EXPECT_TRUE(there(segment));
    EXPECT_EQ(get(segment).error().kind, ErrorKind::kNotFound);
  }
  ASSERT_GT(store_->remove_foreign(ByteCount{1}), ByteCount{});
  EXPECT_FALSE(there(later_[0])) << "the oldest";
  EXPECT_TRUE(there(later_[1]));
  EXPECT_EQ(store_->used().value(), files_.physical_bytes());
}

TEST_F(LaterVersions, GiveTheirNamesToWhatIsStoredNow) {
  open();
  ASSERT_TRUE(put(later_[1]));
  EXPECT_TRUE(get(later_[1]).ok());
  EXPECT_EQ(store_->used().value(), files_.physical_bytes());
}

TEST_F(LaterVersions, AreNoDamageWhenTheyComeUnderARunningStore) {
  open();
  ASSERT_TRUE(get(own_).ok());
  set_version(path_of(own_), sim::kSegmentSumOffset);
  EXPECT_EQ(get(own_).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(store_->counters().damaged, 0u);
  EXPECT_TRUE(there(own_));
  EXPECT_EQ(store_->used().value(), files_.physical_bytes());
}

TEST_F(LaterVersions, AnIndexIsCountedAndNotBelieved) {
  const std::string index = make_layout("/cache", kLaterModel).index;
  const std::size_t size = files_.contents(index)->size();
  set_version(index, size - sizeof(Checksum));
  open();
  EXPECT_EQ(store_->counters().damaged, 0u);
  EXPECT_GT(store_->counters().headers_read, kFiles);
  EXPECT_TRUE(files_.contents(index).has_value());
  EXPECT_EQ(store_->used().value(), files_.physical_bytes());
  store_->save_index();
  EXPECT_EQ(store_->used().value(), files_.physical_bytes());
  store_.reset();
  open();
  EXPECT_EQ(store_->counters().headers_read, kFiles)
      << "the index is of this version again, and does not tell of those";
}

}  // namespace
}  // namespace kvkeep::store
