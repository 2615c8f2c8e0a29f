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
      const RestoreUnit unit =
          restore.next(engine.memory().length(kSeq), {.most_read = mebibytes(1), .most_put = most_put});
      if (unit.kind == Kind::kNone) return units;
      const auto pieces = restore.pieces(unit);
      const bool point = unit.kind == Kind::kPoint;
      EXPECT_FALSE(pieces.empty());
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

// The head of a prompt has segments of its own: [0, 32), [32, 256), then the rest. A row has 32 bytes here, and each
// segment a header.
TEST_F(RestoreTest, OrAFewBytesAtATimeWhereverSegmentsEnd) {
  const auto all = [&](std::uint64_t rows) {
    Restore restore;
    restore.begin(cache.lease(tokens_), Position{280}, false);
    engine.memory().clear(kSeq);
    return restore_all(restore, ByteCount{rows * 32});
  };
  EXPECT_EQ(all(0), "rows 64 rows 128 rows 192 rows 256 rows 280 ") << "a few rows in any case";
  EXPECT_EQ(all(100), "rows 100 rows 200 rows 280 ");
  EXPECT_EQ(all(250), "rows 250 rows 280 ");
  EXPECT_EQ(all(300), "rows 280 ");
}

TEST_F(RestoreTest, NothingIsToBeDoneWhereNothingIsTaken) {
  Restore restore;
  EXPECT_EQ(restore.next(Position{}, {.most_read = mebibytes(1)}).kind, Kind::kNone);
  restore.begin(nullptr, Position{40}, false);
  EXPECT_EQ(restore.next(Position{40}, {.most_read = mebibytes(1)}).kind, Kind::kNone);
}

TEST_F(RestoreTest, RefusedBytesAreReportedAndNothingMoreIsTaken) {
  Restore restore;
  restore.begin(cache.lease(tokens_), Position{300}, false);
  const RestoreUnit unit = restore.next(Position{}, {.most_read = mebibytes(1), .most_put = ByteCount{1}});
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
  restore.give_up(restore.next(Position{}, {.most_read = mebibytes(1)}), no_space("test"), cache, stats_);
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
class RestoreFromDisk : public ::testing::Test {
 protected:
  RestoreFromDisk() {
    auto disk = store::DiskStore::open(
        {.directory = directory_.path(), .fingerprint = engine_.description().fingerprint, .budget = mebibytes(64)},
        os::real_file_system(), clock_);
    EXPECT_TRUE(disk.ok());
    cache_.emplace(cache::CacheOptions{.fingerprint = engine_.description().fingerprint,
                                       .ram_budget = ByteCount{0},
                                       .shape = engine_.memory().shape()},
                   std::move(*disk), clock_, executor_, executor_);
    Sequences sequences({}, engine_.memory(), *cache_, clock_, [](SeqId, const TraceCut&) {});
    std::vector<engine::BatchToken> batch;
    for (std::size_t i = 0; i < tokens_.size(); ++i) batch.push_back({kSeq, tokens_[i], Position{} + i, false});
    EXPECT_EQ(engine_.decode(batch), engine::DecodeStatus::kOk);
    sequences.occupy(kSeq, {.id = "test"}, tokens_);
    sequences.begin_capture(kSeq);
    sequences.release(kSeq, policy::CutReason::kTurn, 0);
    cache_->flush();
  }
  // Returns all units in words, with the positions that they reach.
  std::string units_of(const RestoreSteps& steps) {
    Restore restore;
    restore.begin(cache_->lease(tokens_), Position{300}, true);
    std::string units;
    Position from;
    for (int i = 0; i < 20; ++i) {
      const RestoreUnit unit = restore.next(from, steps);
      if (unit.kind == Kind::kNone) break;
      units += unit.kind == Kind::kRead ? "read " : unit.kind == Kind::kRows ? "rows " : "point ";
      units += std::to_string(unit.range.end.value());
      units += unit.kind == Kind::kRead && unit.point ? " with point, " : ", ";
      if (unit.kind == Kind::kRead) {
        cache_->load(
            restore.lease(), unit.range, [](cache::LoadResult done) { EXPECT_TRUE(done.status.ok()); }, unit.point);
        executor_.run_all();
        continue;
      }
      EXPECT_EQ(unit.range.begin, from);
      EXPECT_FALSE(restore.pieces(unit).empty());
      restore.note_done(unit);
      from = unit.range.end;
    }
    return units;
  }

 private:
  const sim::TemporaryDirectory directory_;
  engine::fake::FakeEngine engine_{{.cells = 1000, .sequences = 2, .memory_class = engine::MemoryClass::kHybrid}};
  sim::SimClock clock_;
  sim::SimExecutor executor_;
  const std::vector<TokenId> tokens_ = counting(300);
  std::optional<cache::Cache> cache_;
};

TEST_F(RestoreFromDisk, ReadsWindowByWindowAndThePointWithTheLastRows) {
  EXPECT_EQ(units_of({.most_read = ByteCount{1}}),
            "read 32, rows 32, read 256, rows 256, read 300 with point, rows 300, point 300, ");
}

TEST_F(RestoreFromDisk, PutsAllRowsAtOnceWhereEachPutCopiesThoseThatAreThere) {
  EXPECT_EQ(units_of({.most_read = ByteCount{1}, .rows_at_once = true}),
            "read 32, read 256, read 300 with point, rows 300, point 300, ");
}

}  // namespace
}  // namespace kvkeep::server
