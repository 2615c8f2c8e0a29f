// Replies that are longer than the context: which tokens leave, that nothing approximate is captured or shared, and
// that everything goes on.

#include "server/run/context_shift.h"

#include "server/run/parts_fixture.h"
#include "server/run/request.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

TokenRange shift_range(std::uint32_t begin, std::uint32_t end) { return {Position{begin}, Position{end}}; }

// ---- which tokens leave: the figures are those of llama-server 0.7.0 ----

TEST(ContextShift, TokensLeaveAsInLlamaServer) {
  struct Case {
    ShiftTerms terms;
    TokenRange dropped;
  };
  const std::vector<Case> cases = {
      {{.context = 256, .held = 255}, shift_range(0, 127)},
      {{.context = 256, .held = 255, .keep = 55}, shift_range(55, 155)},
      {{.context = 256, .held = 255, .keep = 57}, shift_range(57, 156)},
      {{.context = 256, .held = 255, .keep = 5, .discard = 10}, shift_range(5, 15)},
      {{.context = 256, .held = 255, .keep = 5, .discard = 1000}, shift_range(5, 254)},
      {{.context = 256, .held = 255, .keep = 1000}, shift_range(252, 253)},
      {{.context = 8, .held = 7, .keep = 7}, shift_range(4, 5)},
  };
  for (const auto& [terms, dropped] : cases) {
    EXPECT_EQ(dropped_tokens(terms), dropped) << "keep " << terms.keep << " discard " << terms.discard;
  }
}

TEST(ContextShift, RangesMoveWithTheirTokens) {
  const Position to_come{UINT32_MAX};
  const std::vector<TokenRange> ranges = {
      shift_range(1, 4), shift_range(8, 12), shift_range(13, 15), {Position{30}, to_come}};
  const std::vector<TokenRange> left = {shift_range(1, 4), shift_range(8, 10), {Position{20}, to_come}};
  EXPECT_EQ(ranges_without(ranges, shift_range(10, 20)), left);
  EXPECT_EQ(ranges_without({shift_range(2, 30)}, shift_range(10, 20)), std::vector{shift_range(2, 20)});
  EXPECT_EQ(ranges_without({{Position{15}, to_come}}, shift_range(10, 20)),
            (std::vector<TokenRange>{{Position{10}, to_come}}));
}

// ---- sequences ----

class ShiftedSequencesTest : public PartsTest {
 protected:
  // Returns a busy sequence that shares the 60 tokens of `source`.
  static SeqId forked(Sequences& sequences, SeqId source) {
    const SeqId seq = *sequences.place({.start = policy::Plan::Start::kFork,
                                        .source = source,
                                        .from_memory = Position{60},
                                        .restored_to = Position{60},
                                        .leave = {}});
    sequences.occupy(seq, {}, counting(60));
    sequences.begin_capture(seq);
    return seq;
  }
};

TEST_F(ShiftedSequencesTest, AShiftedOneWasCapturedBeforeAndNeverIsAgain) {
  Sequences sequences = make_sequences();
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {}, {});
  sequences.begin_capture(seq);
  decode(sequences, seq, counting(60));
  ASSERT_TRUE(sequences.shift(seq, shift_range(10, 30)).ok());
  EXPECT_EQ(known(counting(60)), Position{60});
  auto left = counting(60);
  left.erase(left.begin() + 10, left.begin() + 30);
  EXPECT_EQ(sequences[seq].tokens, left);
  EXPECT_FALSE(sequences[seq].shared_with(kNoTenant));
  for (TokenId id = 900; id < 930; ++id) left.push_back(id);  // beyond what was captured
  decode(sequences, seq, left);
  sequences.release(seq, policy::CutReason::kTurn, 0);
  EXPECT_EQ(sequences[seq].state, Sequence::State::kFree);
  EXPECT_EQ(known(left), Position{10});
}

TEST_F(ShiftedSequencesTest, IdleSharersLeaveAndOthersStay) {
  Sequences sequences = make_sequences();
  const SeqId sharer = run(sequences, counting(60));
  const SeqId other = run(sequences, counting(40, 500));
  const SeqId seq = forked(sequences, sharer);
  ASSERT_TRUE(sequences.shift(seq, shift_range(10, 30)).ok());
  EXPECT_EQ(sequences[sharer].state, Sequence::State::kFree);
  EXPECT_EQ(sequences[other].state, Sequence::State::kIdle);
  EXPECT_EQ(known(counting(60)), Position{60});
  EXPECT_EQ(engine.memory().cells_used(), 80U);
}

TEST_F(ShiftedSequencesTest, RowsThatARequestSharesDoNotMove) {
  Sequences sequences = make_sequences();
  const SeqId busy = *sequences.place({});
  sequences.occupy(busy, {}, {});
  sequences.begin_capture(busy);
  decode(sequences, busy, counting(60));
  const SeqId seq = forked(sequences, busy);
  EXPECT_EQ(sequences.shift(seq, shift_range(10, 30)).error().kind, ErrorKind::kBusy);
  EXPECT_EQ(sequences[seq].tokens, counting(60));
  EXPECT_EQ(engine.counters().shifts, 0U);
  decode(sequences, seq, counting(90));
  EXPECT_TRUE(sequences.shift(seq, shift_range(50, 60)).ok()) << "only rows of its own move";
}

// ---- the scheduler ----

constexpr std::uint32_t kShiftCells = 200;
const SchedulerOptions kShifting{.parallel = 2, .shift_context = true};

// Returns the reply of a model whose rows move whenever 199 tokens are in its memory.
std::vector<TokenId> text_with_shifts(const std::vector<TokenId>& prompt, std::size_t count, std::size_t keep = 0) {
  FakeEngine engine({.cells = kShiftCells, .sequences = 1});
  const SeqId seq{0};
  auto sampler = engine.make_sampler(World::greedy());
  std::vector<TokenId> tokens = prompt;
  std::vector<TokenId> text;
  for (const TokenId token : tokens) (*sampler)->accept(token);
  while (text.size() < count) {
    std::vector<engine::BatchToken> batch;
    for (std::size_t at = engine.memory().length(seq).value(); at < tokens.size(); ++at) {
      batch.push_back({seq, tokens[at], Position{} + at, at + 1 == tokens.size()});
    }
    EXPECT_EQ(engine.decode(batch), engine::DecodeStatus::kOk);
    text.push_back(engine.sample(**sampler, batch.size() - 1));
    tokens.push_back(text.back());
    if (tokens.size() < kShiftCells) continue;
    const TokenRange dropped = dropped_tokens({.context = kShiftCells, .held = kShiftCells - 1, .keep = keep});
    EXPECT_TRUE(engine.memory().shift(seq, dropped).ok());
    tokens.erase(tokens.begin() + dropped.begin.value(), tokens.begin() + dropped.end.value());
  }
  return text;
}

TEST(SchedulerShift, AReplyGoesOnBeyondTheContext) {
  World world({.cells = kShiftCells, .sequences = 3}, mebibytes(64), kShifting);
  world.start();
  std::mt19937 random(50);
  const auto prompt = random_tokens(random, 60);
  const Reply reply = world.ask(prompt, 500);
  EXPECT_EQ(reply.finish, Finish::kLength);
  EXPECT_EQ(reply.tokens, text_with_shifts(prompt, 500));
  EXPECT_TRUE(reply.stats.truncated);
  EXPECT_EQ(reply.stats.predicted_tokens, 500U);
  EXPECT_GT(world.engine.counters().shifts, 2U);
}

TEST(SchedulerShift, WithoutTheOptionAFullContextEndsTheReply) {
  World world({.cells = kShiftCells, .sequences = 3});
  world.start();
  std::mt19937 random(50);
  const auto prompt = random_tokens(random, 60);
  const Reply reply = world.ask(prompt, 500);
  EXPECT_EQ(reply.finish, Finish::kLength);
  EXPECT_EQ(reply.tokens, world.expected(prompt, 141));
  EXPECT_FALSE(reply.stats.truncated);
  EXPECT_EQ(world.engine.counters().shifts, 0U);
}

TEST(SchedulerShift, TheCacheHasTheConversationAsItWasBeforeAndNothingOfAfter) {
  World world({.cells = kShiftCells, .sequences = 3}, mebibytes(64), kShifting);
  world.start();
  std::mt19937 random(51);
  const auto prompt = random_tokens(random, 60);
  const Reply reply = world.ask(prompt, 300);
  const auto whole = prompt + reply.tokens;
  const std::vector<TokenId> before(whole.begin(), whole.begin() + kShiftCells - 1);
  const std::vector<TokenId> after(before.begin() + 99, before.end());
  const Reply next = world.ask(before, 1);
  EXPECT_EQ(next.stats.ram_tokens, kShiftCells - 2U) << "all of it, but what must be decoded";
  EXPECT_EQ(next.tokens, world.expected(before, 1));
  const Reply moved = world.ask(after, 30);
  EXPECT_EQ(moved.stats.cached_tokens, 0U);
  EXPECT_EQ(moved.tokens, world.expected(after, 30));
}

TEST(SchedulerShift, ARefusedShiftComputesTheRowsAnew) {
  World world({.cells = kShiftCells, .sequences = 3}, mebibytes(64), kShifting);
  world.engine.set_faults({.fail_shift = 1});
  world.start();
  std::mt19937 random(52);
  const auto prompt = random_tokens(random, 60);
  const Reply reply = world.ask(prompt, 200);
  ASSERT_EQ(reply.tokens.size(), 200U);
  const auto whole = prompt + reply.tokens;
  const std::vector<TokenId> left(whole.begin() + 99, whole.begin() + kShiftCells);
  const std::vector<TokenId> rest(whole.begin() + kShiftCells, whole.end());
  EXPECT_EQ(rest, world.expected(left, rest.size())) << "exactly what the model says after these tokens";
  EXPECT_TRUE(reply.stats.truncated);
}

TEST(SchedulerShift, TwoRepliesToOnePromptGoOn) {
  World world({.cells = kShiftCells, .sequences = 4}, mebibytes(64), kShifting);
  std::mt19937 random(53);
  Job job{.id = "two", .kind = "completion", .prompt = random_tokens(random, 150), .sampling = World::greedy()};
  job.max_tokens = 200;
  std::vector<std::shared_ptr<JobSink>> sinks;
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 2; ++i) {
    auto sink = std::make_shared<CollectingSink>();
    replies.push_back(sink->future());
    sinks.push_back(std::move(sink));
  }
  const auto prompt = job.prompt;
  ASSERT_TRUE(world.scheduler.submit({{std::move(job), std::move(sinks)}}).ok());
  world.start();
  for (auto& made : replies) {
    const Reply reply = made.get();
    EXPECT_EQ(reply.finish, Finish::kLength);
    EXPECT_EQ(reply.tokens.size(), 200U);
    const std::vector<TokenId> first(reply.tokens.begin(), reply.tokens.begin() + 50);
    EXPECT_EQ(first, world.expected(prompt, 50));
  }
}

TEST(SchedulerShift, ARequestThatIsSetAsideAfterAShiftGoesOn) {
  World world({.cells = kShiftCells, .sequences = 4}, mebibytes(64), kShifting);
  world.engine.set_faults({.fail_decode = 200});  // the context shifts after 141 sampled tokens, and after 100 more
  world.start();
  std::mt19937 random(54);
  const auto prompt = random_tokens(random, 60);
  const Reply reply = world.ask(prompt, 400);
  EXPECT_EQ(reply.finish, Finish::kLength);
  EXPECT_EQ(reply.tokens.size(), 400U);
  EXPECT_EQ(world.scheduler.stats().set_aside, 1U);
  const Reply again = world.ask(prompt, 100);
  EXPECT_EQ(again.tokens, world.expected(prompt, 100)) << "nothing wrong was captured";
}

TEST(SchedulerShift, AnEndlessReplyEndsWhenItsClientLeaves) {
  World world({.cells = kShiftCells, .sequences = 3}, mebibytes(64), kShifting);
  world.start();
  std::mt19937 random(55);
  const Reply reply = world.submit(random_tokens(random, 60), std::nullopt, true, 700).get();
  EXPECT_EQ(reply.finish, Finish::kGone);
  EXPECT_GE(reply.tokens.size(), 700U);
}

}  // namespace
}  // namespace kvkeep::server
