// Sequences without a scheduler: which are idle, which leave, and that their state is captured before.

#include "server/run/sequences.h"

#include "cache/cache_stats.h"
#include "cache/catalog.h"
#include "server/run/parts_fixture.h"

namespace kvkeep::server {
namespace {

using State = Sequence::State;

class SequencesTest : public PartsTest {};

TEST_F(SequencesTest, AnEndedRequestsSequenceLiesIdleAndIsCaptured) {
  Sequences sequences = make_sequences();
  const auto tokens = counting(60);
  const SeqId seq = run(sequences, tokens);
  EXPECT_EQ(sequences[seq].state, State::kIdle);
  EXPECT_EQ(sequences[seq].tokens, tokens);
  EXPECT_EQ(known(tokens), Position{60});
  ASSERT_EQ(captured.size(), 1U);
  EXPECT_EQ(captured[0].reason, policy::CutReason::kTurn);
  EXPECT_EQ(captured[0].tokens, 60U);
}

TEST_F(SequencesTest, ASequenceThatMayNotBeSharedIsFreedAtOnce) {
  Sequences sequences = make_sequences();
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {.cached = false}, {});
  sequences.begin_capture(seq);
  decode(sequences, seq, counting(60));
  sequences.release(seq, policy::CutReason::kTurn, 10);
  EXPECT_EQ(sequences[seq].state, State::kFree);
  EXPECT_EQ(engine.memory().cells_used(), 0U);
  EXPECT_EQ(known(counting(60)), Position{});
}

TEST_F(SequencesTest, ASequenceWhoseStateWasClearedMeanwhileIsFreed) {
  Sequences sequences = make_sequences();
  const SeqId other = run(sequences, counting(60, 500));
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {.id = "test", .cached = true}, {});
  sequences.begin_capture(seq);
  decode(sequences, seq, counting(60));
  sequences.capture(seq, policy::CutReason::kContinued);
  PrefixHasher hasher(prefix_key(engine.description().fingerprint, kNoTenant));
  hasher.append(counting(60));
  ASSERT_TRUE(cache.clear({.below = hasher.current(), .with_own_beginning = true}).ok());
  sequences.release(seq, policy::CutReason::kTurn, 10);
  EXPECT_EQ(sequences[seq].state, State::kFree);
  EXPECT_EQ(sequences[other].state, State::kIdle);
  EXPECT_EQ(cache.stats().tokens, 60U) << "only those of the other";
}

// The request ended in the middle of a restore: no other one could share these rows.
TEST_F(SequencesTest, ASequenceThatWasNotRestoredWholeIsFreed) {
  Sequences sequences = make_sequences();
  const auto tokens = counting(60);
  (void)run(sequences, tokens);
  sequences.clear_idle();
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {.id = "test", .cached = true}, {});
  const auto lease = cache.lease(tokens);
  ASSERT_TRUE(sequences.restore_rows(seq, lease->pieces({Position{}, Position{40}}), TokenSpan(tokens).first(40)).ok());
  sequences.release(seq, policy::CutReason::kTurn, 0);
  EXPECT_EQ(sequences[seq].state, State::kFree);
  EXPECT_EQ(engine.memory().cells_used(), 0U);
}

TEST_F(SequencesTest, AFourthOneTakesThePlaceOfTheOneIdleLongest) {
  Sequences sequences = make_sequences();
  const SeqId first = run(sequences, counting(50, 100));
  run(sequences, counting(50, 200));
  run(sequences, counting(50, 300));
  EXPECT_FALSE(sequences.free().has_value());
  EXPECT_EQ(run(sequences, counting(50, 400)), first);
  EXPECT_EQ(sequences.idle().size(), 3U);
  EXPECT_EQ(known(counting(50, 100)), Position{50}) << "it was captured before";
}

TEST_F(SequencesTest, OnesThatAPlanNamesLeaveFirst) {
  Sequences sequences = make_sequences();
  const SeqId first = run(sequences, counting(50, 100));
  const SeqId second = run(sequences, counting(50, 200));
  policy::Plan plan;
  plan.leave = {first, second};
  EXPECT_EQ(sequences.place(plan), first);
  EXPECT_EQ(sequences.cells_free(), 1000U);
}

TEST_F(SequencesTest, AForkSharesCellsAndASourceInPlaceIsCut) {
  Sequences sequences = make_sequences();
  const auto tokens = counting(80);
  const SeqId source = run(sequences, tokens);
  policy::Plan fork;
  fork.start = policy::Plan::Start::kFork;
  fork.source = source;
  fork.from_memory = Position{50};
  const SeqId forked = *sequences.place(fork);
  EXPECT_NE(forked, source);
  EXPECT_EQ(engine.memory().length(forked), Position{50});
  EXPECT_EQ(sequences.count_cells().total, 1000U);
  EXPECT_EQ(sequences.count_cells().used, 80U);
  EXPECT_EQ(sequences.count_cells().shared, 50U);
  const std::uint64_t counted = sequences.count_cells().counted;
  clock.advance_ms(2'000);
  EXPECT_EQ(sequences.count_cells().counted, counted + 1);
  EXPECT_EQ(sequences.count_cells().counted, counted + 1) << "once a second";
  EXPECT_EQ(engine.memory().cells_used(), 80U);
  fork.start = policy::Plan::Start::kInPlace;
  EXPECT_EQ(sequences.place(fork), source);
  EXPECT_EQ(engine.memory().length(source), Position{50});
}

TEST_F(SequencesTest, ResidentsTellWhatAPromptShares) {
  Sequences sequences = make_sequences();
  const Tenant other{.bytes = {7}};
  const SeqId seq = run(sequences, counting(60));
  auto prompt = counting(40);
  prompt.push_back(1);
  const auto residents = sequences.residents(prompt, &kNoTenant);
  ASSERT_EQ(residents.size(), 1U);
  EXPECT_EQ(residents[0].seq, seq);
  EXPECT_EQ(residents[0].length, Position{60});
  EXPECT_EQ(residents[0].common, Position{40});
  EXPECT_TRUE(residents[0].idle && residents[0].captured);
  EXPECT_EQ(residents[0].cells_owned, 60U);
  EXPECT_EQ(sequences.residents(prompt, &other)[0].common, Position{}) << "of another tenant";
  EXPECT_EQ(sequences.residents(prompt, nullptr)[0].common, Position{}) << "nothing may be shared";
}

TEST_F(SequencesTest, ARestoredOneHoldsWhatThePiecesHeld) {
  Sequences sequences = make_sequences();
  const auto tokens = counting(60);
  sequences.leave(run(sequences, tokens));
  const auto lease = cache.lease(tokens);
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {.id = "test"}, {});
  ASSERT_TRUE(sequences.restore_rows(seq, lease->pieces({Position{}, Position{60}}), tokens).ok());
  EXPECT_EQ(sequences[seq].tokens, tokens);
  EXPECT_EQ(engine.memory().length(seq), Position{60});
}

// Its client left while rows were read: no state of it is captured yet, though it was to be kept.
TEST_F(SequencesTest, OneThatEndsBeforeItBeganToCaptureKeepsNothing) {
  Sequences sequences = make_sequences();
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {.id = "test"}, {});
  sequences.release(seq, policy::CutReason::kTurn, 3600);
  EXPECT_EQ(sequences[seq].state, State::kFree);
  EXPECT_FALSE(sequences[seq].shared_with(kNoTenant));
}

TEST_F(SequencesTest, IdleOnesLeaveWhenTheirTimeIsOver) {
  Sequences sequences = make_sequences({.idle_to_live_ns = 1'000'000'000});
  run(sequences, counting(50, 100));
  clock.advance_ms(600);
  const SeqId later = run(sequences, counting(50, 200));
  clock.advance_ms(600);
  sequences.expire_idle();
  ASSERT_EQ(sequences.idle().size(), 1U);
  EXPECT_EQ(sequences.idle()[0].seq, later);
  sequences.clear_idle();
  EXPECT_TRUE(sequences.idle().empty());
}

TEST_F(SequencesTest, DecodedRowsAreCapturedNowAndThen) {
  Sequences sequences = make_sequences({.capture_every_tokens = 40});
  const auto tokens = counting(200);
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {.id = "test"}, {});
  sequences.begin_capture(seq);
  std::vector<std::size_t> captured_at;
  for (std::size_t length = 1; length <= tokens.size(); ++length) {
    const std::size_t before = captured.size();
    decode(sequences, seq, TokenSpan(tokens).first(length));
    sequences.capture_decoded(seq);
    if (captured.size() > before) captured_at.push_back(length);
  }
  EXPECT_EQ(captured_at, (std::vector<std::size_t>{40, 80, 120, 160, 200}));
}

class HybridSequencesTest : public PartsTest {
 protected:
  HybridSequencesTest() : PartsTest({.cells = 1000, .sequences = 3, .memory_class = engine::MemoryClass::kHybrid}) {}
};

TEST_F(HybridSequencesTest, TwoPointsStayOfAReplyWhoseClientLeft) {
  for (const bool left : {true, false}) {
    Sequences sequences = make_sequences({.capture_every_tokens = 40, .cuts = {.min_tokens = 32}});
    const auto tokens = counting(230, left ? 100 : 400);
    const SeqId seq = *sequences.place({});
    sequences.occupy(seq, {.id = "test"}, {});
    sequences.begin_capture(seq);
    for (std::size_t length = 1; length <= tokens.size(); ++length) {
      decode(sequences, seq, TokenSpan(tokens).first(length));
      sequences.capture_decoded(seq);
    }
    sequences.end_streamed(seq, left);
    EXPECT_EQ(cache.lease(tokens)->restorable().size(), left ? 2U : 0U);
    sequences.release(seq, policy::CutReason::kTurn, 0);
    EXPECT_EQ(sequences[seq].point_at, 230U);
    EXPECT_EQ(cache.lease(tokens)->restorable().size(), left ? 3U : 1U);
    sequences.clear_idle();
  }
}

}  // namespace
}  // namespace kvkeep::server
