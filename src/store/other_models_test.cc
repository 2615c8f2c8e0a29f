// Files that no server here serves: other models', and those above the limit. Which leave first, and which stay.

#include "store/shared_store_fixture.h"

namespace kvkeep::store {
namespace {

// Only the last file of a conversation has the time of its use.
TEST_F(SharedStoreTest, TheOldestConversationOfOtherModelsLeavesFirstFromItsEnd) {
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

// As a server would that has the other model's files in its index.
class OtherModelsTest : public SharedStoreTest {
 protected:
  void SetUp() override {
    const auto store = open();
    for (const SampleSegment* segment : {&old_, &first_, &second_}) {
      clock_.advance_ms(1000);
      ASSERT_TRUE(put(*store, *segment).ok());
    }
  }
  void pin(const PrefixHash& end) {
    std::ofstream(root() + "/" + kModel.hex() + "/" + std::string(kPinsName)) << "junk\n" << end.hex() << "\n";
  }
  bool there(const SampleSegment& segment) const {
    return fs::exists(root() + "/" + kModel.hex() + "/" + format::file_name(segment.header.name));
  }
  const SampleSegment old_ = sample_segment(kModel, 2, 0, 5'000);
};

TEST_F(OtherModelsTest, PinnedPrefixesLeaveLast) {
  pin(first_.header.name.end_hash);
  const auto store = open(kOtherModel);
  EXPECT_GT(store->remove_foreign(mebibytes(1), Kept::kSpare), ByteCount{});
  EXPECT_FALSE(there(old_));
  EXPECT_FALSE(there(second_)) << "it goes on from what is pinned";
  EXPECT_TRUE(there(first_));
  EXPECT_GT(store->remove_foreign(ByteCount{1}, Kept::kTake), ByteCount{});
  EXPECT_FALSE(there(first_));
}

TEST_F(OtherModelsTest, ThePathToAPinStays) {
  pin(second_.header.name.end_hash);
  const auto store = open(kOtherModel);
  (void)store->remove_foreign(mebibytes(1), Kept::kSpare);
  EXPECT_FALSE(there(old_));
  EXPECT_TRUE(there(first_));
  EXPECT_TRUE(there(second_));
}

TEST_F(OtherModelsTest, KeptPrefixesStayUntilTheirTime) {
  open()->touch(old_.header.name, clock_.wall_ns() + 60'000'000'000);
  const auto store = open(kOtherModel);
  (void)store->remove_foreign(mebibytes(1), Kept::kSpare);
  EXPECT_TRUE(there(old_));
  EXPECT_FALSE(there(first_));
  clock_.advance_ms(61'000);
  (void)store->remove_foreign(ByteCount{1}, Kept::kSpare);
  EXPECT_FALSE(there(old_));
}

TEST_F(OtherModelsTest, UnusedPrefixesExpire) {
  pin(first_.header.name.end_hash);
  const auto store = open(kOtherModel);
  clock_.advance_ms(3'600'000);
  EXPECT_EQ(store->expire_foreign(clock_.wall_ns() - 7'200'000'000'000), ByteCount{});
  EXPECT_GT(store->expire_foreign(clock_.wall_ns() - 1'800'000'000'000), ByteCount{});
  EXPECT_FALSE(there(old_));
  EXPECT_FALSE(there(second_));
  EXPECT_TRUE(there(first_)) << "it is pinned";
}

TEST_F(SharedStoreTest, TheEndsOfTheOldestAreLeftOutOfTooManyFiles) {
  std::vector<SampleSegment> stored;
  {
    const auto store = open();
    for (const std::uint32_t conversation : {1U, 2U, 3U}) {
      for (const std::uint32_t number : {0U, 1U, 2U, 3U}) {
        clock_.advance_ms(1000);
        stored.push_back(sample_segment(kModel, conversation, number, 1000));
        ASSERT_TRUE(put(*store, stored.back()).ok());
      }
    }
    clock_.advance_ms(1000);
    store->touch(stored[3].header.name, clock_.wall_ns());  // the end of the first conversation
    EXPECT_FALSE(store->has_most_files());
  }
  auto opened = DiskStore::open({.directory = root(), .fingerprint = kModel, .budget = mebibytes(64), .most_files = 9},
                                os::real_file_system(), clock_);
  ASSERT_TRUE(opened.ok());
  DiskStore& store = **opened;
  EXPECT_TRUE(store.has_most_files());
  EXPECT_EQ(store.take_recovered().size(), 9U);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const bool left_out = i >= 5 && i < 8;  // of the second conversation all but its beginning
    EXPECT_EQ(has(store, stored[i]), !left_out) << i;
  }
  EXPECT_GT(store.foreign_bytes(), ByteCount{}) << "they may leave for others";
}

}  // namespace
}  // namespace kvkeep::store
