// Questions about the cache: the answer is what a request then does, and leaves no trace.

#include <array>
#include <future>

#include "server/trace/trace_test_fixture.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

class CollectedAnswer final : public InspectionSink {
 public:
  void on_answer(Result<Inspection> answer) override { promise_.set_value(std::move(answer)); }
  bool gone() const override { return false; }
  Result<Inspection> wait() { return promise_.get_future().get(); }

 private:
  std::promise<Result<Inspection>> promise_;
};

Json look_up(World& world, const Tokens& prompt, bool private_text = true, bool cache_prompt = true) {
  auto sink = std::make_shared<CollectedAnswer>();
  EXPECT_TRUE(world.scheduler.inspect({prompt, cache_prompt}, sink));
  return lookup_json(sink->wait().value(), NumberedVocabulary(), private_text);
}

constexpr std::array kPrediction = {"prompt_tokens", "cached_tokens", "disk_cached_tokens", "cache_source",
                                    "cache_tokens",  "cache_point",   "cache_miss_reason",  "start",
                                    "known_tokens",  "candidates",    "first_difference"};

class Lookup : public Trace, public testing::WithParamInterface<MemoryClass> {};

// A lookup predicts what the request then does, after any history, and two lookups say the same.
TEST_P(Lookup, SaysWhatTheRequestThenDoes) {
  const sim::TemporaryDirectory directory;
  std::mt19937 random(seed());
  std::vector<Tokens> texts = {numbers(200, 30), numbers(300, 31)};
  for (int process = 0; process < 2; ++process) {
    World world(options({.fake = {.cells = 1200, .sequences = 4, .memory_class = GetParam(), .window_tokens = 64},
                         .ram = ByteCount{process == 0 ? 20'000U : 64U << 20},
                         .scheduler = {.parallel = 1},
                         .disk_directory = directory.path()}));
    world.start();
    for (int turn = 0; turn < 15; ++turn) {
      Tokens prompt = texts[random() % texts.size()];
      prompt.resize(1 + random() % prompt.size());
      if (random() % 3 > 0) prompt = prompt + random_tokens(random, 1 + random() % 40);
      if (process == 0) world.cache.flush();  // little RAM: rows that were just written may leave it at any moment
      const Json before = look_up(world, prompt);
      const Json twice = look_up(world, prompt);
      EXPECT_EQ(before["cached_tokens"], twice["cached_tokens"]);
      EXPECT_EQ(before["cached_tokens"].get<std::size_t>() + before["prefill_tokens"].get<std::size_t>(),
                prompt.size());
      const bool cache_prompt = random() % 8 > 0;
      const Json asked = cache_prompt ? before : look_up(world, prompt, true, false);
      const Json then = ask(world, prompt, 8, cache_prompt);
      for (const char* name : kPrediction) EXPECT_EQ(asked[name], then[name]) << name << " " << asked << then;
      texts.push_back(prompt + reply_.tokens);
    }
    world.stop();
    world.cache.flush();
  }
}

INSTANTIATE_TEST_SUITE_P(All, Lookup,
                         testing::Values(MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                                         MemoryClass::kRecurrent, MemoryClass::kOpaque),
                         [](const auto& each) { return std::string(to_string(each.param)); });

TEST_F(Trace, LookupsLeaveNoTrace) {
  World world(options());
  world.start();
  const Tokens prompt = numbers(100, 40);
  ask(world, prompt);
  const std::uint64_t restored = world.engine.counters().rows_restored;
  const auto before = world.cache.stats();
  const std::uint64_t decoded = world.engine.tokens_decoded();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(look_up(world, prompt + numbers(5, 41))["cached_tokens"], 100 + 0);
  EXPECT_EQ(world.engine.tokens_decoded(), decoded);
  EXPECT_EQ(world.engine.counters().rows_restored, restored);
  EXPECT_EQ(world.cache.stats().stored, before.stored);
  EXPECT_EQ(world.scheduler.stats().requests, 1U);
  EXPECT_EQ(world.scheduler.stats().plans, 1U);
}

TEST_F(Trace, ALookupOfARequestThatKeepsOutOfTheCache) {
  World world(options());
  world.start();
  const Tokens prompt = numbers(100, 43);
  ask(world, prompt);
  EXPECT_EQ(look_up(world, prompt)["cached_tokens"], 99);
  const Json off = look_up(world, prompt, true, false);
  EXPECT_EQ(off["cached_tokens"], 0);
  EXPECT_EQ(off["cache_source"], "none");
  EXPECT_EQ(off["cache_miss_reason"], "cache-off");
  EXPECT_EQ(off["candidates"], Json::array());
  EXPECT_EQ(off["first_difference"], nullptr);
}

TEST_F(Trace, ALookupHidesWhatOthersSent) {
  World world(options());
  world.start();
  ask(world, numbers(100, 42));
  Tokens guess = numbers(100, 42);
  guess[9] = guess[9] == 1 ? 2 : 1;
  EXPECT_EQ(look_up(world, guess, false)["first_difference"]["cached"], nullptr);
  EXPECT_EQ(look_up(world, guess, false)["first_difference"]["at"], 9);
  EXPECT_NE(look_up(world, guess, true)["first_difference"]["cached"], nullptr);
}

TEST_F(Trace, TooManyLookupsAndThoseAtTheEndAreRefused) {
  World world;
  std::vector<std::shared_ptr<CollectedAnswer>> asked;
  Status accepted;
  while (accepted && asked.size() < 1000) {
    asked.push_back(std::make_shared<CollectedAnswer>());
    accepted = world.scheduler.inspect({.tokens = {1, 2, 3}}, asked.back());
  }
  ASSERT_EQ(asked.size(), 65U);
  EXPECT_EQ(accepted.error().kind, ErrorKind::kBusy);
  asked.pop_back();
  world.scheduler.stop();
  EXPECT_EQ(world.scheduler.inspect({.tokens = {1}}, asked.back()).error().kind, ErrorKind::kBusy);
  world.start();
  world.stop();
  for (const auto& one : asked) EXPECT_EQ(one->wait().error().kind, ErrorKind::kAborted);
}

}  // namespace
}  // namespace kvkeep::server
