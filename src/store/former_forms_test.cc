// Files of tenants in a form that no request has any more: state under other LoRA scales, as former versions named it.
// They are left where they are and not served, and are the first to go where their room is needed.

#include <gtest/gtest.h>

#include <cstring>

#include "store/disk_store.h"
#include "store/store_parts_fixture.h"

namespace kvkeep::store {
namespace {

class FormerForms : public testing::Test {
 protected:
  static SampleSegment former(std::uint32_t conversation) {
    SampleSegment segment = sample_segment(sample_fingerprint(1), conversation, 0, 3'000);
    std::memcpy(segment.header.tenant.bytes.data(), "lora", 4);
    return segment;
  }
  std::unique_ptr<DiskStore> open() {
    auto store = DiskStore::open({.directory = "/cache", .fingerprint = sample_fingerprint(1), .budget = mebibytes(1)},
                                 files_, clock_);
    EXPECT_TRUE(store.ok());
    return std::move(*store);
  }
  static bool put(DiskStore& store, const SampleSegment& segment) {
    return store.put(segment.header, {{segment.header.name.kind, segment.payload}}).ok();
  }
  bool there(const SampleSegment& segment) const {
    return files_
        .contents(make_layout("/cache", sample_fingerprint(1)).own + "/" + format::file_name(segment.header.name))
        .has_value();
  }

  sim::SimFileSystem files_{1};
  sim::SimClock clock_;
  const SampleSegment own_ = sample_segment(sample_fingerprint(1), 1, 0, 3'000);
  const SampleSegment former_ = former(2);
};

TEST_F(FormerForms, AreSetAsideAndLeaveFirst) {
  for (const bool has_index : {true, false}) {
    auto store = open();
    ASSERT_TRUE(put(*store, own_) && put(*store, former_)) << "a former version does not know of that";
    if (has_index) store->save_index();
    store.reset();
    store = open();
    EXPECT_EQ(store->counters().headers_read, has_index ? 0U : 2U);
    EXPECT_EQ(store->counters().former_forms, 1U);
    EXPECT_EQ(store->counters().damaged, 0U);
    ASSERT_EQ(store->take_recovered().size(), 1U);
    EXPECT_TRUE(there(former_));
    EXPECT_EQ(store->used().value(), files_.physical_bytes());
    EXPECT_GT(store->remove_foreign(ByteCount{1}), ByteCount{});
    EXPECT_FALSE(there(former_));
    EXPECT_TRUE(there(own_));
    EXPECT_EQ(store->used().value(), files_.physical_bytes());
    ASSERT_TRUE(store->remove(own_.header.name).ok());
    store.reset();
    (void)files_.remove(make_layout("/cache", sample_fingerprint(1)).index).ok();
  }
}

TEST_F(FormerForms, AreNotServedWhenAFormerServerWritesThem) {
  StoreParts parts{files_, clock_};
  const auto nobody_lives = [](const os::FileInfo&) { return false; };
  ASSERT_TRUE(parts.inventory.open_root(nobody_lives).ok());
  parts.plant(own_);
  parts.plant(former_);
  const auto found = parts.inventory.survey();
  ASSERT_TRUE(found.ok());
  DiskTick tick;
  parts.inventory.merge(*found, nobody_lives, tick);
  EXPECT_TRUE(parts.serves(own_));
  EXPECT_FALSE(parts.serves(former_));
  EXPECT_TRUE(there(former_));
  EXPECT_EQ(parts.ledger.used().value(), files_.physical_bytes());
}

}  // namespace
}  // namespace kvkeep::store
