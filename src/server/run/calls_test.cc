// What goes into one call of the model, and what its time says.

#include "server/run/calls.h"

#include "server/run/parts_fixture.h"
#include "server/run/schedule.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

using policy::DecodeWithPrefill;

class CallsTest : public PartsTest {
 protected:
  CallsTest() : PartsTest({.cells = 4'000, .sequences = 4, .batch_tokens = 64, .vocabulary_size = 5'000}) {
    add(Request::Phase::kDecode, 20);
    add(Request::Phase::kDecode, 30);
    add(Request::Phase::kPrefill, 400);
  }
  void add(Request::Phase phase, std::size_t prompt) {
    Job job{.id = "test", .kind = "test", .prompt = counting(prompt), .sampling = {}};
    active.push_back(make_request({.job = std::move(job), .replies = {std::make_shared<CollectingSink>()}}));
    Request& request = *active.back();
    request.number = active.size();
    request.phase = phase;
    request.seq = *sequences.place({});
    sequences.occupy(*request.seq, {.id = "test"}, {});
    if (phase != Request::Phase::kDecode) return;
    decode(sequences, *request.seq, request.effective.tokens);
    request.effective.tokens.own().push_back(5);
  }
  Request& runner() { return *active[0]; }
  Request& prefills() { return *active[2]; }

  policy::ScheduleView view() {
    policy::ScheduleView now = schedule.view(active, queue, {});
    now.limits.shared_slice_tokens = 64;
    return now;
  }
  std::vector<Request*> runners() { return runners_of(view(), active); }
  std::optional<ModelCall> begin(Calls& calls) { return calls.begin_round(view(), active, runners()); }
  Calls make(DecodeWithPrefill wanted, std::size_t pinned = 0) { return {wanted, pinned, engine.description()}; }
  bool shares() {
    Calls calls = make(DecodeWithPrefill::kTogether);
    return begin(calls).has_value();
  }

  Sequences sequences = make_sequences();
  std::vector<std::unique_ptr<Request>> active;
  RequestQueue queue;
  Schedule schedule{{.parallel = 4, .slice_ms = 150}, engine.description(), engine.memory(), sequences};
};

TEST_F(CallsTest, PutRunnersFirstAndFillTheBatch) {
  Calls calls = make(DecodeWithPrefill::kTogether);
  const auto call = begin(calls);
  ASSERT_TRUE(call);
  EXPECT_TRUE(call->is_joint());
  EXPECT_EQ(call->slice, 62U);
  EXPECT_EQ(call->requests(), (std::vector<Request*>{active[0].get(), active[1].get(), active[2].get()}));
  const auto batch = call->batch(sequences);
  ASSERT_EQ(batch.size(), 64U);
  EXPECT_EQ(batch[0].seq, *runner().seq);
  EXPECT_EQ(batch[0].at, Position{20});
  EXPECT_EQ(batch[0].token, 5);
  EXPECT_EQ(batch[2].seq, *prefills().seq);
  EXPECT_EQ(batch[2].at, Position{0});
  for (std::size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(batch[i].want_logits, i < 2 || i == 63) << i;
  EXPECT_EQ(call->last(), 63U);
  ASSERT_EQ(engine.decode(batch), engine::DecodeStatus::kOk);
  call->append(sequences);
  for (const auto& each : active) {
    const std::size_t held = sequences[*each->seq].tokens.size();
    EXPECT_EQ(engine.memory().length(*each->seq).value(), held);
    EXPECT_TRUE(std::ranges::equal(sequences[*each->seq].tokens, TokenSpan(each->effective.tokens).first(held)));
  }
}

TEST_F(CallsTest, AreSharedOnlyForTheSameWork) {
  EXPECT_TRUE(shares());
  Calls apart = make(DecodeWithPrefill::kApart);
  EXPECT_FALSE(begin(apart));
  Calls pinned = make(DecodeWithPrefill::kTogether, 64);
  EXPECT_FALSE(begin(pinned));
  const auto refuses = [this](auto change, auto undo) {
    change();
    const bool refused = !shares();
    undo();
    return refused && shares();
  };
  EXPECT_TRUE(refuses([&] { prefills().job.adapters = {1.0F}; }, [&] { prefills().job.adapters = {}; }));
  EXPECT_TRUE(refuses([&] { active[1]->job.adapters = {1.0F}; }, [&] { active[1]->job.adapters = {}; }));
  EXPECT_TRUE(refuses([&] { prefills().job.scored_prompt = 0; }, [&] { prefills().job.scored_prompt.reset(); }));
  EXPECT_TRUE(refuses([&] { prefills().stats.failed_calls = 1; }, [&] { prefills().stats.failed_calls = 0; }));
  EXPECT_TRUE(refuses([&] { active[1]->stats.failed_calls = 1; }, [&] { active[1]->stats.failed_calls = 0; }));
  EXPECT_TRUE(refuses([&] { prefills().from_beginning = true; }, [&] { prefills().from_beginning = false; }));
  EXPECT_TRUE(refuses([&] { runner().from_beginning = true; }, [&] { runner().from_beginning = false; }));
  EXPECT_TRUE(refuses([&] { prefills().effective.media = {{Position{300}, Position{310}}}; },
                      [&] { prefills().effective.media.clear(); }));
  EXPECT_TRUE(refuses([&] { prefills().branches.push_back(std::make_unique<Request>()); },
                      [&] { prefills().branches.clear(); }))
      << "its sampler is still to be made";
  EXPECT_TRUE(refuses([&] { prefills().phase = Request::Phase::kLoading; },
                      [&] { prefills().phase = Request::Phase::kPrefill; }));
  active[0]->phase = active[1]->phase = Request::Phase::kWaiting;
  EXPECT_FALSE(shares()) << "nobody decodes";
}

TEST_F(CallsTest, GiveASliceItsPartOfTheTime) {
  Calls calls = make(DecodeWithPrefill::kTogether);
  const auto joint = begin(calls);
  ASSERT_TRUE(joint);
  const SliceTime time = calls.note(*joint, sequences, 128);
  EXPECT_DOUBLE_EQ(time.ms, 124);
  EXPECT_EQ(time.typical_ms(), 124);
  const ModelCall slice{.prefills = &prefills(), .slice = 64};
  EXPECT_DOUBLE_EQ(calls.note(slice, sequences, 128).ms, 128);
}

// Plays rounds in which one call takes half the time of two. Returns in how many of them it was made.
struct Played {
  std::size_t joint = 0;
  std::size_t untypical = 0;
};
class CallsByMeasure : public CallsTest {
 protected:
  CallsByMeasure() {
    active.pop_back();
    add(Request::Phase::kPrefill, 3'000);
  }
  Played play(std::size_t rounds, bool finds_cells = true, bool loses_slice = false) {
    Played played;
    for (std::size_t i = 0; i < rounds; ++i) {
      if (const auto joint = begin(calls)) {
        ++played.joint;
        if (!finds_cells) calls.note_no_cells();
        played.untypical += calls.note(*joint, sequences, 50).is_typical ? 0 : 1;
        prefill(joint->slice);
        continue;
      }
      (void)calls.note({.runners = runners()}, sequences, 50);
      if (loses_slice) continue;
      const auto slice = policy::next_slice(calls.shaped(view()));
      if (!finds_cells) calls.note_no_cells();
      EXPECT_TRUE(calls.note({.prefills = &prefills(), .slice = slice->tokens}, sequences, 50).is_typical);
      prefill(slice->tokens);
    }
    return played;
  }
  void prefill(std::size_t count) {
    const std::size_t held = sequences[*prefills().seq].tokens.size();
    decode(sequences, *prefills().seq, TokenSpan(prefills().effective.tokens).first(held + count));
  }

  Calls calls = make(DecodeWithPrefill::kAuto);
};

TEST_F(CallsByMeasure, AreSharedOnceThatIsProven) {
  EXPECT_EQ(play(policy::CallMeter::kFirstRounds).joint, 0U);
  const Played trial = play(8);
  EXPECT_EQ(trial.joint, 4U);
  EXPECT_EQ(trial.untypical, 4U) << "slices are not judged by a way that is only tried";
  const Played proven = play(10);
  EXPECT_EQ(proven.joint, 10U);
  EXPECT_EQ(proven.untypical, 0U);
}

TEST_F(CallsByMeasure, AreNotJudgedByCallsThatFoundNoCells) {
  (void)play(policy::CallMeter::kFirstRounds);
  (void)play(12, /*finds_cells=*/false);
  EXPECT_LT(play(4).joint, 4U) << "nothing is proven yet";
}

TEST_F(CallsByMeasure, AreNotJudgedByRoundsWithoutASlice) {
  (void)play(12, true, /*loses_slice=*/true);
  EXPECT_EQ(play(policy::CallMeter::kFirstRounds).joint, 0U);
}

// In both halves of a pair a slice is as long as it may be, though whole tiles are not left for the prompt's end.
TEST_F(CallsByMeasure, CompareSlicesOfOneShape) {
  (void)play(policy::CallMeter::kFirstRounds);
  const std::size_t held = sequences[*prefills().seq].tokens.size();
  prefills().effective.tokens.own().resize(held + 40 * 64 + 38);
  ASSERT_FALSE(begin(calls));
  EXPECT_EQ(policy::next_slice(view())->tokens, 38U);
  EXPECT_EQ(policy::next_slice(calls.shaped(view()))->tokens, 64U);
}

}  // namespace
}  // namespace kvkeep::server
