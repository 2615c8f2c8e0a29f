// A file system that others fill: storing stops, says so, costs nothing meanwhile, and goes on by itself.

#include "store/write_limits.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "store/disk_store.h"
#include "store/layout.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::store {
namespace {

// A file's bytes, more or less.
constexpr ByteCount units(std::uint64_t count) { return ByteCount{count * (64 << 10)}; }
constexpr ByteCount kReserve = units(8);

class FullDiskTest : public testing::Test {
 protected:
  void open(ByteCount reserve) {
    auto opened = DiskStore::open(
        {.directory = "/cache", .fingerprint = sim::sample_fingerprint(1), .budget = mebibytes(64), .reserve = reserve},
        files, clock);
    ASSERT_TRUE(opened.ok());
    store = std::move(*opened);
  }
  Status put(std::uint32_t number, std::size_t size = units(1).value()) {
    const sim::SampleSegment sample = sim::sample_segment(sim::sample_fingerprint(1), number, 0, size);
    return store->put(sample.header, {{format::PartKind::kRows, sample.payload}});
  }
  // Puts until one is refused; how many were not.
  std::uint32_t fill() {
    std::uint32_t count = 0;
    while (count < 100 && put(next++)) ++count;
    return count;
  }
  void free_bytes(ByteCount free) { files.set_free(free); }

  sim::SimFileSystem files{1};
  sim::SimClock clock;
  std::unique_ptr<DiskStore> store;
  std::uint32_t next = 0;
};

TEST_F(FullDiskTest, TheReserveIsLeftToOthers) {
  open(kReserve);
  free_bytes(kReserve + units(5));
  EXPECT_EQ(fill(), 4U);  // a file takes a little more than its bytes
  EXPECT_TRUE(store->stopped());
  const Result<os::Space> space = files.space("/cache");
  EXPECT_GE(space->free, kReserve);
  EXPECT_EQ(store->counters().put_failures, 1U);
}

TEST_F(FullDiskTest, SpaceThatOthersTakeIsSeenWithinASecond) {
  open(kReserve);
  ASSERT_TRUE(put(next++).ok());
  free_bytes(kReserve);
  clock.advance_ms(1000);
  EXPECT_EQ(put(next++).error().kind, ErrorKind::kNoSpace);
  EXPECT_TRUE(store->stopped());
}

TEST_F(FullDiskTest, NothingIsTriedWhileItIsStoppedAndItGoesOnByItself) {
  open(kReserve);
  free_bytes(kReserve);
  ASSERT_FALSE(put(next++).ok());
  const std::uint64_t before = files.operations();
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(put(next++).ok());
  EXPECT_LE(files.operations() - before, 1U) << "the disk is not asked for each file";
  free_bytes(kReserve + units(1) + ByteCount{4 << 10});
  clock.advance_ms(1000);
  EXPECT_FALSE(put(next++).ok()) << "at its edge storing would go off and on";
  free_bytes(kReserve + units(4));
  EXPECT_FALSE(put(next++).ok()) << "asked once a second";
  clock.advance_ms(1000);
  EXPECT_TRUE(put(next++).ok());
  EXPECT_FALSE(store->stopped());
}

TEST_F(FullDiskTest, ADiskThatSaysItIsFullIsTriedEverMoreRarely) {
  open({});
  free_bytes(units(2));
  EXPECT_EQ(fill(), 1U);
  EXPECT_TRUE(store->stopped());
  std::uint64_t tries = 0;
  for (int second = 0; second < 300; ++second) {
    clock.advance_ms(1000);
    const std::uint64_t before = files.operations();
    for (int i = 0; i < 10; ++i) ASSERT_FALSE(put(next++).ok());
    tries += files.operations() > before ? 1 : 0;
  }
  EXPECT_GE(tries, 15U);
  EXPECT_LE(tries, 25U);
  EXPECT_LE(ByteCount{files.physical_bytes()}, units(2)) << "of what was tried nothing is left";
  free_bytes(units(9));
  clock.advance_ms(64'000);
  EXPECT_TRUE(put(next++).ok());
  EXPECT_FALSE(store->stopped());
  free_bytes({});
  ASSERT_FALSE(put(next++).ok());
  free_bytes(units(9));
  clock.advance_ms(1000);
  EXPECT_TRUE(put(next++).ok()) << "full anew: tried again soon";
}

// The directory was replaced, and for a while not all of its files can be listed.
TEST_F(FullDiskTest, FilesThatCannotBeCountedAtOnceAreNotCountedTwice) {
  const std::string name = format::file_name(sim::sample_segment(sim::sample_fingerprint(2), 1, 0, 1).header.name);
  for (std::uint64_t list = 1; list < 10; ++list) {
    store.reset();
    files.remove_tree("/cache");
    open({});
    ASSERT_TRUE(put(next++).ok());
    const ByteCount before = store->used();
    files.remove_tree("/cache");
    for (const std::uint8_t other : {std::uint8_t{2}, std::uint8_t{3}}) {
      const std::string model = "/cache/" + sim::sample_fingerprint(other).hex();
      ASSERT_TRUE(files.make_directories(model).ok());
      files.plant(model + "/" + name, std::vector<std::byte>(units(4).value()));
    }
    for (int tick = 0; tick < 5; ++tick) {
      files.set_plan({sim::FaultKind::kFailOnce, list, {sim::Operation::kList}});
      (void)store->tick();
      EXPECT_LE(store->used().value(), before.value() + files.physical_bytes()) << list;
    }
    files.heal();
    (void)store->tick();
    EXPECT_EQ(store->used().value(), files.physical_bytes()) << list;
  }
}

TEST_F(FullDiskTest, ASavedIndexThatFoundNoRoomIsSavedLater) {
  const std::string path = make_layout("/cache", sim::sample_fingerprint(1)).index;
  open(kReserve);
  ASSERT_TRUE(put(next++).ok());
  free_bytes(kReserve);
  clock.advance_ms(1000);
  store->save_index();
  ASSERT_FALSE(files.contents(path).has_value());
  free_bytes(kReserve + units(50));
  clock.advance_ms(20'000);
  store->save_index();
  EXPECT_TRUE(files.contents(path).has_value()) << "nothing changed since, and it is not on disk";
}

TEST_F(FullDiskTest, WhereTheSystemDoesNotSayFilesAreTried) {
  open(kReserve);
  const sim::SampleSegment sample = sim::sample_segment(sim::sample_fingerprint(1), 1, 0, 1000);
  files.set_plan({sim::FaultKind::kFailOnce, 1});  // the first operation of a put is the question
  EXPECT_TRUE(store->put(sample.header, {{format::PartKind::kRows, sample.payload}}).ok());
  EXPECT_TRUE(files.fault_fired());
}

// Where small files still fit and large ones do not, storing does not stop and go on with each of them.
TEST_F(FullDiskTest, ADiskWithRoomForOnlySmallFilesStaysFull) {
  open({});
  ASSERT_TRUE(put(next++).ok());
  free_bytes(units(4));
  int changes = 0;
  for (int round = 0; round < 6; ++round) {
    clock.advance_ms(20'000);
    const bool before = store->stopped();
    EXPECT_FALSE(put(next++, units(40).value()).ok());
    clock.advance_ms(20'000);
    EXPECT_TRUE(put(next++, 1000).ok()) << "it is tried all the same";
    changes += store->stopped() != before ? 1 : 0;
    EXPECT_TRUE(store->stopped());
  }
  EXPECT_EQ(changes, 1);
  free_bytes(units(100));
  clock.advance_ms(20'000);
  EXPECT_TRUE(put(next++, units(40).value()).ok());
  EXPECT_FALSE(store->stopped());
}

TEST_F(FullDiskTest, AMinuteWithoutARefusalIsEnough) {
  open({});
  free_bytes(units(4));
  EXPECT_FALSE(put(next++, units(40).value()).ok());
  clock.advance_ms(20'000);
  EXPECT_TRUE(put(next++, 1000).ok());
  EXPECT_TRUE(store->stopped());
  clock.advance_ms(60'000);
  EXPECT_TRUE(put(next++, 1000).ok());
  EXPECT_FALSE(store->stopped()) << "nobody wants to store the large one any more";
}

constexpr std::int64_t kMinuteNs = 60'000'000'000;
constexpr std::int64_t kDayNs = 24 * 60 * kMinuteNs;
constexpr std::uint64_t kPerDay = 80'000'000;
constexpr std::uint64_t kMost = kPerDay / 8;
constexpr std::uint64_t kFile = 300'000;
const std::string kPath = "/cache/writes";

class WriteBudgetTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(files.make_directories("/cache").ok()); }
  void start() {
    budget = std::make_unique<WriteBudget>(kPath, ByteCount{kPerDay}, files, clock);
    budget->set_saves(true);
    budget->open();
  }
  std::uint64_t left() { return budget->allowance().left.value(); }
  // Writes as much as it may; how much that is.
  std::uint64_t write_all() {
    std::uint64_t written = 0;
    for (; left() > 0; written += kFile) budget->wrote(ByteCount{kFile});
    return written;
  }
  void damage(std::size_t byte) {
    std::vector<std::byte> bytes = *files.contents(kPath);
    bytes[byte] ^= std::byte{1};
    ASSERT_TRUE(files.remove(kPath).ok());
    const auto file = files.create(kPath);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->append(bytes).ok());
  }

  sim::SimFileSystem files{1};
  sim::SimClock clock;
  std::unique_ptr<WriteBudget> budget;
};

// The limit holds in a simulated month of random writes, kills and stops.
TEST_F(WriteBudgetTest, No24HoursSeeMoreThanADaysBytesAndAFile) {
  std::mt19937_64 random(test_seed());
  std::deque<std::pair<std::int64_t, std::uint64_t>> last_day;
  std::uint64_t in_a_day = 0;
  std::uint64_t total = 0;
  std::uint64_t kills = 0;
  start();
  for (std::int64_t now_ns = 0; now_ns < 30 * kDayNs;) {
    const std::int64_t step_ns = random() % 50 == 0 ? kDayNs / 3 : static_cast<std::int64_t>(random() % kMinuteNs);
    clock.advance_ns(step_ns);
    now_ns += step_ns;
    if (random() % 100 == 0) {
      if (random() % 2 == 0) budget->close();
      ++kills;
      start();
    }
    for (; !last_day.empty() && last_day.front().first <= now_ns - kDayNs; last_day.pop_front())
      in_a_day -= last_day.front().second;
    for (int files_at_once = 0; files_at_once < 40 && left() > 0; ++files_at_once) {
      const std::uint64_t size = 1 + random() % kFile;
      budget->wrote(ByteCount{size});
      last_day.emplace_back(now_ns, size);
      in_a_day += size;
      total += size;
      ASSERT_LE(in_a_day, kPerDay + kFile) << now_ns;
    }
  }
  EXPECT_GT(kills, 10U);
  EXPECT_GT(total, 10 * kPerDay) << "it is used";
}

TEST_F(WriteBudgetTest, ADaysBytesAreThereForADay) {
  start();
  std::uint64_t written = write_all();
  EXPECT_GE(written, kMost);
  for (int hour = 0; hour < 24; ++hour) {
    clock.advance_ns(kDayNs / 24);
    written += write_all();
  }
  EXPECT_GT(written, kPerDay - kFile);
  EXPECT_LE(written, kPerDay + kFile);
  clock.advance_ns(100 * kDayNs);
  EXPECT_EQ(left(), kMost) << "more does not gather";
}

TEST_F(WriteBudgetTest, AFileLargerThanAllThatMayGatherIsPaidForLater) {
  start();
  budget->wrote(ByteCount{kPerDay});
  clock.advance_ns(kDayNs / 2);
  EXPECT_EQ(left(), 0U);
  clock.advance_ns(kDayNs / 2);
  EXPECT_EQ(left(), 0U);
  clock.advance_ns(kDayNs / 8);
  EXPECT_GT(left(), 0U);
}

TEST_F(WriteBudgetTest, ARestartKeepsWhatIsLeft) {
  start();
  write_all();
  budget->close();
  start();
  EXPECT_EQ(left(), 0U);
  clock.advance_ns(kDayNs / 24);
  const std::uint64_t before = left();
  EXPECT_GT(before, 0U);
  start();
  EXPECT_NEAR(static_cast<double>(left()), static_cast<double>(before), 10);
}

TEST_F(WriteBudgetTest, AProcessThatDiesLeavesNoMoreThanThereIs) {
  start();
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t before = left();
    start();
    ASSERT_LE(left(), before + 100) << "so little comes back while nothing waits";
    ASSERT_GE(left() + kMost / 8, before);
    for (int file = 0; file <= i % 3; ++file) budget->wrote(ByteCount{kFile});
  }
}

TEST_F(WriteBudgetTest, ADamagedFileMeansThatNothingIsLeft) {
  start();
  budget->wrote(ByteCount{kFile});
  budget->close();
  const std::size_t size = files.contents(kPath)->size();
  for (std::size_t byte = 0; byte < size; ++byte) {
    damage(byte);
    start();
    EXPECT_EQ(left(), 0U) << byte;
    EXPECT_TRUE(budget->allowance().disbelieved) << "somebody can say so";
    damage(byte);
  }
  start();
  EXPECT_GT(left(), 0U);
  EXPECT_FALSE(budget->allowance().disbelieved);
}

TEST_F(WriteBudgetTest, AClockThatGoesBackGivesNothing) {
  start();
  write_all();
  budget->close();
  clock.advance_ns(-kDayNs);
  EXPECT_EQ(left(), 0U);
  start();
  EXPECT_EQ(left(), 0U);
  clock.advance_ns(kDayNs / 24);
  EXPECT_GT(left(), 0U);
}

TEST_F(WriteBudgetTest, NoFaultOfItsFileMatters) {
  for (std::uint64_t at = 1; at < 12; ++at) {
    for (const sim::FaultKind kind : {sim::FaultKind::kFailOnce, sim::FaultKind::kFailForever}) {
      files.set_plan({kind, at});
      start();
      const std::uint64_t written = write_all();
      EXPECT_LE(written, kMost + kFile);
      files.heal();
      budget->close();
      EXPECT_LE(files.paths().size(), 1U) << "nothing unfinished is left";
      clock.advance_ns(kDayNs);
    }
  }
}

TEST_F(WriteBudgetTest, WithoutALimitTheDiskIsLeftAlone) {
  const std::uint64_t before = files.operations();
  WriteBudget none(kPath, ByteCount{}, files, clock);
  none.set_saves(true);
  none.open();
  none.wrote(ByteCount{kPerDay});
  none.close();
  EXPECT_FALSE(none.limited());
  EXPECT_EQ(files.operations(), before);
}

}  // namespace

}  // namespace kvkeep::store
