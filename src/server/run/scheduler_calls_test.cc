// Replies and slices of prefill in one call of the model: the text is that of two calls, whatever fails, and the
// cheaper way is found.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "policy/call_meter.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

using engine::BatchToken;
using engine::MemoryClass;
using policy::DecodeWithPrefill;

// How often each kind of call was made.
struct CallCounts {
  std::size_t joint = 0;
  std::size_t decodes = 0;  // of a token of each
  std::size_t slices = 0;
};

bool is_joint(std::span<const BatchToken> batch) {
  return batch.size() > 2 && batch.front().seq != batch.back().seq && batch.back().seq == batch[batch.size() - 2].seq;
}

// A reply is being written while long prompts come. `step` is called before each call of the model, with its number.
class SharedCalls : public testing::Test {
 protected:
  using Step = std::function<void(World&, std::span<const BatchToken>)>;

  WorldOptions options(DecodeWithPrefill wanted) {
    return {.scheduler = {.parallel = 3, .slice_ms = 1e-6, .decode_with_prefill = wanted}};
  }
  void begin(const WorldOptions& options, const Step& step = [](World&, std::span<const BatchToken>) {}) {
    world = std::make_unique<World>(options);
    world->engine.set_on_decode([this, step](std::span<const BatchToken> batch) {
      if (++count_ == 3) second = world->submit(long_prompt, 6, true, SIZE_MAX, kNoTenant, second_scales);
      std::set<SeqId> sequences;
      for (const BatchToken& entry : batch) sequences.insert(entry.seq);
      calls.joint += is_joint(batch) ? 1 : 0;
      calls.decodes += sequences.size() == batch.size() ? 1 : 0;
      calls.slices += sequences.size() == 1 && batch.size() > 1 ? 1 : 0;
      longest = std::max(longest, batch.size());
      step(*world, batch);
    });
    world->start();
    first = world->submit(short_prompt, 60);
  }
  // Both replies have the text of an engine that computes them one after the other.
  void expect_right_text() {
    EXPECT_EQ(first.get().tokens, world->expected(short_prompt, 60));
    EXPECT_EQ(second.get().tokens, world->expected(long_prompt, 6, second_scales));
  }

  std::mt19937 random{seed()};
  std::vector<TokenId> short_prompt = random_tokens(random, 8);
  std::vector<TokenId> long_prompt = random_tokens(random, 700);
  engine::AdapterScales second_scales;
  std::unique_ptr<World> world;
  std::future<Reply> first;
  std::future<Reply> second;  // asked in the third call
  CallCounts calls;
  std::size_t longest = 0;

 private:
  std::size_t count_ = 0;
};

TEST_F(SharedCalls, ComputeASliceAndATokenOfEachReply) {
  begin(options(DecodeWithPrefill::kTogether));
  expect_right_text();
  EXPECT_GE(calls.joint, 700U / 64) << "each slice but the first prompt's";
  EXPECT_EQ(calls.slices, 1U) << "the short prompt, which nobody decodes next to";
  EXPECT_EQ(longest, 65U);
  EXPECT_EQ(world->scheduler.stats().joint_calls, calls.joint);
  EXPECT_EQ(world->scheduler.stats().model_calls, calls.joint + calls.decodes + calls.slices);
}

TEST_F(SharedCalls, AreNotMadeByDefault) {
  begin({.scheduler = {.parallel = 3, .slice_ms = 1e-6}});
  expect_right_text();
  EXPECT_EQ(calls.joint, 0U);
  EXPECT_GE(calls.slices, 700U / 64);
  EXPECT_EQ(world->scheduler.stats().joint_calls, 0U);
}

TEST_F(SharedCalls, AreNotMadeWhereSlicesArePinned) {
  WorldOptions pinned = options(DecodeWithPrefill::kTogether);
  pinned.scheduler.pinned_slice_tokens = 100;
  begin(pinned);
  expect_right_text();
  EXPECT_EQ(calls.joint, 0U);
}

TEST_F(SharedCalls, AreNotMadeUnderOtherScalesOfAdapters) {
  WorldOptions scaled = options(DecodeWithPrefill::kTogether);
  scaled.fake.adapters = 1;
  second_scales = {0.5F};
  begin(scaled);
  expect_right_text();
  EXPECT_EQ(calls.joint, 0U);
}

TEST_F(SharedCalls, HaveRoomForTheRepliesInABatch) {
  WorldOptions narrow = options(DecodeWithPrefill::kTogether);
  narrow.fake.batch_tokens = 64;
  begin(narrow);
  expect_right_text();
  EXPECT_GE(calls.joint, 700U / 64);
  EXPECT_EQ(longest, 64U);
}

TEST_F(SharedCalls, ThatFindNoCellsAreMadeAsTwo) {
  bool refused = false;
  begin(options(DecodeWithPrefill::kTogether), [&](World& here, std::span<const BatchToken> batch) {
    if (is_joint(batch) && !std::exchange(refused, true)) here.engine.set_faults({.no_cells_decode = 1});
  });
  expect_right_text();
  EXPECT_EQ(world->scheduler.stats().set_aside, 0U) << "there are cells for two calls";
  EXPECT_EQ(calls.slices, 2U);
}

// The older one gets the cells, as with two calls.
TEST_F(SharedCalls, InAFullMemorySetTheYoungerAside) {
  WorldOptions full = options(DecodeWithPrefill::kTogether);
  full.fake.cells = 716;
  begin(full);
  expect_right_text();
  EXPECT_GT(calls.joint, 0U);
  EXPECT_GT(world->scheduler.stats().set_aside, 0U);
}

TEST_F(SharedCalls, ThatFailAreComputedOnceMoreAsTwo) {
  spdlog::set_level(spdlog::level::off);
  bool failed = false;
  std::size_t after = 0;
  begin(options(DecodeWithPrefill::kTogether), [&](World& here, std::span<const BatchToken> batch) {
    after += failed && is_joint(batch) ? 1 : 0;
    if (is_joint(batch) && !std::exchange(failed, true)) here.engine.set_faults({.fail_decode = 1});
  });
  expect_right_text();
  EXPECT_TRUE(failed);
  EXPECT_EQ(after, 0U) << "a second failure would end only the request that it comes from";
  spdlog::set_level(spdlog::level::info);
}

TEST_F(SharedCalls, ThatAreAbortedEndBothRequests) {
  spdlog::set_level(spdlog::level::off);
  begin(options(DecodeWithPrefill::kTogether), [](World& here, std::span<const BatchToken> batch) {
    if (is_joint(batch)) here.engine.set_faults({.abort_decode = 1});
  });
  EXPECT_EQ(first.get().finish, Finish::kError);
  EXPECT_EQ(second.get().finish, Finish::kError);
  EXPECT_EQ(calls.joint, 1U);
  spdlog::set_level(spdlog::level::info);
}

// Logits of one of the two requests of a joint call are NaN.
class BadLogits : public SharedCalls, public testing::WithParamInterface<std::uint32_t> {};

TEST_P(BadLogits, OfASharedCallAreNotSampled) {
  spdlog::set_level(spdlog::level::off);
  bool bad = false;
  std::size_t after = 0;
  begin(options(DecodeWithPrefill::kTogether), [&](World& here, std::span<const BatchToken> batch) {
    after += bad && is_joint(batch) ? 1 : 0;
    if (is_joint(batch) && !std::exchange(bad, true)) here.engine.set_faults({.bad_logits = GetParam()});
  });
  expect_right_text();
  EXPECT_TRUE(bad);
  EXPECT_GE(world->engine.wipes(), 1U);
  EXPECT_EQ(after, 0U) << "the other one is not computed next to it again";
  spdlog::set_level(spdlog::level::info);
}

INSTANTIATE_TEST_SUITE_P(Of, BadLogits, testing::Values(1U, 2U), [](const auto& which) {
  return which.param == 1 ? std::string("TheReply") : std::string("TheSlice");
});

TEST_F(SharedCalls, AreInterruptedByAStop) {
  std::promise<void> joint;
  std::atomic<bool> told = false;
  std::atomic<bool> stopped = false;
  begin(options(DecodeWithPrefill::kTogether), [&](World&, std::span<const BatchToken> batch) {
    if (!is_joint(batch) || told.exchange(true)) return;
    joint.set_value();
    while (!stopped) std::this_thread::yield();
  });
  joint.get_future().wait();
  world->scheduler.stop();
  stopped = true;
  EXPECT_EQ(first.get().finish, Finish::kError);
  EXPECT_EQ(second.get().finish, Finish::kError);
  world->stop();
  EXPECT_LT(world->engine.tokens_decoded(), 20U) << "the call that was interrupted computed nothing";
}

TEST_F(SharedCalls, ScoreNoPrompts) {
  begin(options(DecodeWithPrefill::kTogether));
  Job job{.id = "scored", .kind = "test", .prompt = long_prompt, .sampling = World::greedy(), .max_tokens = 2};
  job.scored_prompt = 0;
  const auto sink = std::make_shared<CollectingSink>();
  auto scored = sink->future();
  ASSERT_TRUE(world->scheduler.submit(std::move(job), sink).ok());
  EXPECT_EQ(scored.get().tokens, world->expected(long_prompt, 2));
  expect_right_text();
}

// ---- the way that is found ----

// Only calls of the model take time.
class ModelClock final : public os::Clock {
 public:
  std::int64_t monotonic_ns() override { return now_ns; }
  std::int64_t wall_ns() override { return now_ns; }
  std::atomic<std::int64_t> now_ns = 1'000'000;
};

// Replies of which `joint_token_ms` is what a token of theirs costs in a call with a slice; other tokens take 1 ms. A
// long prompt comes in the first call that decodes all of them: they cannot have ended before, however busy the machine
// is.
CallCounts calls_in(double call_ms, double joint_token_ms) {
  constexpr std::size_t kReplies = 3;
  ModelClock clock;
  const SchedulerOptions scheduler{.parallel = 4, .slice_ms = 150, .decode_with_prefill = DecodeWithPrefill::kAuto};
  World world({.fake = {.cells = 32'768, .sequences = 8}, .scheduler = scheduler, .clock = &clock});
  std::mt19937 random(7);
  const auto prompt = random_tokens(random, 16'000);
  CallCounts calls;
  std::promise<std::future<Reply>> asked;
  bool begun = false;
  world.engine.set_on_decode([&](std::span<const BatchToken> batch) {
    std::set<SeqId> sequences;
    for (const BatchToken& entry : batch) sequences.insert(entry.seq);
    const auto tokens = static_cast<double>(batch.size());
    const auto runners = static_cast<double>(sequences.size() - 1);
    const double ms = call_ms + tokens + (is_joint(batch) ? runners * (joint_token_ms - 1) : 0);
    clock.now_ns += static_cast<std::int64_t>(ms * 1e6);
    const bool decodes_all = batch.size() == kReplies && sequences.size() == kReplies;
    if (decodes_all && !std::exchange(begun, true)) asked.set_value(world.submit(prompt, 2));
    if (!begun) return;
    calls.joint += is_joint(batch) ? 1 : 0;
    calls.slices += sequences.size() == 1 && batch.size() > 4 ? 1 : 0;
  });
  world.start();
  std::vector<std::vector<TokenId>> short_prompts;
  for (std::size_t i = 0; i < kReplies; ++i) short_prompts.push_back(random_tokens(random, 8));
  const auto replies = world.submit_at_once(short_prompts, 1'000);
  EXPECT_EQ(asked.get_future().get().get().tokens, world.expected(prompt, 2));
  world.stop();
  return calls;
}

TEST(CallsByTime, AreSharedWhereEachCallCosts) {
  const CallCounts calls = calls_in(60, 1);
  EXPECT_GT(calls.joint, 5 * calls.slices);
}

TEST(CallsByTime, AreNotSharedWhereThatIsDearer) {
  const CallCounts calls = calls_in(0, 20);
  EXPECT_GT(calls.slices, 50U);
  EXPECT_LE(calls.joint, 8U) << "two of each number of replies";
}

}  // namespace
}  // namespace kvkeep::server
