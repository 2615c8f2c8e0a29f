// The layout of cells changes while requests run: nothing is computed twice, no text is another, and what does not fit
// brings the pool back.

#include "server/run/cell_layout.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kOwn = 1'000;  // cells of each of four requests

// The model's calls stop here until the test lets them pass.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++came_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return came_ <= allowed_; });
  }
  // Precondition: no call is being made.
  void close() {
    const std::scoped_lock lock(mutex_);
    allowed_ = came_;
  }
  // Lets so many calls pass, and returns when the next one stops here.
  void let(std::size_t calls) {
    std::unique_lock lock(mutex_);
    allowed_ += calls;
    changed_.notify_all();
    changed_.wait(lock, [this] { return came_ > allowed_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    allowed_ = SIZE_MAX;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t came_ = 0;
  std::size_t allowed_ = SIZE_MAX;
};

// Returns true if the call prefills this prompt from its beginning.
bool begins(std::span<const engine::BatchToken> batch, const std::vector<TokenId>& prompt) {
  return batch.size() > 1 && batch[0].at == Position{} && batch[0].token == prompt[0] && batch[1].token == prompt[1];
}

class CellLayoutTest : public testing::Test {
 protected:
  CellLayoutTest() { clock_.step_ns = 10'000'000; }  // so that few steps cost as much as a change
  static WorldOptions options(os::Clock& clock) {
    return {
        .fake = {.cells = 4 * kOwn, .own_sequences = 4, .sequences = 8}, .scheduler = {.parallel = 4}, .clock = &clock};
  }
  // The replies to these prompts, asked for at the same time.
  std::vector<Reply> ask_at_once(World& world, const std::vector<std::vector<TokenId>>& prompts, std::size_t tokens) {
    auto replies = world.submit_at_once(prompts, static_cast<std::int64_t>(tokens));
    std::vector<Reply> all;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      all.push_back(replies[i].get());
      EXPECT_EQ(all.back().tokens, world.expected(prompts[i], tokens)) << i;
      computed_ += prompts[i].size() + tokens - 1;
    }
    return all;
  }
  std::vector<std::vector<TokenId>> prompts(std::size_t count, std::size_t tokens,
                                            const std::vector<TokenId>& prefix = {}) {
    std::vector<std::vector<TokenId>> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(prefix + random_tokens(random_, tokens));
    return all;
  }
  // Four replies next to each other, long enough for a change.
  void make_own(World& world) {
    (void)ask_at_once(world, prompts(4, 300), 300);
    ASSERT_TRUE(world.scheduler.stats().own_cells);
    ASSERT_EQ(world.scheduler.stats().layout_changes, 1U);
  }

  // A short reply tells how long steps take; then time stands still.
  void start_timed(World& world, std::int64_t step_ns = 10'000'000) {
    clock_.step_ns = step_ns;
    world.start();
    const auto prompt = random_tokens(random_, 10);
    EXPECT_EQ(world.ask(prompt, 3).tokens, world.expected(prompt, 3));
    computed_ += prompt.size() + 2;
    clock_.step_ns = 1;
  }

  // Each call waits at the gate. Remembers in which layout the short prompt is begun.
  void start_gated(World& world, Gate& gate) {
    world.engine.set_on_decode([this, &world, &gate](std::span<const engine::BatchToken> batch) {
      gate.pass();
      if (begins(batch, short_one_)) began_in_own_cells_ = world.engine.memory().own_cells();
    });
    world.start();
    make_own(world);
    clock_.step_ns = 1;  // no other reason to change
    gate.close();
  }

  SteppingClock clock_;
  std::mt19937 random_{seed()};
  std::size_t computed_ = 0;  // what requests have to compute
  const std::vector<TokenId> kept_out_ = random_tokens(random_, 100);
  const std::vector<TokenId> long_one_ = random_tokens(random_, 2'000);
  const std::vector<TokenId> short_one_ = random_tokens(random_, 100);
  std::optional<bool> began_in_own_cells_;
};

TEST_F(CellLayoutTest, UnrelatedRepliesGetCellsOfTheirOwnAndLoseNothing) {
  World world(options(clock_));
  world.start();
  EXPECT_FALSE(world.scheduler.stats().own_cells);
  make_own(world);
  EXPECT_EQ(world.scheduler.stats().set_aside, 4U) << "all four were interrupted";
  EXPECT_EQ(world.engine.tokens_decoded(), computed_) << "and nothing was computed twice";
  (void)ask_at_once(world, prompts(4, 300), 300);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 1U) << "it stays so";
  EXPECT_EQ(world.engine.tokens_decoded(), computed_);
}

TEST_F(CellLayoutTest, OneReplyOrRepliesThatShareKeepThePool) {
  World world(options(clock_));
  world.start();
  (void)ask_at_once(world, prompts(1, 300), 600);
  (void)ask_at_once(world, prompts(4, 10, random_tokens(random_, 400)), 50);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
}

// Replies of a few tokens: it is the prompts that pass over each other's cells.
TEST_F(CellLayoutTest, LongPromptsNextToEachOtherGetCellsOfTheirOwn) {
  World world(options(clock_));
  world.start();
  for (int i = 0; i < 4 && !world.scheduler.stats().own_cells; ++i) (void)ask_at_once(world, prompts(4, 800), 3);
  EXPECT_TRUE(world.scheduler.stats().own_cells);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 1U);
  EXPECT_EQ(world.engine.tokens_decoded(), computed_) << "nothing was computed twice";
}

// ---- requests that come ----

// Prompts and replies of requests that come when time stands still, so that they lose nothing: what a change is made
// for then can only be what they are expected to lose.
constexpr std::size_t kShortPrompt = 30;
constexpr std::size_t kLongReply = policy::kForeseen;

TEST_F(CellLayoutTest, UnrelatedRequestsThatComeTogetherGetCellsOfTheirOwnAtOnce) {
  World world(options(clock_));
  start_timed(world);
  (void)ask_at_once(world, prompts(4, kShortPrompt), kLongReply);
  EXPECT_TRUE(world.scheduler.stats().own_cells);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 1U);
  EXPECT_EQ(world.scheduler.stats().set_aside, 0U) << "before any of them ran";
  EXPECT_EQ(world.engine.tokens_decoded(), computed_);
}

TEST_F(CellLayoutTest, RequestsThatComeOneByOneOrShareAPrefixKeepThePool) {
  World world(options(clock_));
  start_timed(world);
  for (int i = 0; i < 4; ++i) (void)ask_at_once(world, prompts(1, kShortPrompt), kLongReply);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
  World agents(options(clock_));
  start_timed(agents, 500'000);  // the prompts lose little as well
  (void)ask_at_once(agents, prompts(4, 10, random_tokens(random_, 400)), kLongReply);
  EXPECT_EQ(agents.scheduler.stats().layout_changes, 0U);
}

// Each of four replies to one prompt shares all of it: without them two unrelated prompts would seem to come.
TEST_F(CellLayoutTest, FurtherRepliesToAPromptShareIt) {
  World world(options(clock_));
  start_timed(world);
  std::vector<std::future<Reply>> replies;
  std::vector<Submission> submissions;
  for (const auto& prompt : prompts(2, kShortPrompt)) {
    Submission& one = submissions.emplace_back();
    one.job.prompt = prompt;
    one.job.sampling = World::greedy();
    one.job.max_tokens = kLongReply;
    for (int i = 0; i < 2; ++i) {
      const auto sink = std::make_shared<CollectingSink>();
      replies.push_back(sink->future());
      one.replies.push_back(sink);
    }
  }
  ASSERT_TRUE(world.scheduler.submit(std::move(submissions)).ok());
  for (auto& reply : replies) EXPECT_EQ(reply.get().finish, Finish::kLength);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
}

TEST_F(CellLayoutTest, AnIdleConversationWithoutRoomThereKeepsThePool) {
  World world(options(clock_));
  start_timed(world, 500'000);  // the prompts lose little as well
  (void)ask_at_once(world, prompts(1, kOwn + 100), 1);
  (void)ask_at_once(world, prompts(4, kShortPrompt), kLongReply);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
}

TEST_F(CellLayoutTest, OnAGpuRequestsThatComeWaitForALoss) {
  WorldOptions gpu = options(clock_);
  gpu.fake.uses_gpu = true;
  World world(gpu);
  start_timed(world);
  (void)ask_at_once(world, prompts(4, kShortPrompt), kLongReply);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
  clock_.step_ns = 10'000'000;
  (void)ask_at_once(world, prompts(4, 300), 300);
  EXPECT_TRUE(world.scheduler.stats().own_cells);
}

TEST_F(CellLayoutTest, AnIdleConversationComesBackFromRam) {
  World world(options(clock_));
  world.start();
  const auto talk = random_tokens(random_, 200);
  const Reply first = world.ask(talk, 10);
  make_own(world);
  const auto next = talk + first.tokens + random_tokens(random_, 5);
  const Reply second = world.ask(next, 10);
  EXPECT_EQ(second.tokens, world.expected(next, 10));
  EXPECT_EQ(second.stats.cached_tokens, talk.size() + first.tokens.size() - 1);
  EXPECT_EQ(second.stats.ram_tokens, second.stats.cached_tokens);
}

TEST_F(CellLayoutTest, APromptThatIsTooLongBringsThePoolBack) {
  World world(options(clock_));
  world.start();
  make_own(world);
  clock_.step_ns = 1;  // no other reason to change
  std::vector<std::future<Reply>> others;
  const auto short_ones = prompts(3, 100);
  for (const auto& prompt : short_ones) others.push_back(world.submit(prompt, 200));
  const auto long_one = random_tokens(random_, 2'500);
  const Reply reply = world.ask(long_one, 20);
  EXPECT_EQ(reply.finish, Finish::kLength);
  EXPECT_EQ(reply.tokens, world.expected(long_one, 20));
  EXPECT_EQ(world.scheduler.stats().layout_changes, 2U);
  EXPECT_FALSE(world.scheduler.stats().own_cells);
  computed_ += long_one.size() + 19;
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(others[i].get().tokens, world.expected(short_ones[i], 200)) << i;
    computed_ += short_ones[i].size() + 199;
  }
  EXPECT_EQ(world.engine.tokens_decoded(), computed_);
}

TEST_F(CellLayoutTest, AReplyThatGrowsBeyondItsCellsBringsThePoolBack) {
  World world(options(clock_));
  world.start();
  make_own(world);
  clock_.step_ns = 1;  // no other reason to change
  (void)ask_at_once(world, prompts(2, 900), 700);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 2U);
  EXPECT_EQ(world.engine.tokens_decoded(), computed_);
}

// Each has cells of its own, so that no other can make room for it.
TEST_F(CellLayoutTest, AReplyThatGrowsBeyondItsCellsWaitsForWhatIsNotKept) {
  Gate gate;
  World world(options(clock_));
  world.engine.set_on_decode([&](std::span<const engine::BatchToken>) { gate.pass(); });
  world.start();
  make_own(world);
  clock_.step_ns = 1;
  const auto grows = random_tokens(random_, kOwn - 10);
  const auto kept_out = random_tokens(random_, 100);
  gate.close();
  auto growing = world.submit(grows, 60);
  auto unkept = world.submit(kept_out, 300, /*cache_prompt=*/false);
  gate.open();
  EXPECT_EQ(growing.get().tokens, world.expected(grows, 60));
  const Reply reply = unkept.get();
  EXPECT_EQ(reply.tokens, world.expected(kept_out, 300));
  EXPECT_EQ(reply.stats.prefilled_tokens, kept_out.size());
  EXPECT_EQ(world.scheduler.stats().layout_changes, 2U);
  EXPECT_EQ(world.engine.tokens_decoded(), computed_ + grows.size() + 59 + kept_out.size() + 299);
}

// Four that may become too long decode in the pool until they end.
TEST_F(CellLayoutTest, RepliesWithoutRoomInCellsOfTheirOwnKeepThePool) {
  World world(options(clock_));
  world.start();
  (void)ask_at_once(world, prompts(4, 890), 300);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
}

TEST_F(CellLayoutTest, SharedPrefixesBringThePoolBack) {
  World world(options(clock_));
  world.start();
  make_own(world);
  const auto prefix = random_tokens(random_, 600);
  (void)ask_at_once(world, prompts(4, 5, prefix), 60);
  for (int i = 0; i < 10 && world.scheduler.stats().own_cells; ++i) {
    (void)ask_at_once(world, prompts(4, 5, prefix), 60);
  }
  EXPECT_FALSE(world.scheduler.stats().own_cells);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 2U);
}

// A request whose state is not kept is not interrupted. A long one waits for it, and a short one, which would be served
// first, waits as well: it must not run when the other has ended.
TEST_F(CellLayoutTest, NothingStartsWhileALongPromptWaitsForThePool) {
  Gate gate;
  World world(options(clock_));
  start_gated(world, gate);
  auto unkept = world.submit(kept_out_, 300, /*cache_prompt=*/false);
  gate.let(2);
  auto too_long = world.submit(long_one_, 5);
  gate.let(2);  // the long one has its place
  auto later = world.submit(short_one_, 60);
  gate.open();
  EXPECT_EQ(too_long.get().tokens, world.expected(long_one_, 5));
  EXPECT_EQ(later.get().tokens, world.expected(short_one_, 60));
  const Reply reply = unkept.get();
  EXPECT_EQ(reply.tokens, world.expected(kept_out_, 300));
  EXPECT_EQ(reply.stats.prefilled_tokens, kept_out_.size()) << "it was not interrupted";
  EXPECT_EQ(world.scheduler.stats().layout_changes, 2U);
  world.stop();
  EXPECT_EQ(began_in_own_cells_, false) << "it waited with the long one";
}

TEST_F(CellLayoutTest, AClientThatLeavesWhileItWaitsForThePoolHoldsNobody) {
  Gate gate;
  World world(options(clock_));
  start_gated(world, gate);
  auto unkept = world.submit(kept_out_, 300, /*cache_prompt=*/false);
  gate.let(2);
  const auto leaving = std::make_shared<CollectingSink>();
  auto too_long = leaving->future();
  Job job;
  job.prompt = long_one_;
  job.sampling = World::greedy();
  ASSERT_TRUE(world.scheduler.submit(std::move(job), leaving).ok());
  gate.let(2);
  auto later = world.submit(short_one_, 5);
  gate.let(2);
  EXPECT_FALSE(began_in_own_cells_) << "the long one holds it";
  leaving->leave();
  gate.open();
  EXPECT_EQ(too_long.get().finish, Finish::kGone);
  ASSERT_EQ(later.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(later.get().tokens, world.expected(short_one_, 5));
  EXPECT_EQ(unkept.get().tokens, world.expected(kept_out_, 300));
  EXPECT_EQ(world.scheduler.stats().layout_changes, 1U);
  world.stop();
  EXPECT_EQ(began_in_own_cells_, true);
}

// With cells of their own a long prompt may come at any time, and all that lies there has to leave.
TEST_F(CellLayoutTest, WhereRamHasNoRoomForAllCellsThePoolStays) {
  WorldOptions small = options(clock_);
  small.ram = ByteCount{4 * kOwn * small.fake.row_bytes * 3 / 2};  // half of it is for rows that leave
  World world(small);
  world.start();
  (void)ask_at_once(world, prompts(4, 300), 300);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
  EXPECT_EQ(world.scheduler.stats().set_aside, 0U);
}

TEST_F(CellLayoutTest, AMemoryThatCannotBeMadeAnewStaysAsItIs) {
  World world(options(clock_));
  world.engine.set_faults({.fail_lay_out = 1});
  world.start();
  (void)ask_at_once(world, prompts(4, 300), 400);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
  EXPECT_EQ(world.scheduler.stats().set_aside, 4U) << "it was tried once";
  EXPECT_EQ(world.engine.tokens_decoded(), computed_);
}

TEST_F(CellLayoutTest, APromptThatIsTooLongFailsWhereThePoolCannotComeBack) {
  World world(options(clock_));
  world.start();
  make_own(world);
  clock_.step_ns = 1;
  world.engine.set_faults({.fail_lay_out = 1});
  auto reply = world.submit(long_one_, 20);
  ASSERT_EQ(reply.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  const Reply failed = reply.get();
  EXPECT_EQ(failed.finish, Finish::kError);
  ASSERT_TRUE(failed.error.has_value());
  EXPECT_EQ(failed.error->kind, ErrorKind::kNoSpace);
  EXPECT_TRUE(world.scheduler.stats().own_cells);
  EXPECT_EQ(world.ask(short_one_, 5).tokens, world.expected(short_one_, 5)) << "others are served";
}

TEST_F(CellLayoutTest, AGivenLayoutStays) {
  WorldOptions given = options(clock_);
  given.fake.own_sequences = 0;
  World world(given);
  world.start();
  (void)ask_at_once(world, prompts(4, 300), 300);
  EXPECT_EQ(world.scheduler.stats().layout_changes, 0U);
}

}  // namespace
}  // namespace kvkeep::server
