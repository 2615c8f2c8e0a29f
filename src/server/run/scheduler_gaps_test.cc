// Other work next to a stream: conversations come back from RAM, prompts are prefilled and captured, texts are
// embedded. However much it is, the stream's tokens keep coming, and the replies are right.

#include "engine/fake/fake_embedder.h"
#include "server/run/embeddings.h"
#include "server/run/scheduler_test_fixture.h"
#include "server/run/sequences.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kLong = 8'000;        // tokens of a conversation; to restore them takes 800 ms
constexpr std::int64_t kRowNs = 100'000;    // of restoring one
constexpr std::int64_t kTokenNs = 500'000;  // of prefilling one
constexpr std::int64_t kCallNs = 20'000'000;
constexpr double kLongestGapMs = 250;

// Notes when each token came, and does something at one of them, on the engine thread.
class StreamSink final : public JobSink {
 public:
  explicit StreamSink(os::Clock& clock) : clock_(clock) {}
  void on_prefill(const JobStats&, std::size_t, double) override {}
  bool on_token(TokenId token, const JobStats&) override {
    tokens.push_back(token);
    came_ns.push_back(clock_.monotonic_ns());
    if (tokens.size() == 5 && at_fifth) at_fifth();
    return true;
  }
  void on_done(Finish, const JobStats&, const std::optional<Error>&) override { ended_.set_value(); }
  bool gone() const override { return false; }
  void wait() { ended_.get_future().get(); }

  double longest_gap_ms() const {
    double longest = 0;
    for (std::size_t i = 1; i < came_ns.size(); ++i) {
      longest = std::max(longest, os::elapsed_ms(came_ns[i - 1], came_ns[i]));
    }
    return longest;
  }
  // Tokens that came after `from_ns` and before `to_ns`.
  std::size_t between(std::int64_t from_ns, std::int64_t to_ns) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(came_ns, [=](std::int64_t at) { return from_ns < at && at < to_ns; }));
  }

  std::vector<TokenId> tokens;
  std::vector<std::int64_t> came_ns;
  std::function<void()> at_fifth;

 private:
  os::Clock& clock_;
  std::promise<void> ended_;
};

class HurriedSink final : public JobSink {
 public:
  void on_prefill(const JobStats&, std::size_t, double) override {}
  bool on_token(TokenId, const JobStats&) override { return true; }
  void on_done(Finish finish, const JobStats&, const std::optional<Error>&) override { ended = finish; }
  bool gone() const override { return left; }

  bool left = false;
  std::optional<Finish> ended;
};

// Time passes in calls of the model and of its memory only.
class NextToAStream : public testing::Test {
 protected:
  static WorldOptions options(std::uint32_t cells, bool own_cells = false) {
    return {.fake = {.cells = cells, .own_cells = own_cells, .sequences = own_cells ? 6U : 20U},
            .ram = mebibytes(64),
            .scheduler = {.parallel = own_cells ? std::size_t{6} : std::size_t{10}, .slice_ms = 150}};
  }
  void make_world(WorldOptions options) {
    options.clock = &clock_;
    world_ = std::make_unique<World>(options);
    world_->engine.set_on_decode([this](std::span<const engine::BatchToken> batch) {
      clock_.advance_ns(kCallNs + kTokenNs * static_cast<std::int64_t>(batch.size()));
      if (batch.size() > 10) prefilled_ns_.push_back(clock_.monotonic_ns());
    });
    world_->engine.memory().set_on_restore([this](std::size_t rows) {
      restored_ns_.push_back(clock_.monotonic_ns());
      clock_.advance_ns(1'000 + kRowNs * static_cast<std::int64_t>(rows));
      rows_ += rows;
      if (at_restore_) at_restore_(restored_ns_.size());
    });
    world_->start();
  }
  // Conversations that only RAM has.
  std::vector<std::vector<TokenId>> conversations(std::size_t count, std::size_t tokens = kLong) {
    std::vector<std::vector<TokenId>> prompts;
    for (std::size_t i = 0; i < count; ++i) {
      prompts.push_back(random_tokens(random_, tokens));
      (void)world_->ask(prompts.back(), 1);
      leave_memory();
    }
    return prompts;
  }
  void leave_memory() {
    std::promise<void> done;
    ASSERT_TRUE(world_->scheduler
                    .ask([&](const Error*, Places&, Sequences& sequences, cache::Cache&) {
                      sequences.clear_idle();
                      done.set_value();
                    })
                    .ok());
    done.get_future().get();
  }
  // A stream of so many tokens begins, and `at_fifth` is called when it has five.
  std::shared_ptr<StreamSink> stream(std::int64_t tokens, std::function<void()> at_fifth) {
    auto sink = std::make_shared<StreamSink>(clock_);
    sink->at_fifth = std::move(at_fifth);
    stream_prompt_ = random_tokens(random_, 8);
    Job job{
        .id = "stream", .kind = "chat", .prompt = stream_prompt_, .sampling = World::greedy(), .max_tokens = tokens};
    EXPECT_TRUE(world_->scheduler.submit(std::move(job), sink).ok());
    return sink;
  }
  void expect_right(const StreamSink& stream) {
    EXPECT_EQ(stream.tokens, world_->expected(stream_prompt_, stream.tokens.size()));
  }
  void expect_right(const Reply& reply, const std::vector<TokenId>& prompt) {
    EXPECT_EQ(reply.tokens, world_->expected(prompt, reply.tokens.size()));
    EXPECT_EQ(reply.stats.prefilled_tokens, 1U);
  }
  std::uint32_t cells_used_without_idle() {
    leave_memory();
    return world_->engine.memory().cells_used();
  }

  sim::SimClock clock_;
  std::mt19937 random_{seed()};
  std::unique_ptr<World> world_;
  std::vector<TokenId> stream_prompt_;
  std::vector<std::int64_t> restored_ns_;  // when each unit began
  std::vector<std::int64_t> prefilled_ns_;
  std::size_t rows_ = 0;
  std::function<void(std::size_t units)> at_restore_;
};

TEST_F(NextToAStream, RowsComeInPiecesBetweenItsTokens) {
  make_world(options(20'000));
  const auto prompt = conversations(1).front();
  std::future<Reply> reply;
  const auto sink = stream(200, [&] { reply = world_->submit(prompt, 3); });
  sink->wait();
  expect_right(reply.get(), prompt);
  expect_right(*sink);
  EXPECT_EQ(rows_, kLong - 1);
  EXPECT_LE(sink->longest_gap_ms(), kLongestGapMs);
  const std::size_t turns = sink->between(restored_ns_.front(), restored_ns_.back());
  EXPECT_GE(turns, 5U) << "800 ms in turns of 150";
  EXPECT_LE(turns, 9U) << "turns are not shorter than they must be";
}

TEST_F(NextToAStream, RowsComeAtOnceWhereNobodyDecodes) {
  make_world(options(20'000));
  const auto prompt = conversations(1).front();
  expect_right(world_->ask(prompt, 3), prompt);
  EXPECT_EQ(restored_ns_.size(), 1U) << "one unit";
}

TEST_F(NextToAStream, EightRestoresShareTheTurns) {
  make_world(options(80'000));
  const auto prompts = conversations(8);
  std::vector<std::future<Reply>> replies;
  const auto sink = stream(400, [&] {
    for (const auto& prompt : prompts) replies.push_back(world_->submit(prompt, 3));
  });
  sink->wait();
  for (std::size_t i = 0; i < 8; ++i) expect_right(replies[i].get(), prompts[i]);
  expect_right(*sink);
  EXPECT_EQ(rows_, 8 * (kLong - 1));
  EXPECT_LE(sink->longest_gap_ms(), kLongestGapMs);
  EXPECT_GE(sink->between(restored_ns_.front(), restored_ns_.back()), 40U);
}

TEST_F(NextToAStream, APrefillHasItsSlicesInOtherRoundsThanRestores) {
  make_world(options(80'000));
  const auto prompts = conversations(4);
  const auto cold = random_tokens(random_, 3'000);
  std::vector<std::future<Reply>> replies;
  const std::size_t before = prefilled_ns_.size();
  const auto sink = stream(400, [&] {
    for (const auto& prompt : prompts) replies.push_back(world_->submit(prompt, 3));
    replies.push_back(world_->submit(cold, 3));
  });
  sink->wait();
  for (std::size_t i = 0; i < 4; ++i) expect_right(replies[i].get(), prompts[i]);
  EXPECT_EQ(replies[4].get().tokens, world_->expected(cold, 3));
  EXPECT_LE(sink->longest_gap_ms(), kLongestGapMs);
  ASSERT_GT(prefilled_ns_.size(), before);
  EXPECT_LT(prefilled_ns_[before], restored_ns_.back()) << "the prefill does not wait for all of them";
}

TEST_F(NextToAStream, AClientMayLeaveInTheMiddleOfItsRestore) {
  make_world(options(20'000));
  const auto prompt = conversations(1).front();
  const auto leaving = std::make_shared<HurriedSink>();
  at_restore_ = [&](std::size_t units) {
    if (units == 9) leaving->left = true;
  };
  const auto sink = stream(100, [&] {
    Job job{.id = "leaves", .kind = "chat", .prompt = prompt, .sampling = World::greedy(), .max_tokens = 3};
    EXPECT_TRUE(world_->scheduler.submit(std::move(job), leaving).ok());
  });
  sink->wait();
  EXPECT_EQ(leaving->ended, Finish::kGone);
  expect_right(*sink);
  EXPECT_LT(restored_ns_.size(), 9U + 5) << "the turn ends, and no other follows";
  EXPECT_EQ(cells_used_without_idle(), 0U);
  at_restore_ = {};
  expect_right(world_->ask(prompt, 3), prompt);
}

// The stream, which is older, grows until no cell is left.
TEST_F(NextToAStream, ARestoreGivesItsCellsBackInTheMiddle) {
  make_world(options(kLong + 20));
  const auto prompt = conversations(1).front();
  std::future<Reply> reply;
  at_restore_ = [&](std::size_t) { clock_.advance_ms(30); };  // so that it takes as many turns as there are units
  const auto sink = stream(60, [&] { reply = world_->submit(prompt, 1); });
  sink->wait();
  expect_right(*sink);
  expect_right(reply.get(), prompt);
  EXPECT_GE(world_->scheduler.stats().set_aside, 1U);
  EXPECT_GT(rows_, kLong) << "some rows were restored twice";
  EXPECT_LE(sink->longest_gap_ms(), kLongestGapMs);
}

TEST_F(NextToAStream, RowsThatSeveralShareAreRestoredOnce) {
  make_world(options(40'000));
  const auto prompt = conversations(1).front();
  std::vector<std::vector<TokenId>> prompts;
  for (TokenId i = 0; i < 4; ++i) prompts.push_back(prompt + std::vector<TokenId>{i, 7, i});
  std::vector<std::future<Reply>> replies;
  const auto sink = stream(200, [&] {
    for (const auto& each : prompts) replies.push_back(world_->submit(each, 3));
  });
  sink->wait();
  for (std::size_t i = 0; i < 4; ++i) {
    const Reply reply = replies[i].get();
    EXPECT_EQ(reply.tokens, world_->expected(prompts[i], 3));
    EXPECT_EQ(reply.stats.cached_tokens, kLong);
    EXPECT_EQ(i == 0 ? reply.stats.ram_tokens : reply.stats.memory_tokens, kLong) << i;
  }
  EXPECT_EQ(rows_, kLong);
  EXPECT_EQ(world_->scheduler.stats().prefix_waits, 3U);
}

// To save a row takes longer here than to compute it.
TEST_F(NextToAStream, SlicesHaveTheTimeThatTheirCapturesLeave) {
  WorldOptions each_slice = options(20'000);
  each_slice.scheduler.capture_prefilled_tokens = 64;
  make_world(each_slice);
  world_->engine.memory().set_on_save(
      [this](std::size_t rows) { clock_.advance_ns(2 * kTokenNs * static_cast<std::int64_t>(rows)); });
  const auto cold = random_tokens(random_, 6'000);
  std::future<Reply> reply;
  const auto sink = stream(200, [&] { reply = world_->submit(cold, 3); });
  sink->wait();
  EXPECT_EQ(reply.get().tokens, world_->expected(cold, 3));
  expect_right(*sink);
  EXPECT_LE(sink->longest_gap_ms(), kLongestGapMs);
}

class EmbeddedSink final : public EmbeddingSink {
 public:
  void on_done(Result<InputValues> values, const EmbeddingStats&) override { done.set_value(values.ok()); }
  bool gone() const override { return false; }
  std::promise<bool> done;
};

// Each input takes as long as a slice.
TEST_F(NextToAStream, EmbeddingsHaveSlicesInOtherRoundsThanPrefill) {
  engine::fake::FakeEmbedder embedder(
      {.pooling = engine::Pooling::kLast, .vector_size = 3, .longest_input = 10, .slice_tokens = 4});
  std::vector<std::int64_t> embedded_ns;
  embedder.on_compute = [&](TokenSpan) {
    clock_.advance_ms(150);
    embedded_ns.push_back(clock_.monotonic_ns());
  };
  Embeddings embeddings(embedder, clock_);
  WorldOptions with = options(20'000);
  with.scheduler.embeddings = &embeddings;
  make_world(with);
  const auto cold = random_tokens(random_, 3'000);
  const auto embedded = std::make_shared<EmbeddedSink>();
  std::future<Reply> reply;
  const auto sink = stream(100, [&] {
    reply = world_->submit(cold, 3);
    EXPECT_TRUE(
        embeddings
            .submit({.id = "one", .kind = "embeddings", .inputs = std::vector<std::vector<TokenId>>(12, {1, 2})},
                    embedded)
            .ok());
  });
  sink->wait();
  EXPECT_TRUE(embedded->done.get_future().get());
  EXPECT_EQ(reply.get().tokens, world_->expected(cold, 3));
  EXPECT_LE(sink->longest_gap_ms(), kLongestGapMs);
  ASSERT_EQ(embedded_ns.size(), 12U);
  const auto slices = std::ranges::count_if(
      prefilled_ns_, [&](std::int64_t at) { return embedded_ns.front() < at && at < embedded_ns.back(); });
  EXPECT_NEAR(static_cast<double>(slices), 11, 1) << "they take turns";
  world_->stop();
}

// Rows of 1,500 tokens, which take as long as a slice, are put whole where each sequence has cells of its own.
TEST_F(NextToAStream, ARoundPutsOneOfTheRowsThatComeWhole) {
  make_world(options(6 * 2'000, /*own_cells=*/true));
  const auto prompts = conversations(3, 1'500);
  std::vector<std::future<Reply>> replies;
  const auto sink = stream(100, [&] {
    for (const auto& prompt : prompts) replies.push_back(world_->submit(prompt, 3));
  });
  sink->wait();
  for (std::size_t i = 0; i < 3; ++i) expect_right(replies[i].get(), prompts[i]);
  ASSERT_EQ(restored_ns_.size(), 3U);
  EXPECT_GE(sink->between(restored_ns_[0], restored_ns_[1]), 1U);
  EXPECT_GE(sink->between(restored_ns_[1], restored_ns_[2]), 1U);
  EXPECT_LE(sink->longest_gap_ms(), kLongestGapMs);
}

}  // namespace
}  // namespace kvkeep::server
