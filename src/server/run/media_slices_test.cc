// Pictures that are prefilled in slices: others get tokens in between, and until the last slice the sequence ends
// before the picture for all who capture, fork and keep sequences.

#include <chrono>
#include <functional>
#include <thread>

#include "server/run/media_fixture.h"
#include "server/run/parts_fixture.h"

namespace kvkeep::server {
namespace {

constexpr ChunkShape kLarge{.embeddings = 640, .positions = 640};  // ten batches
constexpr std::size_t kBefore = 70;

// A client. The engine thread writes what the test reads after the end.
class Told final : public JobSink {
 public:
  explicit Told(std::function<void(std::size_t)> on_prefilled = {}) : on_prefilled_(std::move(on_prefilled)) {}
  void on_prefill(const JobStats&, std::size_t count, double) override {
    if (on_prefilled_) on_prefilled_(count);
  }
  bool on_token(TokenId token, const JobStats&) override {
    tokens.push_back(token);
    return true;
  }
  void on_done(Finish finish, const JobStats&, const std::optional<Error>&) override { ended.set_value(finish); }
  bool gone() const override { return left; }

  std::vector<TokenId> tokens;
  std::atomic<bool> left = false;
  std::promise<Finish> ended;

 private:
  const std::function<void(std::size_t)> on_prefilled_;
};

class MediaSlices : public MediaWorldTest {
 protected:
  MediaSlices() {
    projector_.shape = kLarge;
    projector_.told_share = 0;  // so that progress is that of prefill
    world_.start();
  }
  bool needs_points() const { return GetParam() != engine::MemoryClass::kSliceable; }
  // A client that leaves after the second slice of the picture behind kBefore tokens.
  void leave_within(const std::vector<TokenId>& prompt, const ChunkSource& source) {
    std::shared_ptr<Told> leaving;
    leaving = std::make_shared<Told>([&](std::size_t count) { leaving->left = count > kBefore + 100; });
    ASSERT_TRUE(world_.scheduler.submit(job_of(prompt, {source}), leaving).ok());
    EXPECT_EQ(leaving->ended.get_future().get(), Finish::kGone);
  }
};

TEST_P(MediaSlices, OthersGetTokensBetweenThem) {
  const auto talk = std::make_shared<Told>();
  const auto text = random_tokens(random_, 20);
  std::vector<std::size_t> others;  // tokens of the other reply, after each slice of the picture
  const auto watching = std::make_shared<Told>([&](std::size_t count) {
    if (count <= kBefore || count > kBefore + kLarge.embeddings) return;
    if (others.empty()) {
      EXPECT_TRUE(world_.scheduler.submit(job_of(text, {}, 100), talk).ok());
    }
    others.push_back(talk->tokens.size());
  });
  const ChunkSource source = picture(1);
  const auto prompt = random_tokens(random_, kBefore) + ids_of(source, kLarge) + random_tokens(random_, 5);
  ASSERT_TRUE(world_.scheduler.submit(job_of(prompt, {source}), watching).ok());
  EXPECT_EQ(watching->ended.get_future().get(), Finish::kLength);
  EXPECT_EQ(talk->ended.get_future().get(), Finish::kLength);
  EXPECT_EQ(watching->tokens, world_.expected(prompt, 4));
  EXPECT_EQ(talk->tokens, world_.expected(text, 100));
  ASSERT_GE(others.size(), 10U) << "one slice has at most a batch";
  for (std::size_t i = 4; i < others.size(); ++i) EXPECT_GT(others[i], others[i - 1]) << i;
}

TEST_P(MediaSlices, AClientThatLeavesWithinThePictureLeavesNothingOfIt) {
  const ChunkSource source = picture(2);
  const auto before = random_tokens(random_, kBefore);
  const auto prompt = before + ids_of(source, kLarge) + random_tokens(random_, 5);
  leave_within(prompt, source);
  world_.stop();
  EXPECT_LE(world_.engine.tokens_decoded(), kBefore + 300U) << "it ended within the picture";
  if (!needs_points()) {
    EXPECT_EQ(world_.engine.memory().length(SeqId{0}).value(), kBefore) << "it is cut off";
  }
  EXPECT_LE(world_.cache.lease(prompt)->end().value(), kBefore) << "nothing of the picture is stored";
}

TEST_P(MediaSlices, WhatLiesBeforeAnUnfinishedPictureIsReused) {
  const ChunkSource source = picture(3);
  const auto before = random_tokens(random_, kBefore);
  const auto prompt = before + ids_of(source, kLarge) + random_tokens(random_, 5);
  leave_within(prompt, source);
  const auto other = before + random_tokens(random_, 30);
  const Reply text = ask(job_of(other, {}));
  EXPECT_EQ(text.tokens, world_.expected(other, 4));
  EXPECT_LE(text.stats.cached_tokens, kBefore);
  if (!needs_points()) {
    EXPECT_EQ(text.stats.cached_tokens, kBefore);
  }
  const Reply again = ask(job_of(prompt, {source}));
  EXPECT_EQ(again.tokens, world_.expected(prompt, 4));
  EXPECT_EQ(again.stats.prefilled_tokens, prompt.size() - again.stats.cached_tokens);
  EXPECT_LE(again.stats.cached_tokens, kBefore);
  EXPECT_EQ(projector_.encoded, 1) << "its embeddings are still there";
}

// A request that shares the picture, and one that shares only the text before it, come while it is half done.
TEST_P(MediaSlices, OthersForkNothingOfAnUnfinishedPicture) {
  const ChunkSource source = picture(4);
  const auto before = random_tokens(random_, kBefore);
  const auto prompt = before + ids_of(source, kLarge) + random_tokens(random_, 5);
  const auto same = before + ids_of(source, kLarge) + random_tokens(random_, 9);
  const auto text = before + random_tokens(random_, 9);
  const auto same_sink = std::make_shared<Told>();
  const auto text_sink = std::make_shared<Told>();
  bool sent = false;
  const auto first = std::make_shared<Told>([&](std::size_t count) {
    if (count <= kBefore + 100 || std::exchange(sent, true)) return;
    EXPECT_TRUE(world_.scheduler.submit(job_of(same, {source}), same_sink).ok());
    EXPECT_TRUE(world_.scheduler.submit(job_of(text, {}), text_sink).ok());
  });
  ASSERT_TRUE(world_.scheduler.submit(job_of(prompt, {source}), first).ok());
  EXPECT_EQ(first->ended.get_future().get(), Finish::kLength);
  EXPECT_EQ(same_sink->ended.get_future().get(), Finish::kLength);
  EXPECT_EQ(text_sink->ended.get_future().get(), Finish::kLength);
  EXPECT_EQ(first->tokens, world_.expected(prompt, 4));
  EXPECT_EQ(same_sink->tokens, world_.expected(same, 4));
  EXPECT_EQ(text_sink->tokens, world_.expected(text, 4));
}

TEST_P(MediaSlices, AFailureWithinAPictureIsComputedOnceMore) {
  const ChunkSource source = picture(5);
  const auto prompt = random_tokens(random_, kBefore) + ids_of(source, kLarge) + random_tokens(random_, 5);
  bool failed = false;
  const auto sink = std::make_shared<Told>([&](std::size_t count) {
    if (count > kBefore + 100 && !std::exchange(failed, true)) world_.engine.set_faults({.fail_decode = 1});
  });
  ASSERT_TRUE(world_.scheduler.submit(job_of(prompt, {source}), sink).ok());
  EXPECT_EQ(sink->ended.get_future().get(), Finish::kLength);
  EXPECT_EQ(sink->tokens, world_.expected(prompt, 4));
}

// The fake engine accepts no part of such a picture.
TEST_P(MediaSlices, APictureThatIsLookedAtAtOnceGoesIntoOne) {
  projector_.shape = {.embeddings = 100, .positions = 100};
  projector_.at_once = true;
  const ChunkSource source = picture(6);
  const auto prompt = random_tokens(random_, kBefore) + ids_of(source, projector_.shape) + random_tokens(random_, 5);
  EXPECT_EQ(ask(job_of(prompt, {source})).tokens, world_.expected(prompt, 4));
}

TEST_P(MediaSlices, AClientThatLeavesEndsTheCallThatLooksAtAPictureAtOnce) {
  projector_.shape = {.embeddings = 60, .positions = 60};
  projector_.at_once = true;
  const ChunkSource source = picture(7);
  const auto prompt = random_tokens(random_, kBefore) + ids_of(source, projector_.shape) + random_tokens(random_, 5);
  const auto leaving = std::make_shared<Told>();
  world_.engine.set_on_decode([&](std::span<const engine::BatchToken> batch) {
    if (is_media_id(batch.front().token)) leaving->left = true;
  });
  ASSERT_TRUE(world_.scheduler.submit(job_of(prompt, {source}), leaving).ok());
  EXPECT_EQ(leaving->ended.get_future().get(), Finish::kGone) << "and not with an error";
  EXPECT_EQ(world_.engine.tokens_decoded(), kBefore) << "no token of the picture";
  const Reply again = ask(job_of(prompt, {source}));
  EXPECT_EQ(again.tokens, world_.expected(prompt, 4));
  EXPECT_EQ(projector_.encoded, 1);
}

INSTANTIATE_TEST_SUITE_P(Classes, MediaSlices,
                         ::testing::Values(engine::MemoryClass::kSliceable, engine::MemoryClass::kWindowed,
                                           engine::MemoryClass::kHybrid, engine::MemoryClass::kRecurrent,
                                           engine::MemoryClass::kOpaque),
                         [](const auto& parameter) { return std::string(to_string(parameter.param)); });

// The ends of sequences with 20 of 40 ids of a chunk, without a scheduler.
class UnfinishedChunk : public PartsTest {
 protected:
  explicit UnfinishedChunk(engine::MemoryClass memory_class = engine::MemoryClass::kSliceable)
      : PartsTest({.cells = 1000, .sequences = 2, .memory_class = memory_class}) {}

  SeqId begin() {
    const SeqId seq = *sequences_.place({});
    sequences_.occupy(seq, {.id = "test"}, {});
    sequences_.begin_capture(seq);
    decode(sequences_, seq, text_);
    compute(seq, 0, 20);
    EXPECT_EQ(sequences_[seq].end(), Position{100});
    EXPECT_EQ(sequences_[seq].computed(), 120U);
    return seq;
  }
  void compute(SeqId seq, std::size_t from, std::size_t count) {
    const std::vector<float> embeddings(kShape.embeddings);
    const engine::MediaChunk slice{.ids = chunk_, .embeddings = embeddings, .begin = from, .count = count};
    EXPECT_EQ(engine.decode_media(seq, slice), engine::DecodeStatus::kOk);
    sequences_.append_part(seq, chunk_, count);
  }

  const std::vector<TokenId> text_ = counting(100);
  const std::vector<TokenId> chunk_ = ids_of(picture(8));
  Sequences sequences_ = make_sequences();
};
class UnfinishedHybridChunk : public UnfinishedChunk {
 protected:
  UnfinishedHybridChunk() : UnfinishedChunk(engine::MemoryClass::kHybrid) {}
};

TEST_F(UnfinishedChunk, IsNotInTheSequenceYet) {
  const SeqId seq = begin();
  EXPECT_EQ(engine.memory().length(seq), Position{120});
  EXPECT_EQ(sequences_[seq].tokens, text_);
}

TEST_F(UnfinishedChunk, IsCutOffWhenItsRequestEnds) {
  const SeqId seq = begin();
  sequences_.release(seq, policy::CutReason::kTurn, 0);
  EXPECT_EQ(engine.memory().length(seq), Position{100});
  EXPECT_EQ(sequences_[seq].computed(), 100U);
  EXPECT_EQ(known(text_ + chunk_), Position{100});
}

TEST_F(UnfinishedChunk, IsNotStoredWhenItsRequestGivesCellsBack) {
  sequences_.leave(begin());
  EXPECT_EQ(engine.memory().cells_used(), 0U);
  EXPECT_EQ(known(text_ + chunk_), Position{100});
}

TEST_F(UnfinishedChunk, EndsWithItsLastSlice) {
  const SeqId seq = begin();
  compute(seq, 20, 20);
  EXPECT_EQ(sequences_[seq].end(), Position{140});
  sequences_.release(seq, policy::CutReason::kTurn, 0);
  EXPECT_EQ(known(text_ + chunk_), Position{140});
}

// The recurrent state has read a part of it.
TEST_F(UnfinishedHybridChunk, EndsItsSequenceWhoseRowsAreStored) {
  const SeqId seq = begin();
  sequences_.release(seq, policy::CutReason::kTurn, 0);
  EXPECT_EQ(engine.memory().length(seq), Position{});
  EXPECT_EQ(sequences_[seq].state, Sequence::State::kFree);
  EXPECT_EQ(known(text_ + chunk_), Position{100});
}

TEST(MediaSlice, IsAPartOfALargeChunkAndAllOfOthers) {
  const ChunkSource source = picture(7);
  const auto limited = [&](const ChunkShape& shape, bool at_once, std::size_t done, std::size_t most) {
    const std::vector<TokenId> ids = ids_of(source, shape);
    const engine::EncodedChunk chunk{
        .shape = shape, .embeddings = std::vector<float>(shape.embeddings), .at_once = at_once};
    MediaSlice slice(ids, std::make_shared<const std::vector<engine::EncodedChunk>>(1, chunk), 0);
    const std::size_t count = slice.limit(done, most);
    EXPECT_EQ(slice.chunk()->begin, done);
    EXPECT_EQ(slice.chunk()->end(), done + count);
    return count;
  };
  EXPECT_EQ(limited(kShape, false, 0, 16), 16U);
  EXPECT_EQ(limited(kShape, false, 32, 16), 8U);
  EXPECT_EQ(limited(kShape, true, 0, 16), 40U);
  EXPECT_EQ(limited({.embeddings = 1, .positions = 1}, false, 0, 2), kLeastMediaIds) << "some ids have no embedding";
  EXPECT_EQ(MediaSlice().limit(0, 16), 16U) << "a slice of tokens";
}

// Between two slices of others the scheduler looks anyway.
TEST(MediaSlice, OnlyACallThatTakesLongIsEndedWithin) {
  const std::vector<TokenId> ids = ids_of(picture(8));
  for (const bool at_once : {false, true}) {
    const engine::EncodedChunk chunk{.shape = kShape, .at_once = at_once};
    MediaSlice slice(ids, std::make_shared<const std::vector<engine::EncodedChunk>>(1, chunk), 0);
    const auto client = std::make_shared<Told>();
    slice.end_with(client);
    ASSERT_EQ(bool{slice.chunk()->is_unwanted}, at_once);
    if (!at_once) continue;
    EXPECT_FALSE(slice.chunk()->is_unwanted());
    client->left = true;
    EXPECT_TRUE(slice.chunk()->is_unwanted());
  }
}

}  // namespace
}  // namespace kvkeep::server
