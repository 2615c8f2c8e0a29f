// The trace of each kind of request.

#include <algorithm>

#include "server/trace/trace_test_fixture.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

const std::size_t kRowBytes = engine::fake::FakeOptions{}.row_bytes;

TEST_F(Trace, ColdPrompt) {
  World world(options());
  world.start();
  const Json trace = ask(world, numbers(100, 1));
  EXPECT_EQ(trace["trace"], 1);
  EXPECT_EQ(trace["id"], "test");
  EXPECT_EQ(trace["route"], "chat");
  EXPECT_EQ(trace["cache_miss_reason"], "nothing-cached");
  EXPECT_EQ(trace["start"], "fresh");
  EXPECT_EQ(trace["known_tokens"], 0);
  EXPECT_EQ(trace["candidates"], Json::array());
  EXPECT_EQ(trace["first_difference"], nullptr);
  EXPECT_EQ(trace["effective_prompt_tokens"], 100);
  EXPECT_EQ(trace["restored_bytes"], 0);
  EXPECT_EQ(trace["finish"], "length");
  EXPECT_EQ(trace["error"], nullptr);
  // Rows of the prompt after its slice, rows of the reply at its end (the last sampled token is never decoded).
  ASSERT_EQ(trace["cuts"].size(), 2U) << trace;
  EXPECT_EQ(trace["cuts"][0]["at"], 100);
  EXPECT_EQ(trace["cuts"][0]["tokens"], 100);
  EXPECT_EQ(trace["cuts"][0]["reason"], "continued");
  EXPECT_EQ(trace["cuts"][0]["kind"], "rows");
  EXPECT_EQ(trace["cuts"][1]["at"], 107);
  EXPECT_EQ(trace["cuts"][1]["tokens"], 7);
  EXPECT_EQ(trace["cuts"][1]["reason"], "turn");
  EXPECT_EQ(trace["stored_bytes"], world.engine.memory().rows_bytes(100) + world.engine.memory().rows_bytes(7));
  EXPECT_FALSE(trace.contains("body"));
  EXPECT_FALSE(trace.contains("reply"));
}

TEST_F(Trace, AConversationThatGoesOnHasNoDifference) {
  World world(options());
  world.start();
  Tokens talk = numbers(100, 2);
  ask(world, talk);
  talk = talk + reply_.tokens + numbers(20, 3);
  const Json trace = ask(world, talk);
  EXPECT_EQ(trace["cache_miss_reason"], "new-tokens");
  EXPECT_EQ(trace["start"], "in-place");
  EXPECT_EQ(trace["known_tokens"], 107);
  EXPECT_EQ(trace["first_difference"], nullptr) << trace["first_difference"];
  EXPECT_EQ(trace["candidates"][0]["kind"], "memory");
  EXPECT_EQ(trace["candidates"][0]["verdict"], "taken");
  EXPECT_EQ(trace["candidates"][0]["reach"], 107);
  EXPECT_EQ(of_kind(trace["candidates"], "rows")[0]["verdict"], "in-memory");
}

TEST_F(Trace, TheFirstTokenThatDiffersIsShownBetweenItsNeighbours) {
  World world(options());
  world.start();
  const Tokens first = numbers(100, 4);
  Tokens changed = first;
  changed[50] = changed[50] == 1 ? 2 : 1;
  ask(world, first);
  const Json trace = ask(world, changed);
  const Json& difference = trace["first_difference"];
  EXPECT_EQ(difference["at"], 50);
  EXPECT_EQ(difference["begin"], 42);
  EXPECT_EQ(difference["tier"], "memory");
  EXPECT_EQ(difference["known_beyond"], first.size() - 50 + 7) << "the reply's tokens but the last, too";
  EXPECT_EQ(difference["prompt"]["ids"], Json(Tokens(changed.begin() + 42, changed.begin() + 59)));
  EXPECT_EQ(difference["cached"]["ids"], Json(Tokens(first.begin() + 42, first.begin() + 59)));
  EXPECT_EQ(difference["prompt"]["texts"][8], " t" + std::to_string(changed[50]));
  EXPECT_EQ(difference["cached"]["texts"][8], " t" + std::to_string(first[50]));
}

TEST_F(Trace, TheNearestKnownPromptMayBeOnlyInTheCache) {
  World world(options({.fake = {.cells = 400, .sequences = 3}, .scheduler = {.parallel = 1}}));
  world.start();
  const Tokens first = numbers(150, 5);
  Tokens changed = first;
  changed[3] = changed[3] == 1 ? 2 : 1;
  ask(world, first);
  ask(world, numbers(350, 6));  // pushes the prompt out of the model's memory
  const Json trace = ask(world, changed);
  EXPECT_EQ(trace["first_difference"]["at"], 3);
  EXPECT_EQ(trace["first_difference"]["begin"], 0);
  EXPECT_EQ(trace["first_difference"]["tier"], "cache");
  EXPECT_EQ(trace["first_difference"]["cached"]["ids"], Json(Tokens(first.begin(), first.begin() + 12)));
  EXPECT_GE(trace["restored_bytes"], 3 * kRowBytes) << "three rows and their share of what is stored before rows";
  EXPECT_LT(trace["restored_bytes"], 4 * kRowBytes);
  EXPECT_EQ(trace["cache_source"], "ram-token");
}

TEST_F(Trace, EachMissReason) {
  World world(options({.fake = {.cells = 400, .sequences = 3}, .scheduler = {.parallel = 1}}));
  world.start();
  const Tokens prompt = numbers(100, 7);
  EXPECT_EQ(ask(world, prompt)["cache_miss_reason"], "nothing-cached");
  EXPECT_EQ(ask(world, prompt)["cache_miss_reason"], "whole-prompt");
  EXPECT_EQ(ask(world, prompt + numbers(5, 8))["cache_miss_reason"], "new-tokens");
  const Json off = ask(world, prompt, 8, false);
  EXPECT_EQ(off["cache_miss_reason"], "cache-off");
  EXPECT_EQ(off["cache_prompt"], false);
  EXPECT_EQ(off["candidates"], Json::array());
  ask(world, numbers(350, 9));
  world.engine.set_faults({.fail_restore = 1});
  EXPECT_EQ(ask(world, prompt)["cache_miss_reason"], "load-failed");
}

TEST_F(Trace, AModelThatCannotBeCached) {
  World world(options({.fake = {.memory_class = MemoryClass::kUncached, .truncatable = false}}));
  world.start();
  const Json trace = ask(world, numbers(100, 10));
  EXPECT_EQ(trace["cache_miss_reason"], "memory-class");
  EXPECT_EQ(trace["cuts"], Json::array());
}

TEST_F(Trace, RowsWithoutAPoint) {
  World world(options(
      {.fake = {.memory_class = MemoryClass::kHybrid}, .scheduler = {.parallel = 1, .cuts = {.most_points = 1}}}));
  world.start();
  Tokens talk = numbers(300, 11);
  const Json first = ask(world, talk);
  EXPECT_EQ(of_kind(first["cuts"], "point").size(), 2U) << first["cuts"];  // before the last token, and after the reply
  talk.resize(150);
  talk = talk + numbers(50, 12);
  const Json trace = ask(world, talk);
  EXPECT_EQ(trace["cache_miss_reason"], "no-point") << trace;
  EXPECT_EQ(trace["known_tokens"], 150);
  EXPECT_EQ(of_kind(trace["candidates"], "memory")[0]["verdict"], "cannot-stand");
  EXPECT_EQ(of_kind(trace["candidates"], "rows")[0]["verdict"], "no-point");
  EXPECT_EQ(trace["first_difference"]["at"], 150);
}

// The few tokens that all prompts of a template begin with are no loss that anything could have avoided.
TEST_F(Trace, LessThanAPointNeedsIsNothingCached) {
  for (const auto& [shared, reason] : {std::pair(31, "nothing-cached"), std::pair(32, "no-point")}) {
    World world(options(
        {.fake = {.memory_class = MemoryClass::kHybrid}, .scheduler = {.parallel = 1, .cuts = {.most_points = 1}}}));
    world.start();
    Tokens prompt = numbers(300, 26);
    ask(world, prompt);
    prompt.resize(static_cast<std::size_t>(shared));
    const Json trace = ask(world, prompt + numbers(200, 27));
    EXPECT_EQ(trace["cached_tokens"], 0);
    EXPECT_EQ(trace["known_tokens"], shared);
    EXPECT_EQ(trace["cache_miss_reason"], reason);
  }
}

TEST_F(Trace, PointsAreCandidatesAndCuts) {
  for (const auto& [memory_class, kind] :
       {std::pair(MemoryClass::kHybrid, "point"), std::pair(MemoryClass::kOpaque, "whole"),
        std::pair(MemoryClass::kWindowed, "window")}) {
    World world(options({.fake = {.cells = 400, .sequences = 3, .memory_class = memory_class, .window_tokens = 64},
                         .scheduler = {.parallel = 1}}));
    world.start();
    const Tokens prompt = numbers(150, 13);
    const Json first = ask(world, prompt);
    EXPECT_GE(of_kind(first["cuts"], kind).size(), 1U) << kind << first["cuts"];
    ask(world, numbers(350, 14));
    const Json again = ask(world, prompt + reply_.tokens + numbers(3, 15));
    EXPECT_GT(again["cached_tokens"], 0) << kind;
    std::size_t taken = 0;
    for (const Json& one : of_kind(again["candidates"], kind)) taken += one["verdict"] == "taken" ? 1 : 0;
    EXPECT_EQ(taken, 1U) << kind << again["candidates"];
    EXPECT_GT(again["restored_bytes"], 0) << kind;
  }
}

TEST_F(Trace, StateFromDiskAndTooSlowStateAreNamed) {
  const sim::TemporaryDirectory directory;
  const Tokens prompt = numbers(600, 16);
  {
    World world(options({.disk_directory = directory.path()}));
    world.start();
    ask(world, prompt);
    world.stop();
    world.cache.flush();
  }
  World world(options({.disk_directory = directory.path()}));
  world.start();
  const Json trace = ask(world, prompt);
  EXPECT_EQ(trace["disk_cached_tokens"], 599);
  EXPECT_GE(trace["read_bytes"], world.engine.memory().rows_bytes(599));
  EXPECT_GE(trace["restored_bytes"], 599 * kRowBytes);
  EXPECT_EQ(trace["candidates"][0]["kind"], "rows");
  EXPECT_EQ(trace["candidates"][0]["tier"], "disk");
  EXPECT_EQ(trace["candidates"][0]["verdict"], "taken");
  EXPECT_EQ(trace["restore"], "always");
}

TEST_F(Trace, ALoadThatWouldBeSlowerThanPrefillingIsReportedWithTheRates) {
  SteppingClock clock;
  World world(options({.fake = {.cells = 1400, .sequences = 3, .row_bytes = 4096},
                       .scheduler = {.parallel = 1},
                       .clock = &clock,
                       .restore_auto = true}));
  world.start();
  const Tokens prompt = numbers(600, 17);
  ask(world, prompt);
  ask(world, numbers(1300, 18));
  clock.step_ns = 100'000'000'000;  // this restore is slow
  ask(world, prompt);
  clock.step_ns = 1;
  ask(world, numbers(1300, 19));
  const Json trace = ask(world, prompt);
  EXPECT_EQ(trace["cache_miss_reason"], "load-too-slow") << trace;
  EXPECT_EQ(of_kind(trace["candidates"], "rows")[0]["verdict"], "too-slow");
  EXPECT_GT(trace["rates"]["prefill_tokens_per_s"], 0);
  EXPECT_GT(trace["rates"]["ram_restore_bytes_per_s"], 0);
}

TEST_F(Trace, RequestsThatNeverStartedAndThoseInFlight) {
  World world(options({.scheduler = {.parallel = 1}}));
  auto first = world.submit(numbers(100, 20), 4);
  auto second = world.submit(numbers(100, 21), 4, true, 0);  // its client has left already
  world.start();
  const Json left = traces_.next();
  EXPECT_EQ(left["finish"], "client-left");
  EXPECT_EQ(left["cache_miss_reason"], nullptr);
  EXPECT_EQ(left["start"], nullptr);
  EXPECT_EQ(left["inflight"], 2);
  EXPECT_EQ(traces_.next()["inflight"], 1);
  EXPECT_EQ(ask(world, numbers(10, 22))["inflight"], 1);
}

TEST_F(Trace, AnErrorIsReportedInItsWords) {
  World world(options({.fake = {.cells = 200, .sequences = 3}}));
  world.engine.set_faults({.fail_decode = 1});
  world.start();
  auto failing = world.submit(numbers(150, 23), 4);
  (void)failing.get();
  const Json trace = traces_.next();
  EXPECT_EQ(trace["finish"] == "error", trace["error"] != nullptr);
  world.scheduler.stop();
}

TEST_F(Trace, StateOfSequencesThatLeaveIsReported) {
  World world(options({.fake = {.cells = 1000, .sequences = 3}, .ram = ByteCount{0}, .scheduler = {.parallel = 1}}));
  world.start();
  ask(world, numbers(600, 24));
  const Json trace = ask(world, numbers(600, 25));
  const Json& cuts = trace["cuts"];
  EXPECT_TRUE(std::ranges::any_of(cuts, [](const Json& cut) {
    return cut["idle"] == true && cut["reason"] == "evict" && cut["complete"] == false;
  })) << cuts;
}

}  // namespace
}  // namespace kvkeep::server
