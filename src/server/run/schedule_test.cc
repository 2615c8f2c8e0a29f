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
    (void)schedule.note_slice(admitted, *admitted[0], tokens, static_cast<double>(tokens));
  }
  EXPECT_EQ(schedule.view(admitted, queue, {}).limits.shared_slice_tokens, 128U) << "150 tokens, in whole tiles";
  const Schedule unbounded = make_schedule({.parallel = 1, .slice_ms = 0});
  EXPECT_EQ(unbounded.view(admitted, queue, {}).limits.shared_slice_tokens, engine.description().batch_tokens);
}

TEST_F(ScheduleTest, CountsHowOftenRequestsWerePassedAndPreempted) {
  add_prefilling(1);
  add_prefilling(2);
  Schedule schedule = make_schedule({.parallel = 2, .slice_ms = 150});
  EXPECT_FALSE(schedule.note_slice(admitted, *admitted[0], 32, 1));
  EXPECT_FALSE(schedule.note_slice(admitted, *admitted[0], 32, 1));
  EXPECT_EQ(admitted[1]->passed, 2U);
  EXPECT_TRUE(schedule.note_slice(admitted, *admitted[1], 32, 1)) << "the first one has begun and is not done";
  EXPECT_EQ(admitted[1]->passed, 0U);
  EXPECT_EQ(admitted[0]->passed, 1U);
  admitted[1]->phase = Request::Phase::kDecode;
  EXPECT_FALSE(schedule.note_slice(admitted, *admitted[0], 32, 1));
}

TEST_F(ScheduleTest, CapturesAreSoManyTokensApart) {
  add_prefilling(1);
  const Schedule schedule = make_schedule({.capture_prefilled_tokens = 64});
  EXPECT_EQ(schedule.capture_stride(*admitted[0]).tokens, 64U);
  EXPECT_FALSE(schedule.capture_stride(*admitted[0]).bounds);
}

}  // namespace
}  // namespace kvkeep::server
