#include "store/publisher.h"

#include <gtest/gtest.h>

#include "store/store_parts_fixture.h"

namespace kvkeep::store {
namespace {

const SampleSegment kSegment = sample_segment(sample_fingerprint(1), 1, 0, 5000);

// A disk on which operation `at` fails once, and the parts of a store on it.
struct Faulty {
  explicit Faulty(bool with_a_file) {
    if (with_a_file) {
      EXPECT_TRUE(parts.publish(kSegment).ok());
      EXPECT_TRUE(parts.syncs.removals().ok());
    }
    files.set_observer([this] { EXPECT_LE(files.physical_bytes(), parts.ledger.used().value()); });
  }
  ~Faulty() { files.set_observer(nullptr); }
  sim::SimFileSystem files{7};
  sim::SimClock clock;
  StoreParts parts{files, clock};
};

// No fault fires any more if there is no operation `at`.
bool fails_at(Faulty& disk, sim::FaultKind kind, std::uint64_t at, bool over) {
  disk.files.set_plan({kind, at});
  const Status status = disk.parts.publish(kSegment, over);
  const bool fired = disk.files.fault_fired();
  disk.files.heal();
  if (status) {
    disk.files.power_cut();
    EXPECT_EQ(disk.files.contents(disk.parts.path_of(kSegment)), bytes_of_file(kSegment)) << "reported durable";
  }
  return fired;
}

TEST(Publisher, ANewNameIsDurableOrNothingIsLeft) {
  for (std::uint64_t at = 1;; ++at) {
    Faulty disk(false);
    const bool fired = fails_at(disk, sim::FaultKind::kFailOnce, at, false);
    EXPECT_EQ(disk.files.contents(disk.parts.path_of(kSegment)).has_value(), disk.parts.serves(kSegment)) << at;
    disk.parts.inventory.retry_leftovers();
    EXPECT_EQ(disk.parts.ledger.used().value(), disk.files.physical_bytes()) << at;
    if (fired) continue;
    EXPECT_GT(at, 5U);
    break;
  }
}

TEST(Publisher, OverANameOneOfBothFilesIsAlwaysThere) {
  for (const sim::FaultKind kind : {sim::FaultKind::kFailOnce, sim::FaultKind::kCrash}) {
    for (std::uint64_t at = 1;; ++at) {
      Faulty disk(true);
      const bool fired = fails_at(disk, kind, at, true);
      disk.files.set_observer(nullptr);
      disk.files.power_cut();
      EXPECT_EQ(disk.files.contents(disk.parts.path_of(kSegment)), bytes_of_file(kSegment)) << at;
      if (fired) continue;
      EXPECT_GT(at, 5U);
      break;
    }
  }
}

TEST(Publisher, ADirectoryThatIsGoneIsReported) {
  Faulty disk(false);
  disk.files.remove_tree("/cache");
  const Status status = disk.parts.publish(kSegment);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(disk.parts.ledger.used(), ByteCount{});
}

TEST(Publisher, AnIndexTakesTheRoomOfTheOneBefore) {
  Faulty disk(false);
  for (const std::size_t size : {9000U, 100U}) {
    const std::vector<std::byte> bytes(size);
    ASSERT_TRUE(disk.parts.ledger.reserve(os::physical_size(ByteCount{size})));
    ASSERT_TRUE(disk.parts.publisher.replace_index(bytes, "me").ok());
    EXPECT_EQ(disk.parts.ledger.used(), os::physical_size(ByteCount{size}));
    EXPECT_EQ(disk.files.contents(disk.parts.place.layout.index), bytes);
  }
}

TEST(Publisher, WritingIsCountedInTheDaysBudget) {
  Faulty disk(false);
  disk.parts.writes.open();
  const ByteCount before = disk.parts.writes.allowance().left;
  ASSERT_TRUE(disk.parts.publish(kSegment).ok());
  EXPECT_GE(before - disk.parts.writes.allowance().left, ByteCount{kSegment.payload.size()});
  EXPECT_EQ(disk.parts.counting.counters().payload_bytes_written, kSegment.payload.size());
}

}  // namespace
}  // namespace kvkeep::store
