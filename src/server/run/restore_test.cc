// A restore without a scheduler: its units, in memory and from disk, and its reaction to failures.

#include "server/run/restore.h"

#include "server/run/parts_fixture.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

using Kind = RestoreUnit::Kind;

constexpr SeqId kSeq{0};

class RestoreTest : public PartsTest {
 protected:
  explicit RestoreTest(engine::MemoryClass memory_class = engine::MemoryClass::kSliceable)
      : PartsTest({.cells = 1000, .sequences = 2, .memory_class = memory_class}) {
    Sequences sequences = make_sequences();
    run(sequences, tokens_);
    sequences.clear_idle();
  }
  // Carries out all units. Returns their kinds in words, with the positions that they reach.
  std::string restore_all(Restore& restore, ByteCount most_put = mebibytes(1)) {
    std::string units;
    for (;;) {
      const RestoreUnit unit = restore.next(engine.memory().length(kSeq), mebibytes(1), most_put);
      if (unit.kind == Kind::kNone) return units;
      const auto pieces = restore.pieces(unit);
      const bool point = unit.kind == Kind::kPoint;
      EXPECT_GT(bytes_of(unit, pieces), 0);
      EXPECT_TRUE(
          (point ? engine.memory().restore_point(kSeq, pieces) : engine.memory().restore_rows(kSeq, pieces)).ok());
      restore.count(unit, false, stats_);
      restore.note_done(unit);
      units += (point ? "point " : "rows ") + std::to_string(unit.range.end.value()) + " ";
    }
  }
  const std::vector<TokenId> tokens_ = counting(300);
  JobStats stats_;
};

TEST_F(RestoreTest, RowsInMemoryComeAtOnce) {
  Restore restore;
  restore.begin(cache.lease(tokens_), Position{280}, false);
  EXPECT_EQ(restore_all(restore), "rows 280 ");
  EXPECT_EQ(stats_.ram_tokens, 280U);
  EXPECT_EQ(stats_.source, CacheSource::kRamToken);
  EXPECT_EQ(stats_.point, CachePoint::kNone);
}

// The head of a prompt has segments of its own: [0, 32), [32, 256), then the rest.
TEST_F(RestoreTest, OrSegmentBySegment) {
  Restore restore;
  restore.begin(cache.lease(tokens_), Position{280}, false);
  EXPECT_EQ(restore_all(restore, ByteCount{1}), "rows 32 rows 256 rows 280 ");
}

TEST_F(RestoreTest, NothingIsToBeDoneWhereNothingIsTaken) {
  Restore restore;
  EXPECT_EQ(restore.next(Position{}, mebibytes(1)).kind, Kind::kNone);
  restore.begin(nullptr, Position{40}, false);
  EXPECT_EQ(restore.next(Position{40}, mebibytes(1)).kind, Kind::kNone);
}

TEST_F(RestoreTest, RefusedBytesAreReportedAndNothingMoreIsTaken) {
  Restore restore;
  restore.begin(cache.lease(tokens_), Position{300}, false);
  const RestoreUnit unit = restore.next(Position{}, mebibytes(1), ByteCount{1});
  restore.give_up(unit, damaged("test"), cache, stats_);
  EXPECT_TRUE(restore.gave_up());
  EXPECT_EQ(restore.miss(), MissReason::kLoadFailed);
  EXPECT_EQ(stats_.refused_restores, 1U);
  restore.end();
  EXPECT_EQ(known(tokens_), Position{}) << "the first segment is gone";
}

TEST_F(RestoreTest, TooFewCellsAreNobodysFault) {
  Restore restore;
  restore.begin(cache.lease(tokens_), Position{300}, false);
  restore.give_up(restore.next(Position{}, mebibytes(1)), no_space("test"), cache, stats_);
  EXPECT_TRUE(restore.gave_up());
  EXPECT_EQ(restore.miss(), MissReason::kNoCells);
  EXPECT_EQ(stats_.refused_restores, 0U);
  restore.end();
  EXPECT_EQ(known(tokens_), Position{300});
}

TEST_F(RestoreTest, AfterAFailedReadWhatLiesBeforeItIsTaken) {
  Restore restore;
  restore.begin(cache.lease(tokens_), Position{300}, false);
  restore.note_failed_read(stats_);
  EXPECT_TRUE(restore.shorten(Position{32}));
  EXPECT_EQ(restore.to(), Position{300}) << "all of it lies in RAM";
  EXPECT_EQ(restore.miss(), MissReason::kLoadFailed);
  EXPECT_TRUE(restore.shorten(Position{}) && restore.shorten(Position{}));
  EXPECT_FALSE(restore.shorten(Position{})) << "a fourth time";
  EXPECT_TRUE(restore.gave_up());
}

class HybridRestoreTest : public RestoreTest {
 protected:
  HybridRestoreTest() : RestoreTest(engine::MemoryClass::kHybrid) {}
};

TEST_F(HybridRestoreTest, ThePointComesLast) {
  Restore restore;
  restore.begin(cache.lease(tokens_), Position{300}, true);
  EXPECT_EQ(restore_all(restore), "rows 300 point 300 ");
  EXPECT_EQ(stats_.ram_tokens, 300U);
  EXPECT_EQ(stats_.point, CachePoint::kRam);
}

TEST_F(HybridRestoreTest, AfterAFailedReadAnotherPointMayBeTheNextBest) {
  Restore restore;
  restore.begin(cache.lease(tokens_), Position{300}, true);
  EXPECT_FALSE(restore.shorten(Position{}));
  EXPECT_FALSE(restore.gave_up());
}

// Rows on disk only: a cache without RAM over a real directory.
TEST(RestoreFromDisk, ReadsWindowByWindowAndThePointWithTheLastRows) {
  const sim::TemporaryDirectory directory;
  engine::fake::FakeEngine engine({.cells = 1000, .sequences = 2, .memory_class = engine::MemoryClass::kHybrid});
  sim::SimClock clock;
  sim::SimExecutor executor;
  const auto tokens = counting(300);
  auto disk = store::DiskStore::open(
      {.directory = directory.path(), .fingerprint = engine.description().fingerprint, .budget = mebibytes(64)},
      os::real_file_system(), clock);
  ASSERT_TRUE(disk.ok());
  cache::Cache cache(
      {.fingerprint = engine.description().fingerprint, .ram_budget = ByteCount{0}, .shape = engine.memory().shape()},
      std::move(*disk), clock, executor, executor);
  Sequences sequences({}, engine.memory(), cache, clock, [](SeqId, const TraceCut&) {});
  std::vector<engine::BatchToken> batch;
  for (std::size_t i = 0; i < tokens.size(); ++i) batch.push_back({kSeq, tokens[i], Position{} + i, false});
  ASSERT_EQ(engine.decode(batch), engine::DecodeStatus::kOk);
  sequences.occupy(kSeq, {.id = "test"}, tokens);
  sequences.begin_capture(kSeq);
  sequences.release(kSeq, policy::CutReason::kTurn, 0);
  cache.flush();

  Restore restore;
  restore.begin(cache.lease(tokens), Position{300}, true);
  std::vector<RestoreUnit> reads;
  Position from;
  while (reads.size() < 4) {
    const RestoreUnit unit = restore.next(from, ByteCount{1});
    if (unit.kind == Kind::kPoint) break;
    if (unit.kind == Kind::kRead) {
      reads.push_back(unit);
      cache.load(
          restore.lease(), unit.range, [](cache::LoadResult done) { EXPECT_TRUE(done.status.ok()); }, unit.point);
      executor.run_all();
    } else {
      from = unit.range.end;
    }
  }
  ASSERT_EQ(reads.size(), 3U);
  EXPECT_EQ(reads[0].range.end, Position{32});
  EXPECT_EQ(reads[1].range.end, Position{256});
  EXPECT_FALSE(reads[1].point.has_value());
  EXPECT_EQ(reads[2].point, Position{300});
  EXPECT_EQ(restore.next(from, ByteCount{1}).kind, Kind::kPoint);
}

}  // namespace
}  // namespace kvkeep::server
