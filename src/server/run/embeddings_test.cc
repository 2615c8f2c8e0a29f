#include "server/run/embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "engine/fake/fake_embedder.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::server {
namespace {

using engine::fake::FakeEmbedder;

class KeptResult final : public EmbeddingSink {
 public:
  void on_done(Result<InputValues> values, const EmbeddingStats& stats) override {
    EXPECT_FALSE(result) << "ended twice";
    result.emplace(std::move(values));
    ended = stats;
  }
  bool gone() const override { return left; }

  std::optional<Result<InputValues>> result;
  EmbeddingStats ended;
  bool left = false;
};

class EmbeddingsTest : public testing::Test {
 protected:
  std::shared_ptr<KeptResult> submit(std::vector<std::vector<TokenId>> inputs) {
    auto sink = std::make_shared<KeptResult>();
    EXPECT_TRUE(embeddings_.submit({.id = "one", .kind = "embeddings", .inputs = std::move(inputs)}, sink));
    return sink;
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) (void)embeddings_.turn(false);
  }
  std::vector<float> expected(const std::vector<TokenId>& input) const {
    return FakeEmbedder::values(embedder_.description(), input);
  }

  FakeEmbedder embedder_{{.pooling = engine::Pooling::kLast, .vector_size = 3, .longest_input = 10, .slice_tokens = 4}};
  sim::SimClock clock_;
  Embeddings embeddings_{embedder_, clock_};
};

TEST_F(EmbeddingsTest, WhereOthersContendEverySecondTurnIsTheirs) {
  const auto done = submit({{1}, {2}, {3}, {4}});
  const auto turns = [&](bool contended) {
    std::string text;
    for (int i = 0; i < 3; ++i) text += embeddings_.turn(contended) ? "own " : "other ";
    return text;
  };
  EXPECT_EQ(turns(true), "own other own ");
  EXPECT_EQ(turns(false), "own own other ") << "four inputs, then there is nothing to compute";
  EXPECT_TRUE(done->result && done->result->ok());
}

TEST_F(EmbeddingsTest, EachTurnComputesOneInput) {
  int woken = 0;
  embeddings_.wake_by([&] { ++woken; });
  EXPECT_FALSE(embeddings_.any());
  const auto done = submit({{1, 2}, {3}});
  EXPECT_TRUE(embeddings_.any());
  EXPECT_EQ(woken, 1);
  turns(1);
  EXPECT_FALSE(done->result);
  turns(1);
  ASSERT_TRUE(done->result && done->result->ok());
  EXPECT_EQ(**done->result, (InputValues{expected({1, 2}), expected({3})}));
  EXPECT_EQ(done->ended.inputs, 2U);
  EXPECT_EQ(done->ended.tokens, 3U);
  EXPECT_FALSE(embeddings_.any());
  EXPECT_EQ(embeddings_.counts().tokens, 3U);
  EXPECT_EQ(embeddings_.counts().inputs, 2U);
  turns(3);
}

TEST_F(EmbeddingsTest, ALongInputIsComputedInSlices) {
  std::vector<std::size_t> runs;
  embedder_.on_compute = [&](TokenSpan run) { runs.push_back(run.size()); };
  const std::vector<TokenId> input{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto done = submit({input});
  turns(2);
  EXPECT_FALSE(done->result);
  turns(1);
  EXPECT_EQ(**done->result, InputValues{expected(input)});
  EXPECT_EQ(runs, (std::vector<std::size_t>{4, 4, 1}));
}

TEST_F(EmbeddingsTest, JobsTakeTurnsButNoInputIsInterrupted) {
  const std::vector<TokenId> input{1, 2, 3, 4, 5};
  const auto many = submit({{1}, input, {3}});
  const auto one = submit({{4}});
  turns(2);
  EXPECT_TRUE(one->result);
  EXPECT_FALSE(many->result);
  const auto another = submit({{5}});
  turns(2);  // both slices of the second input
  EXPECT_FALSE(another->result);
  turns(2);
  EXPECT_TRUE(another->result && many->result);
  EXPECT_EQ(**many->result, (InputValues{expected({1}), expected(input), expected({3})}));
}

TEST_F(EmbeddingsTest, AFailureEndsItsJobOnly) {
  const auto bad = submit({{1}, {2}});
  const auto good = submit({{3}});
  embedder_.fail_next = io_error("broken");
  turns(2);
  ASSERT_TRUE(bad->result && good->result);
  EXPECT_EQ(bad->result->error().message, "broken");
  EXPECT_TRUE(good->result->ok());
}

TEST_F(EmbeddingsTest, AClientThatLeavesIsNotComputedFor) {
  int calls = 0;
  embedder_.on_compute = [&](TokenSpan) { ++calls; };
  const auto left = submit({{1, 2, 3, 4, 5}, {2}});
  turns(1);
  left->left = true;
  const auto next = submit({{3}});
  turns(1);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(left->result->error().kind, ErrorKind::kAborted);
  EXPECT_EQ(**next->result, InputValues{expected({3})});
}

TEST_F(EmbeddingsTest, StopEndsAllJobsAndRefusesMore) {
  const auto running = submit({{1, 2, 3, 4, 5}});
  const auto waiting = submit({{2}});
  turns(1);
  embeddings_.stop();
  turns(1);
  EXPECT_EQ(running->result->error().kind, ErrorKind::kAborted);
  embeddings_.end();
  EXPECT_EQ(waiting->result->error().kind, ErrorKind::kAborted);
  EXPECT_EQ(embeddings_.submit({.id = "late", .kind = "embeddings", .inputs = {{1}}}, running).error().kind,
            ErrorKind::kBusy);
}

TEST_F(EmbeddingsTest, WaitingJobsAndTokensHaveLimits) {
  for (std::size_t i = 0; i < Embeddings::kMostJobs; ++i) submit({{1}});
  const auto refused = std::make_shared<KeptResult>();
  const auto submit_more = [&](std::vector<TokenId> input) {
    return embeddings_.submit({.id = "more", .kind = "embeddings", .inputs = {std::move(input)}}, refused);
  };
  EXPECT_EQ(submit_more({1}).error().kind, ErrorKind::kBusy);
  turns(static_cast<int>(Embeddings::kMostJobs));
  EXPECT_FALSE(embeddings_.any());
  EXPECT_TRUE(submit_more(std::vector<TokenId>(Embeddings::kMostTokens + 1)).ok()) << "the only one";
  EXPECT_EQ(submit_more({1}).error().kind, ErrorKind::kBusy);
  EXPECT_FALSE(refused->result);
  refused->left = true;
  turns(1);
}

TEST_F(EmbeddingsTest, CountsTimeInTheQueueAndInTheModel) {
  embedder_.on_compute = [&](TokenSpan) { clock_.advance_ns(3'000'000); };
  const auto done = submit({{1}, {2}});
  clock_.advance_ns(20'000'000);
  turns(1);
  clock_.advance_ns(50'000'000);  // a turn of others
  turns(1);
  EXPECT_NEAR(done->ended.queue_ms, 20, 1e-3);
  EXPECT_NEAR(done->ended.compute_ms, 6, 1e-3);
}

}  // namespace
}  // namespace kvkeep::server
