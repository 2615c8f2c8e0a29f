// Turns of restoring without a scheduler: how much is put in one, and when a request goes on later.

#include "server/run/restorer.h"

#include "server/run/inbox.h"
#include "server/run/parts_fixture.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

using Outcome = Restorer::Outcome;

engine::fake::FakeOptions restorer_options(engine::MemoryClass memory_class, bool own_cells = false) {
  return {.cells = 6'000,
          .own_cells = own_cells,
          .sequences = 3,
          .batch_tokens = 2'000,
          .vocabulary_size = 10'000,
          .memory_class = memory_class};
}

// A row takes a millisecond.
class RestorerTest : public PartsTest {
 protected:
  explicit RestorerTest(const engine::fake::FakeOptions& options = restorer_options(engine::MemoryClass::kSliceable))
      : PartsTest(options) {
    engine.memory().set_on_restore(
        [this](std::size_t rows) { clock.advance_ms(static_cast<std::int64_t>(rows) * row_ms_); });
  }
  // Only the cache has the first `tokens` of a prompt, which is longer.
  std::unique_ptr<Request> request_of(std::size_t tokens, TokenId first) {
    run(sequences, counting(tokens, first));
    sequences.clear_idle();
    Job job{.id = "test", .kind = "test", .prompt = counting(tokens + 1, first), .sampling = {}};
    auto request = make_request({.job = std::move(job), .replies = {std::make_shared<CollectingSink>()}});
    request->seq = sequences.place({});
    sequences.occupy(*request->seq, occupant(*request, true), {});
    request->restore.begin(cache.lease(request->effective.tokens), Position{} + tokens, engine.memory().shape().points);
    return request;
  }
  Restorer make_restorer(double slice_ms, ByteCount load_window = mebibytes(1)) {
    return Restorer({.load_window = load_window, .slice_ms = slice_ms}, engine.memory(), sequences, cache, clock,
                    inbox_, rates_, [this](const Request&, std::size_t) { return cells_; });
  }
  std::size_t held(const Request& request) const { return sequences[*request.seq].tokens.size(); }
  // A server that has restored before knows how long rows take.
  void know_the_rate() { rates_.note_restored(1'000 * 32, 1'000); }

  Sequences sequences = make_sequences();
  Inbox inbox_{{.queue = 10}};
  policy::RateMeter rates_{engine.memory().rows_bytes(policy::kLeastMeasuredTokens)};
  bool cells_ = true;
  std::int64_t row_ms_ = 1;
};

TEST_F(RestorerTest, WithoutOthersAllRowsComeInOneUnit) {
  Restorer restorer = make_restorer(150);
  const auto request = request_of(1'000, 1);
  RestoreTurn turn = restorer.begin_turn(false);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kDone);
  EXPECT_EQ(turn.units, 1U);
  EXPECT_EQ(held(*request), 1'000U);
}

TEST_F(RestorerTest, ATurnLastsAsLongAsASlice) {
  know_the_rate();
  Restorer restorer = make_restorer(600);
  const auto request = request_of(1'600, 1);
  for (const double expected : {600, 1'200}) {
    RestoreTurn turn = restorer.begin_turn(true);
    EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kPaused);
    EXPECT_EQ(request->phase, Request::Phase::kRestoring);
    EXPECT_TRUE(turn.over);
    EXPECT_NEAR(turn.spent_ms, 600, 2);
    EXPECT_NEAR(static_cast<double>(held(*request)), expected, 4);
  }
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kDone);
  EXPECT_EQ(held(*request), 1'600U);
  EXPECT_EQ(request->stats.ram_tokens, 1'600U) << "each row is counted once";
  EXPECT_NEAR(static_cast<double>(request->stats.restored.bytes.value()), 1'600 * 32, 200);
  const auto other = request_of(400, 2'000);
  EXPECT_EQ(restorer.go_on(*other, turn), Outcome::kPaused) << "another one gets the rest of the turn";
  EXPECT_NEAR(static_cast<double>(held(*other)), 150, 4);
  EXPECT_LE(turn.spent_ms, 602);
}

TEST_F(RestorerTest, AfterABadMomentTheTurnIsOver) {
  know_the_rate();
  Restorer restorer = make_restorer(600);
  const auto request = request_of(400, 1);
  row_ms_ = 10;
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kPaused);
  EXPECT_EQ(turn.units, 1U) << "a quarter of a turn, as was thought";
}

TEST_F(RestorerTest, WhereNoRateIsKnownAFewRowsTellIt) {
  Restorer restorer = make_restorer(600);
  const auto request = request_of(1'000, 1);
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kPaused);
  EXPECT_NEAR(turn.spent_ms, 600, 2);
}

TEST_F(RestorerTest, ASlowMemoryGetsAFewRowsInATurn) {
  Restorer restorer = make_restorer(150);
  const auto request = request_of(1'000, 1);
  row_ms_ = 3;
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kPaused);
  EXPECT_EQ(held(*request), 64U);
}

TEST_F(RestorerTest, BetweenTurnsNothingIsPut) {
  Restorer restorer = make_restorer(150);
  const auto request = request_of(1'000, 1);
  RestoreTurn none{.over = true};
  EXPECT_EQ(restorer.go_on(*request, none), Outcome::kPaused);
  EXPECT_EQ(held(*request), 0U);
  request->restore.begin(nullptr, Position{}, false);
  EXPECT_EQ(restorer.go_on(*request, none), Outcome::kDone) << "there is nothing to put";
}

TEST_F(RestorerTest, CellsOfRowsToComeArePromised) {
  know_the_rate();
  Restorer restorer = make_restorer(150);
  std::vector<std::unique_ptr<Request>> requests;
  requests.push_back(request_of(400, 1));
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*requests[0], turn), Outcome::kPaused);
  EXPECT_EQ(cells_promised(requests, sequences), 401U - held(*requests[0]));
}

TEST_F(RestorerTest, SlicesWithoutALimitLeaveTurnsOfAWindow) {
  know_the_rate();
  Restorer restorer = make_restorer(0, ByteCount{32 * 300});
  const auto request = request_of(400, 1);
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kPaused);
  EXPECT_EQ(turn.units, 1U);
  EXPECT_EQ(held(*request), 300U);
}

TEST_F(RestorerTest, SaysWhatKeepsAUnitFromBeingPut) {
  Restorer restorer = make_restorer(150);
  const auto request = request_of(100, 1);
  cells_ = false;
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kNoCells);
  cells_ = true;
  engine.set_faults({.fail_restore = 1});
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kRefused);
  EXPECT_TRUE(request->restore.gave_up());
}

class HybridRestorerTest : public RestorerTest {
 protected:
  HybridRestorerTest() : RestorerTest(options()) {}
  static engine::fake::FakeOptions options() {
    engine::fake::FakeOptions options = restorer_options(engine::MemoryClass::kHybrid);
    options.state_bytes = 64'000;  // as many as 2,000 rows
    return options;
  }
};

TEST_F(HybridRestorerTest, APointComesAfterTheRowsAndWhole) {
  know_the_rate();
  Restorer restorer = make_restorer(600);
  const auto request = request_of(300, 1);
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kPaused);
  EXPECT_EQ(held(*request), 300U);
  EXPECT_EQ(request->stats.point, CachePoint::kNone);
  turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*request, turn), Outcome::kDone) << "it has a turn of its own";
  EXPECT_EQ(request->stats.point, CachePoint::kRam);
}

class OwnCellsRestorerTest : public RestorerTest {
 protected:
  OwnCellsRestorerTest() : RestorerTest(restorer_options(engine::MemoryClass::kSliceable, /*own_cells=*/true)) {}
};

TEST_F(OwnCellsRestorerTest, RowsThatComeWholeAreATurnOfTheirOwn) {
  know_the_rate();
  Restorer restorer = make_restorer(150);
  const auto first = request_of(400, 1);
  const auto second = request_of(400, 1'000);
  RestoreTurn turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*first, turn), Outcome::kDone);
  EXPECT_EQ(restorer.go_on(*second, turn), Outcome::kPaused);
  EXPECT_EQ(held(*second), 0U);
  turn = restorer.begin_turn(true);
  EXPECT_EQ(restorer.go_on(*second, turn), Outcome::kDone);
}

}  // namespace
}  // namespace kvkeep::server
