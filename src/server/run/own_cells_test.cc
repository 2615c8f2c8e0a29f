// The scheduler's parts over a memory in which each sequence has cells of its own: nobody makes room for another, state
// is captured further apart, and what RAM has is not copied from a sequence.

#include "server/run/lookup.h"
#include "server/run/parts_fixture.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

FakeOptions own_cells(std::uint32_t each, std::uint32_t sequences) {
  return {.cells = each * sequences, .own_cells = true, .sequences = sequences};
}

class OwnCellsTest : public PartsTest {
 protected:
  OwnCellsTest() : PartsTest(own_cells(400, 3)) {}
  Sequences sequences = make_sequences({.capture_every_tokens = 16});
  PromptLookup lookup{{.context_tokens = 400, .least_point_tokens = 32}, engine.memory(), cache, sequences};
};

TEST_F(OwnCellsTest, APlanCountsOnASequencesOwnCells) {
  const auto idle = counting(390);
  (void)run(sequences, idle);
  Job job;
  job.prompt = counting(395, 500);
  const FoundPath found = lookup.find(job, job.prompt, {.cells_promised = 300});
  EXPECT_EQ(found.view.cells_total, 400U);
  EXPECT_EQ(found.view.cells_free, 400U);
  const policy::Plan plan = policy::make_plan(found.view);
  EXPECT_EQ(plan.start, policy::Plan::Start::kFresh);
  EXPECT_TRUE(plan.leave.empty()) << "an idle sequence is in nobody's way, however long it is";
}

TEST_F(OwnCellsTest, RowsInRamAreNotCopiedFromASequence) {
  const auto tokens = counting(60);
  const SeqId seq = run(sequences, tokens);
  auto branch = counting(40);
  branch.push_back(7);
  Job job;
  job.prompt = branch;
  const policy::Plan plan = policy::make_plan(lookup.find(job, branch, {}).view);
  EXPECT_EQ(plan.start, policy::Plan::Start::kFresh);
  EXPECT_EQ(plan.from_memory, Position{});
  EXPECT_EQ(plan.restored_to, Position{40});
  auto longer = tokens;
  longer.push_back(7);
  job.prompt = longer;
  const policy::Plan in_place = policy::make_plan(lookup.find(job, longer, {}).view);
  EXPECT_EQ(in_place.start, policy::Plan::Start::kInPlace) << "it goes on where the sequence ends";
  EXPECT_EQ(in_place.source, seq);
}

TEST_F(OwnCellsTest, ALongReplyIsCapturedFurtherApart) {
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {.id = "test"}, {});
  sequences.begin_capture(seq);
  const auto tokens = counting(400);
  std::size_t copied = 0;
  for (std::size_t i = 1; i <= tokens.size(); ++i) {
    decode(sequences, seq, TokenSpan(tokens).first(i));
    const std::size_t before = captured.size();
    sequences.capture_decoded(seq);
    if (captured.size() > before) copied += i;
  }
  EXPECT_GE(captured.size(), 10U);
  EXPECT_LE(copied, 16 * tokens.size());
  EXPECT_LT(captured.size(), tokens.size() / 16) << "as often as where a capture copies only what is new";
}

// Eight requests of one prefix, in as many sequences as requests, with prompts and replies up to the last cell.
TEST(OwnCells, RequestsAreAnsweredAndAPrefixIsComputedOnce) {
  WorldOptions options{.fake = own_cells(1000, 4), .scheduler = {.parallel = 4, .slice_ms = 1e-6}};
  World world(options);
  std::mt19937 random(seed());
  const auto shared = random_tokens(random, 700);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 8; ++i) prompts.push_back(shared + random_tokens(random, 20 + random() % 200));
  for (const auto& prompt : prompts) replies.push_back(world.submit(prompt, 1000));
  world.start();
  std::size_t prefilled = 0;
  std::size_t fresh = shared.size();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Reply reply = replies[i].get();
    const std::size_t room = 1000 - prompts[i].size() + 1;  // the last token needs no cell
    EXPECT_EQ(reply.tokens, world.expected(prompts[i], room)) << i;
    prefilled += reply.stats.prefilled_tokens;
    fresh += prompts[i].size() - shared.size();
  }
  EXPECT_EQ(prefilled, fresh);
  EXPECT_EQ(world.scheduler.stats().set_aside, 0U) << "nobody gives cells to another";
}

TEST(OwnCells, APrefillIsCapturedFurtherApart) {
  WorldOptions options{.fake = own_cells(20'000, 1), .scheduler = {.parallel = 1, .capture_prefilled_tokens = 64}};
  World world(options);
  std::mt19937 random(seed());
  const auto prompt = random_tokens(random, 15'000);
  world.start();
  EXPECT_EQ(world.ask(prompt, 2).tokens, world.expected(prompt, 2));
  world.stop();
  EXPECT_LE(world.engine.counters().save_calls, 8U);
  EXPECT_GE(world.engine.counters().save_calls, 4U) << "a client that leaves loses no more than half";
}

TEST(PinnedSlices, EndAtMultiplesWhereverThePrefillBegins) {
  WorldOptions options{.scheduler = {.parallel = 2, .slice_ms = 1e-6, .pinned_slice_tokens = 100}};
  World world(options);
  std::mt19937 random(seed());
  const auto prompt = random_tokens(random, 930);
  std::vector<std::size_t> ends;
  world.engine.set_on_decode([&](std::span<const engine::BatchToken> batch) {
    if (batch.size() > 1) ends.push_back(batch.back().at.value() + 1);
  });
  world.start();
  (void)world.ask({prompt.begin(), prompt.begin() + 450}, 1);
  const auto other = world.submit(random_tokens(random, 5), 200).get();  // others that run change nothing
  EXPECT_EQ(world.ask(prompt, 3).tokens, world.expected(prompt, 3));
  world.stop();
  std::size_t at_multiples = 0;
  for (const std::size_t end : ends) at_multiples += end % 100 == 0 ? 1 : 0;
  EXPECT_EQ(at_multiples, 4U + 5U) << "of 450 tokens four, then 500 to 900";
  EXPECT_LE(ends.size(), at_multiples + 3) << "the ends of three prompts";
}

}  // namespace
}  // namespace kvkeep::server
