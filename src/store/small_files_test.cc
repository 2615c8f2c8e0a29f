#include "store/small_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "format/notes.h"
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

TEST_F(Distrust, AnyFileOfThatNameIsANote) {
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

// Records over the simulated disk: what survives which fault, and that nothing is ever read that was not written.

namespace {

using sim::FaultKind;
using Payload = std::vector<std::byte>;

constexpr std::uint32_t kKind = 7;
constexpr ByteCount kEverything = mebibytes(64);
constexpr int kOld = 3;       // records that lie there before
constexpr int kAppended = 6;  // records that follow

// Records of different lengths, one of them empty.
Payload record(int number) { return Payload(static_cast<std::size_t>(number) * 37, static_cast<std::byte>(number)); }

std::vector<Payload> records(int from, int until) {
  std::vector<Payload> all;
  for (int i = from; i < until; ++i) all.push_back(record(i));
  return all;
}

class RecordLogTest : public ::testing::Test {
 protected:
  void SetUp() override { make_directory(files_); }
  static void make_directory(sim::SimFileSystem& files) { ASSERT_TRUE(files.make_directories("/cache")); }
  static ReadRecords read(sim::SimFileSystem& files, std::uint32_t kind = kKind, ByteCount most = kEverything) {
    auto known = read_records(files, kPath, kind, most);
    EXPECT_TRUE(known.ok());
    return known ? *known : ReadRecords{};
  }
  static bool is_head_of(const std::vector<Payload>& payloads, const std::vector<Payload>& all) {
    return payloads.size() <= all.size() && std::ranges::equal(payloads, std::span(all).first(payloads.size()));
  }

  static inline const std::string kPath = "/cache/records";
  sim::SimFileSystem files_;
};

TEST_F(RecordLogTest, WrittenRecordsAreReadInOrder) {
  EXPECT_TRUE(read(files_).payloads.empty()) << "a missing file";
  EXPECT_FALSE(read(files_).damaged);
  auto log = RecordLog::rewrite(files_, kPath, kKind, records(0, kOld));
  ASSERT_TRUE(log.ok());
  for (const Payload& payload : records(kOld, 20)) {
    ASSERT_TRUE(log->append(payload));
    EXPECT_EQ(log->size().value(), files_.contents(kPath)->size());
  }
  EXPECT_EQ(read(files_).payloads, records(0, 20));
  EXPECT_FALSE(read(files_).damaged);
  EXPECT_EQ(files_.paths(), std::vector<std::string>{kPath}) << "no temporary file stays";
}

TEST_F(RecordLogTest, WritingAnewReplacesTheFile) {
  ASSERT_TRUE(RecordLog::rewrite(files_, kPath, kKind, records(0, 20)).ok());
  files_.plant(kPath + ".tmp", record(9));  // of a run that was killed
  auto log = RecordLog::rewrite(files_, kPath, kKind, records(5, 8));
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->append(record(1)));
  EXPECT_EQ(read(files_).payloads, (std::vector<Payload>{record(5), record(6), record(7), record(1)}));
}

TEST_F(RecordLogTest, AnotherKindHasNoRecordsForTheReader) {
  ASSERT_TRUE(RecordLog::rewrite(files_, kPath, kKind, records(0, kOld)).ok());
  EXPECT_TRUE(read(files_, kKind + 1).payloads.empty());
  EXPECT_TRUE(read(files_, kKind + 1).damaged);
}

TEST_F(RecordLogTest, NoMoreIsReadThanWasAskedFor) {
  ASSERT_TRUE(RecordLog::rewrite(files_, kPath, kKind, records(0, 20)).ok());
  const std::size_t size = files_.contents(kPath)->size();
  for (std::size_t most = 0; most <= size; most += 13) {
    const ReadRecords some = read(files_, kKind, ByteCount{most});
    EXPECT_TRUE(is_head_of(some.payloads, records(0, 20)));
    std::size_t bytes = format::kRecordFileHeadBytes;
    for (const Payload& payload : some.payloads) bytes += format::encode_record(payload).size();
    EXPECT_LE(bytes, std::max(most, format::kRecordFileHeadBytes));
  }
  EXPECT_FALSE(read(files_, kKind, ByteCount{size}).damaged);
}

TEST_F(RecordLogTest, TooLargeARecordIsRefusedAndTheFileGoesOn) {
  auto log = RecordLog::rewrite(files_, kPath, kKind, {});
  ASSERT_TRUE(log.ok());
  const Status refused = log->append(Payload(format::kMaxRecordBytes + 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(log->append(record(1)));
  EXPECT_EQ(read(files_).payloads, records(1, 2));
}

// Any number of bytes of the file may be missing at its end, and any one may be wrong.
TEST_F(RecordLogTest, RecordsBeforeTheDamageAreRead) {
  ASSERT_TRUE(RecordLog::rewrite(files_, kPath, kKind, records(0, 5)).ok());
  const Payload whole = *files_.contents(kPath);
  std::vector<std::size_t> ends = {format::kRecordFileHeadBytes};
  for (const Payload& payload : records(0, 5)) ends.push_back(ends.back() + format::encode_record(payload).size());
  ASSERT_EQ(ends.back(), whole.size());
  const auto before = [&](std::size_t at) {  // records that end at or before it
    return static_cast<std::size_t>(std::ranges::upper_bound(ends, at) - ends.begin()) - 1;
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Payload torn(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at));
    files_.plant(kPath, torn);
    const ReadRecords short_one = read(files_);
    EXPECT_EQ(short_one.payloads.size(), at < ends.front() ? 0 : before(at)) << at;
    EXPECT_EQ(short_one.damaged, at > 0 && !std::ranges::binary_search(ends, at)) << at;
    Payload flipped = whole;
    flipped[at] ^= std::byte{0x10};
    files_.plant(kPath, flipped);
    const ReadRecords wrong = read(files_);
    EXPECT_EQ(wrong.payloads.size(), at < ends.front() ? 0 : before(at)) << at;
    EXPECT_TRUE(is_head_of(wrong.payloads, records(0, 5)));
    EXPECT_TRUE(wrong.damaged);
  }
}

// A short life: what lies there is written anew, then records are appended; gives those that were promised.
struct Life {
  bool rewritten = false;
  int appended = 0;
  bool refused = false;
};
Life live(sim::SimFileSystem& files, const std::string& path) {
  Life life;
  auto log = RecordLog::rewrite(files, path, kKind, records(10, 10 + kOld));
  life.rewritten = log.ok();
  life.refused = !log.ok();
  for (int i = 0; log.ok() && i < kAppended && !life.refused; ++i) {
    life.refused = !log->append(record(20 + i));
    life.appended += life.refused ? 0 : 1;
  }
  return life;
}

std::vector<Payload> written(int appended) {
  std::vector<Payload> all = records(10, 10 + kOld);
  for (const Payload& payload : records(20, 20 + appended)) all.push_back(payload);
  return all;
}

// Each operation fails in turn. The process may die of it or go on; then it is killed, or the power is cut.
TEST_F(RecordLogTest, AFaultAtAnyOperationLosesNoMoreThanWasNotPromised) {
  for (const FaultKind kind : {FaultKind::kFailOnce, FaultKind::kFailForever, FaultKind::kCrash}) {
    for (const bool power_cut : {false, true}) {
      bool fired = true;
      std::uint64_t at = 0;
      while (fired) {
        sim::SimFileSystem files(++at);
        make_directory(files);
        ASSERT_TRUE(RecordLog::rewrite(files, kPath, kKind, records(0, kOld)).ok());
        files.set_plan({kind, at});
        const Life life = live(files, kPath);
        fired = files.fault_fired();
        files.heal();
        power_cut ? files.power_cut() : files.kill();
        const ReadRecords known = read(files);
        const std::vector<Payload> most = written(kAppended);
        const bool is_new = is_head_of(known.payloads, most);
        EXPECT_TRUE(is_new || is_head_of(known.payloads, records(0, kOld))) << "records nobody wrote, at " << at;
        if (power_cut) continue;
        // Promised records survive the process, and a failed write leaves the old file.
        if (life.rewritten) {
          EXPECT_TRUE(is_new) << at;
          EXPECT_GE(known.payloads.size(), written(life.appended).size()) << at;
        } else {
          EXPECT_EQ(known.payloads.size(), static_cast<std::size_t>(kOld)) << at;
        }
        EXPECT_TRUE(RecordLog::rewrite(files, kPath, kKind, records(0, kOld)).ok()) << "it works again";
        EXPECT_EQ(read(files).payloads, records(0, kOld));
      }
      EXPECT_GT(at, 8U) << "the loop met every operation";
    }
  }
}

TEST_F(RecordLogTest, AReadThatTheDeviceRefusesIsAnError) {
  ASSERT_TRUE(RecordLog::rewrite(files_, kPath, kKind, records(0, kOld)).ok());
  for (std::uint64_t at = 1; at <= 3; ++at) {
    files_.set_plan({FaultKind::kFailOnce, at});
    EXPECT_FALSE(read_records(files_, kPath, kKind, kEverything).ok()) << at;
    files_.heal();
  }
  EXPECT_EQ(read(files_).payloads, records(0, kOld));
}

}  // namespace

}  // namespace kvkeep::store
