// Prompts with pictures: a chunk is computed after its file was encoded, and neither happens again where its rows are
// known.

#include <chrono>
#include <functional>
#include <thread>

#include "server/run/media_fixture.h"

namespace kvkeep::server {
namespace {

class SchedulerMedia : public MediaWorldTest {
 protected:
  SchedulerMedia() { world_.start(); }
};

TEST_P(SchedulerMedia, AResentPictureIsNeitherEncodedNorPrefilled) {
  const ChunkSource first = picture(1);
  const ChunkSource second = picture(2);
  const auto prompt = random_tokens(random_, 50) + ids_of(first) + random_tokens(random_, 30);
  const Reply reply = ask(job_of(prompt, {first}));
  EXPECT_EQ(reply.tokens, world_.expected(prompt, 4));
  EXPECT_EQ(reply.stats.prefilled_tokens, prompt.size());
  EXPECT_EQ(projector_.encoded, 1);
  const auto more = prompt + reply.tokens + random_tokens(random_, 9) + ids_of(second) + random_tokens(random_, 12);
  const Reply next = ask(job_of(more, {first, second}));
  EXPECT_EQ(next.tokens, world_.expected(more, 4));
  EXPECT_EQ(projector_.encoded, 2) << "only the new one";
  EXPECT_GE(next.stats.cached_tokens, prompt.size());
  EXPECT_EQ(world_.scheduler.stats().media_encoded, 2U);
}

TEST_P(SchedulerMedia, AnotherPictureSharesOnlyTheTextBefore) {
  const auto before = random_tokens(random_, 60);
  const auto after = random_tokens(random_, 20);
  const ChunkSource first = picture(1);
  const ChunkSource other = picture(2);
  (void)ask(job_of(before + ids_of(first) + after, {first}));
  const auto prompt = before + ids_of(other) + after;
  const Reply reply = ask(job_of(prompt, {other}));
  EXPECT_EQ(reply.tokens, world_.expected(prompt, 4));
  EXPECT_LE(reply.stats.cached_tokens, before.size());
  EXPECT_EQ(projector_.encoded, 2);
}

// Where a message is said to end within a picture, state is captured before it.
TEST_P(SchedulerMedia, PrefillPausesBeforeAPictureAndNotWithinIt) {
  const ChunkSource source = picture(6);
  const auto prompt = random_tokens(random_, 50) + ids_of(source) + random_tokens(random_, 60);
  Job job = job_of(prompt, {source});
  job.markers.user_turns = {Position{40}};
  job.markers.message_ends = {Position{40}, Position{85}, Position{120}};
  EXPECT_EQ(ask(std::move(job)).tokens, world_.expected(prompt, 4));
  const auto other = std::vector<TokenId>(prompt.begin(), prompt.begin() + 50) + random_tokens(random_, 20);
  const Reply reply = ask(job_of(other, {}));
  EXPECT_EQ(reply.tokens, world_.expected(other, 4));
  EXPECT_GE(reply.stats.cached_tokens, GetParam() == engine::MemoryClass::kWindowed ? 0U : 40U);
}

TEST_P(SchedulerMedia, EmbeddingsOutliveRowsThatAreLost) {
  const ChunkSource source = picture(1);
  (void)ask(job_of(random_tokens(random_, 20) + ids_of(source) + random_tokens(random_, 5), {source}));
  const auto prompt = random_tokens(random_, 70) + ids_of(source) + random_tokens(random_, 5);
  EXPECT_EQ(ask(job_of(prompt, {source})).tokens, world_.expected(prompt, 4));
  EXPECT_EQ(projector_.encoded, 1) << "other words stand before it";
}

TEST_P(SchedulerMedia, AFileThatCannotBeDecodedIsTheClientsError) {
  const ChunkSource source = picture(3, kBroken);
  const Reply reply = ask(job_of(random_tokens(random_, 20) + ids_of(source) + random_tokens(random_, 5), {source}));
  EXPECT_EQ(reply.finish, Finish::kError);
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->kind, ErrorKind::kInvalid);
  EXPECT_EQ(reply.error->message, "'messages[0].content[3]': it cannot be decoded as PNG");
  const auto text = random_tokens(random_, 30);
  EXPECT_EQ(ask(job_of(text, {})).tokens, world_.expected(text, 4)) << "the next request is served";
}

// As a saved slot does.
TEST_P(SchedulerMedia, APromptWithoutItsFilesNeedsTheirRows) {
  const ChunkSource source = picture(7);
  const auto prompt = random_tokens(random_, 20) + ids_of(source) + random_tokens(random_, 5);
  const Reply refused = ask(job_of(prompt, {}));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->kind, ErrorKind::kInvalid);
  EXPECT_EQ(projector_.encoded, 0);
  EXPECT_EQ(ask(job_of(prompt, {source})).tokens, world_.expected(prompt, 4));
  EXPECT_EQ(ask(job_of(prompt, {})).tokens, world_.expected(prompt, 4));
  EXPECT_EQ(projector_.encoded, 1);
}

TEST_P(SchedulerMedia, OtherChunksThanPlannedAreRefused) {
  projector_.shape.embeddings = projector_.shape.positions = 39;
  const ChunkSource source = picture(4);
  const Reply reply = ask(job_of(ids_of(source) + random_tokens(random_, 5), {source}));
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->kind, ErrorKind::kInvalid);
}

// Notes how far prefill is said to be.
class WatchingSink final : public JobSink {
 public:
  void on_prefill(const JobStats&, std::size_t count, double) override { processed = count; }
  bool on_token(TokenId, const JobStats&) override { return true; }
  void on_done(Finish finish, const JobStats&, const std::optional<Error>&) override { ended.set_value(finish); }
  bool gone() const override { return left; }

  std::atomic<std::size_t> processed = 0;
  std::atomic<bool> left = false;
  std::promise<Finish> ended;
};

void await(const std::function<bool()>& is_so) {
  for (int i = 0; i < 20'000 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(is_so());
}

TEST_P(SchedulerMedia, AClientThatLeavesEndsItsEncoding) {
  const ChunkSource source = picture(5);
  const auto prompt = ids_of(source) + random_tokens(random_, 5);
  const auto sink = std::make_shared<WatchingSink>();
  projector_.is_slow = true;
  ASSERT_TRUE(world_.scheduler.submit(job_of(prompt, {source}), sink).ok());
  await([&] { return projector_.encoded == 1; });
  sink->left = true;
  EXPECT_EQ(sink->ended.get_future().get(), Finish::kGone);
  await([&] { return projector_.ended == 1; });
  projector_.is_slow = false;
  EXPECT_EQ(ask(job_of(prompt, {source})).tokens, world_.expected(prompt, 4)) << "the next one has it encoded anew";
}

TEST_P(SchedulerMedia, OthersRunWhileAPictureIsEncoded) {
  const ChunkSource source = picture(7);
  const auto prompt = random_tokens(random_, 30) + ids_of(source) + random_tokens(random_, 5);
  const auto sink = std::make_shared<WatchingSink>();
  projector_.is_slow = true;
  ASSERT_TRUE(world_.scheduler.submit(job_of(prompt, {source}), sink).ok());
  await([&] { return sink->processed == 30 + kShape.embeddings / 2; });  // the text before it, and half of it
  const auto text = random_tokens(random_, 40);
  EXPECT_EQ(ask(job_of(text, {})).tokens, world_.expected(text, 4));
  projector_.is_slow = false;
  EXPECT_EQ(sink->ended.get_future().get(), Finish::kLength);
  EXPECT_EQ(sink->processed, prompt.size());
  EXPECT_GT(world_.scheduler.stats().waited[WaitCause::kEncoder], 0);
}

TEST_P(SchedulerMedia, TwoRequestsShareOneEncoding) {
  const ChunkSource source = picture(8);
  const auto first = random_tokens(random_, 30) + ids_of(source) + random_tokens(random_, 5);
  const auto second = random_tokens(random_, 20) + ids_of(source) + random_tokens(random_, 6);
  const auto first_sink = std::make_shared<WatchingSink>();
  const auto second_sink = std::make_shared<WatchingSink>();
  projector_.is_slow = true;
  ASSERT_TRUE(world_.scheduler.submit(job_of(first, {source}), first_sink).ok());
  ASSERT_TRUE(world_.scheduler.submit(job_of(second, {source}), second_sink).ok());
  await([&] { return first_sink->processed > 30 && second_sink->processed > 20; });
  first_sink->left = true;
  EXPECT_EQ(first_sink->ended.get_future().get(), Finish::kGone);
  projector_.is_slow = false;
  EXPECT_EQ(second_sink->ended.get_future().get(), Finish::kLength) << "it still wants the encoding";
  EXPECT_EQ(projector_.encoded, 1);
}

// Notes whether the bytes of a file are still held.
class FileWatch final : public JobSink {
 public:
  explicit FileWatch(std::weak_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}
  void on_prefill(const JobStats&, std::size_t, double) override { held_at_prefill.push_back(!bytes_.expired()); }
  bool on_token(TokenId, const JobStats&) override {
    // The encoder's task lets go of the file a moment after it has ended.
    for (int i = 0; i < 500 && !bytes_.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    held_in_reply = !bytes_.expired();
    return true;
  }
  void on_done(Finish finish, const JobStats&, const std::optional<Error>&) override { ended.set_value(finish); }
  bool gone() const override { return false; }

  std::vector<bool> held_at_prefill;
  bool held_in_reply = false;
  std::promise<Finish> ended;

 private:
  const std::weak_ptr<const std::string> bytes_;
};

TEST_P(SchedulerMedia, AFileIsHeldUntilItsRowsAreKnown) {
  auto prompt = random_tokens(random_, 30) + ids_of(picture(1)) + random_tokens(random_, 25);
  const auto run = [&](bool cache_prompt) {
    Job job = job_of(prompt, {picture(1)});
    job.max_tokens = 1;
    job.cache_prompt = cache_prompt;
    auto sink = std::make_shared<FileWatch>(job.media.front().file->bytes);
    EXPECT_TRUE(world_.scheduler.submit(std::move(job), sink).ok());
    EXPECT_EQ(sink->ended.get_future().get(), Finish::kLength);
    return sink;
  };
  const auto uncached = run(false);
  EXPECT_TRUE(uncached->held_in_reply) << "should it be set aside, all is computed again";
  const auto first = run(true);
  EXPECT_TRUE(first->held_at_prefill.front());
  EXPECT_FALSE(first->held_in_reply);
  prompt = prompt + random_tokens(random_, 40);
  const auto next = run(true);
  EXPECT_FALSE(next->held_at_prefill.front()) << "its rows are known";
}

// In the middle of a reply the model gives bad logits: known rows are not trusted, and all is computed anew.
class UnluckySink final : public JobSink {
 public:
  explicit UnluckySink(FakeEngine& engine) : engine_(engine) {}
  void on_prefill(const JobStats&, std::size_t, double) override {}
  bool on_token(TokenId token, const JobStats&) override {
    reply.tokens.push_back(token);
    if (reply.tokens.size() == 2) engine_.set_faults({.bad_logits = 1});
    return true;
  }
  void on_done(Finish finish, const JobStats&, const std::optional<Error>&) override {
    reply.finish = finish;
    ended.set_value();
  }
  bool gone() const override { return false; }

  Reply reply;
  std::promise<void> ended;

 private:
  FakeEngine& engine_;
};

TEST_P(SchedulerMedia, AFileWhoseRowsAreLostIsTakenAgain) {
  const ChunkSource known = picture(2);
  PromptFile file = *picture(1).file;
  std::atomic<int> taken = 0;
  file.take = [&, bytes = file.bytes] {
    ++taken;
    return bytes;
  };
  const ChunkSource source{std::make_shared<const PromptFile>(file)};
  const auto prompt = random_tokens(random_, 30) + ids_of(known) + random_tokens(random_, 20) + ids_of(source) +
                      random_tokens(random_, 9);
  const auto sink = std::make_shared<UnluckySink>(world_.engine);
  ASSERT_TRUE(world_.scheduler.submit(job_of(prompt, {known, source}), sink).ok());
  sink->ended.get_future().get();
  EXPECT_EQ(sink->reply.finish, Finish::kLength);
  EXPECT_EQ(sink->reply.tokens, world_.expected(prompt, 4));
  EXPECT_EQ(taken, 1) << "until then its rows were known";
}

TEST_P(SchedulerMedia, AServerThatStopsEndsItsEncodings) {
  const ChunkSource source = picture(9);
  const auto sink = std::make_shared<WatchingSink>();
  projector_.is_slow = true;
  ASSERT_TRUE(world_.scheduler.submit(job_of(ids_of(source) + random_tokens(random_, 5), {source}), sink).ok());
  await([&] { return projector_.encoded == 1; });
  world_.scheduler.stop();
  EXPECT_EQ(sink->ended.get_future().get(), Finish::kError);
}

INSTANTIATE_TEST_SUITE_P(Classes, SchedulerMedia,
                         ::testing::Values(engine::MemoryClass::kSliceable, engine::MemoryClass::kWindowed,
                                           engine::MemoryClass::kHybrid, engine::MemoryClass::kRecurrent,
                                           engine::MemoryClass::kOpaque),
                         [](const auto& parameter) { return std::string(to_string(parameter.param)); });

}  // namespace
}  // namespace kvkeep::server
