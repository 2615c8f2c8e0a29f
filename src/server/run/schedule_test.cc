// The view of requests that the policy gets, and the lengths of slices, without a scheduler.

#include "server/run/schedule.h"

#include "server/run/parts_fixture.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

class ScheduleTest : public PartsTest {
 protected:
  Schedule make_schedule(const ScheduleOptions& options) {
    return Schedule(options, engine.description(), engine.memory(), sequences);
  }
  void add_prefilling(std::uint64_t number) {
    Job job{.id = "test", .kind = "test", .prompt = counting(200), .sampling = {}};
    job.session = 5;
    job.priority = -1;
    admitted.push_back(make_request({.job = std::move(job), .replies = {std::make_shared<CollectingSink>()}}));
    admitted.back()->number = number;
    admitted.back()->phase = Request::Phase::kPrefill;
  }

  static TokenRange slice_of(std::size_t tokens) { return {Position{}, Position{} + tokens}; }

  Sequences sequences = make_sequences();
  std::vector<std::unique_ptr<Request>> admitted;
  RequestQueue queue;
};

TEST_F(ScheduleTest, ShowsRequestsWithTheirSessionAndPriority) {
  add_prefilling(1);
  const Schedule schedule = make_schedule({.parallel = 3, .slice_ms = 150, .capture_prefilled_tokens = 64});
  const policy::ScheduleView view = schedule.view(admitted, queue, {});
  ASSERT_EQ(view.admitted.size(), 1U);
  EXPECT_EQ(view.admitted[0].session, 5U);
  EXPECT_EQ(view.admitted[0].priority, -1);
  EXPECT_EQ(view.admitted[0].tokens, 200U);
  EXPECT_EQ(view.admitted[0].held, 0U);
  EXPECT_EQ(view.most_admitted, 3U);
}

TEST_F(ScheduleTest, OneThatComputesForAnotherIsAsUrgentAsThat) {
  add_prefilling(1);
  add_prefilling(2);
  admitted[0]->seq = SeqId{1};
  auto urgent = make_request({.job = admitted[0]->job, .replies = {std::make_shared<CollectingSink>()}});
  urgent->job.priority = -7;
  urgent->awaits = AwaitedPrefix{.number = 1, .seq = SeqId{1}, .until = Position{80}};
  const Schedule schedule = make_schedule({.parallel = 2, .slice_ms = 150});
  queue.put_back(std::move(urgent));
  const policy::ScheduleView view = schedule.view(admitted, queue, {});
  EXPECT_EQ(view.admitted[0].priority, -7);
  EXPECT_EQ(view.admitted[1].priority, -1);
}

TEST_F(ScheduleTest, SlicesFollowTheTimeThatTheyTook) {
  add_prefilling(1);
  Schedule schedule = make_schedule({.parallel = 1, .slice_ms = 150});
  EXPECT_EQ(schedule.view(admitted, queue, {}).limits.shared_slice_tokens, policy::kSliceTile);
  for (int i = 0; i < 30; ++i) {
    const std::size_t tokens = schedule.view(admitted, queue, {}).limits.shared_slice_tokens;
    (void)schedule.note_slice(admitted, *admitted[0], slice_of(tokens), static_cast<double>(tokens));
  }
  EXPECT_EQ(schedule.view(admitted, queue, {}).limits.shared_slice_tokens, 128U) << "150 tokens, in whole tiles";
  const Schedule unbounded = make_schedule({.parallel = 1, .slice_ms = 0});
  EXPECT_EQ(unbounded.view(admitted, queue, {}).limits.shared_slice_tokens, engine.description().batch_tokens);
}

TEST_F(ScheduleTest, ASliceHasTheTimeThatRestoresLeave) {
  add_prefilling(1);
  add_prefilling(2);
  Schedule schedule = make_schedule({.parallel = 2, .slice_ms = 150});
  for (int i = 0; i < 30; ++i) (void)schedule.note_slice(admitted, *admitted[0], slice_of(128), 128);
  const auto limits = [&] { return schedule.view(admitted, queue, {}).limits; };
  schedule.begin_slice(admitted, admitted[1].get(), 0);
  EXPECT_EQ(limits().shared_slice_tokens, 128U);
  EXPECT_EQ(admitted[0]->passed, 0U);
  schedule.begin_slice(admitted, admitted[1].get(), 70);
  EXPECT_EQ(limits().shared_slice_tokens, 64U) << "80 ms are left";
  EXPECT_FALSE(limits().slice_is_taken);
  EXPECT_EQ(admitted[0]->passed, 0U);
  schedule.begin_slice(admitted, admitted[1].get(), 75);
  EXPECT_TRUE(limits().slice_is_taken);
  EXPECT_EQ(policy::next_slice(schedule.view(admitted, queue, {})), std::nullopt);
  EXPECT_EQ(admitted[0]->passed, 1U) << "the restore had the slice";
  EXPECT_EQ(admitted[1]->passed, 0U);
  schedule.begin_slice(admitted, nullptr, 0);
  EXPECT_FALSE(limits().slice_is_taken);
}

// Its rows have 32 bytes each.
TEST_F(ScheduleTest, ShowsHowMuchWorkARestoreIs) {
  add_prefilling(1);
  Request& request = *admitted[0];
  request.restore.begin(nullptr, Position{150}, false);
  const Schedule schedule = make_schedule({.parallel = 1, .slice_ms = 150});
  const policy::Rates rates{.prefill_tokens_per_s = 100, .ram_restore_bytes_per_s = 32'000};
  EXPECT_EQ(schedule.view(admitted, queue, rates).admitted[0].restores, 0U);
  request.phase = Request::Phase::kRestoring;
  EXPECT_EQ(schedule.view(admitted, queue, rates).admitted[0].restores, 150U);
  EXPECT_NEAR(schedule.view(admitted, queue, rates).limits.restored_token, 0.1, 0.001);
  EXPECT_EQ(schedule.view(admitted, queue, {}).limits.restored_token, 0) << "no rate is known yet";
}

class SchedulePins : public PartsTest {
 protected:
  SchedulePins() : PartsTest({.cells = 4000, .batch_tokens = 64, .memory_class = engine::MemoryClass::kWindowed}) {}
};

TEST_F(SchedulePins, HoldWhereWindowsAreCaptured) {
  Sequences sequences = make_sequences();
  const Schedule pinned({.capture_prefilled_tokens = 64, .pinned_slice_tokens = 64}, engine.description(),
                        engine.memory(), sequences);
  const Schedule free({.capture_prefilled_tokens = 64}, engine.description(), engine.memory(), sequences);
  const auto request = make_request({.job = {.id = "test", .kind = "test", .prompt = counting(3'000), .sampling = {}},
                                     .replies = {std::make_shared<CollectingSink>()}});
  for (const std::uint32_t at : {0U, 64U, 100U, 640U}) {
    request->captured_to = Position{at};
    const std::size_t stride = pinned.capture_stride(*request).tokens;
    EXPECT_EQ((at + stride) % 64, 0U);
    EXPECT_GE(stride, free.capture_stride(*request).tokens);
    EXPECT_LT(stride, free.capture_stride(*request).tokens + 64);
  }
  request->captured_to = Position{100};
  EXPECT_NE((100 + free.capture_stride(*request).tokens) % 64, 0U);
}

TEST_F(ScheduleTest, CountsHowOftenRequestsWerePassedAndPreempted) {
  add_prefilling(1);
  add_prefilling(2);
  Schedule schedule = make_schedule({.parallel = 2, .slice_ms = 150});
  EXPECT_FALSE(schedule.note_slice(admitted, *admitted[0], slice_of(32), 1));
  EXPECT_FALSE(schedule.note_slice(admitted, *admitted[0], slice_of(32), 1));
  EXPECT_EQ(admitted[1]->passed, 2U);
  EXPECT_TRUE(schedule.note_slice(admitted, *admitted[1], slice_of(32), 1))
      << "the first one has begun and is not done";
  EXPECT_EQ(admitted[1]->passed, 0U);
  EXPECT_EQ(admitted[0]->passed, 1U);
  admitted[1]->phase = Request::Phase::kDecode;
  EXPECT_FALSE(schedule.note_slice(admitted, *admitted[0], slice_of(32), 1));
}

TEST_F(ScheduleTest, CapturesAreSoManyTokensApart) {
  add_prefilling(1);
  const Schedule schedule = make_schedule({.capture_prefilled_tokens = 64});
  EXPECT_EQ(schedule.capture_stride(*admitted[0]).tokens, 64U);
  EXPECT_FALSE(schedule.capture_stride(*admitted[0]).bounds);
}

}  // namespace
}  // namespace kvkeep::server
