// Random loads in every class of memory: clients leave in every phase, deadlines pass, requests have priorities,
// sessions, keys and several replies. Each accepted request ends once, what came of it is right, and at the end nothing
// is held.

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>

#include "policy/call_meter.h"
#include "server/run/places.h"
#include "server/run/scheduler_stats.h"
#include "server/run/scheduler_test_fixture.h"
#include "server/run/sequences.h"

namespace kvkeep::server {
namespace {

using engine::MemoryClass;

// A client that the test makes leave: after so many tokens, or at any call of the model.
class FickleSink final : public JobSink {
 public:
  explicit FickleSink(std::size_t leave_after) : leave_after_(leave_after), left_(leave_after == 0) {}
  void on_prefill(const JobStats&, std::size_t, double) override { EXPECT_EQ(ends_, 0); }
  bool on_token(TokenId token, const JobStats&) override {
    EXPECT_EQ(ends_, 0);
    tokens_.push_back(token);
    if (tokens_.size() >= leave_after_) left_ = true;
    return true;
  }
  void on_done(Finish how, const JobStats&, const std::optional<Error>& error) override {
    ++ends_;
    how_ = how;
    error_ = error;
    ended_ = true;
  }
  bool gone() const override { return left_; }
  void leave() { left_ = true; }

  // Any thread.
  bool ended() const { return ended_; }
  // Once it ended.
  int ends() const { return ends_; }
  Finish how() const { return how_; }
  const std::optional<Error>& error() const { return error_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  bool left() const { return left_; }

 private:
  const std::size_t leave_after_;
  std::atomic<bool> left_;
  std::vector<TokenId> tokens_;
  int ends_ = 0;
  Finish how_ = Finish::kError;
  std::optional<Error> error_;
  std::atomic<bool> ended_ = false;
};

struct Asked {
  Job job;
  std::vector<std::shared_ptr<FickleSink>> sinks;  // one of each reply
};

struct Load {
  const char* name;
  MemoryClass memory_class;
  bool own_cells = false;
  policy::DecodeWithPrefill calls = policy::DecodeWithPrefill::kApart;
  bool chosen = false;  // the layout changes while requests run, some of which do not fit into cells of their own
};

class RandomLoad : public testing::TestWithParam<Load> {
 protected:
  WorldOptions options() {
    const bool own = GetParam().own_cells;
    return {.fake = {.cells = own ? 3'000U : 500U,
                     .own_cells = own,
                     .own_sequences = GetParam().chosen ? 3U : 0U,
                     .sequences = 6,
                     .batch_tokens = 32,
                     .memory_class = GetParam().memory_class,
                     .window_tokens = 16},
            .ram = ByteCount{200'000},
            .scheduler = {.parallel = 3,
                          .slice_ms = 1e-6,
                          .capture_prefilled_tokens = 16,
                          .decode_with_prefill = GetParam().calls,
                          .capture_every_tokens = 8},
            .clock = &clock_};
  }

  Asked make() {
    std::vector<TokenId> prompt = prompts_[random_() % prompts_.size()];
    if (random_() % 2 == 0) prompt.resize(1 + random_() % prompt.size());
    prompt = prompt + random_tokens(random_, 1 + random_() % 40);
    prompt.resize(std::min<std::size_t>(prompt.size(), 250));
    Asked asked;
    asked.job = {.id = "random", .kind = "chat", .prompt = prompt, .sampling = World::greedy()};
    asked.job.max_tokens = 1 + random_() % 40;
    asked.job.session = random_() % 4;
    asked.job.key = asked.job.owner = random_() % 3;
    asked.job.priority = static_cast<int>(random_() % 3) - 1;
    asked.job.cache_prompt = random_() % 8 != 0;
    if (random_() % 5 == 0) asked.job.longest_ms = static_cast<double>(1 + random_() % 400);
    if (random_() % 9 == 0) asked.job.place = random_() % 5;
    const std::size_t replies = random_() % 6 == 0 ? 2 + random_() % 3 : 1;
    for (std::size_t i = 0; i < replies; ++i) {
      asked.sinks.push_back(std::make_shared<FickleSink>(random_() % 4 == 0 ? random_() % 12 : SIZE_MAX));
    }
    return asked;
  }

  // One that has not ended leaves at some calls of the model, wherever it is.
  void leave_at_random_calls(World& world) {
    world.engine.set_on_decode([this, &world](std::span<const engine::BatchToken>) {
      // Few steps cost as much as a change, and those in cells of their own are shorter.
      if (GetParam().chosen) clock_.step_ns = world.engine.memory().own_cells() ? 5'000'000 : 20'000'000;
      if (all_.empty() || leaves_() % 10 != 0) return;
      const Asked& one = all_[leaves_() % all_.size()];
      one.sinks[leaves_() % one.sinks.size()]->leave();
      if (leaves_() % 2 == 0) wake_();
    });
  }

  void expect_right(const World& world, const Asked& asked, const FickleSink& sink) {
    ASSERT_EQ(sink.ends(), 1) << "each ends once";
    const std::vector<TokenId> expected =
        world.expected(asked.job.prompt, static_cast<std::size_t>(*asked.job.max_tokens));
    ASSERT_LE(sink.tokens().size(), expected.size());
    EXPECT_TRUE(std::equal(sink.tokens().begin(), sink.tokens().end(), expected.begin()));
    if (sink.how() == Finish::kError) {
      EXPECT_EQ(sink.error()->kind, ErrorKind::kBusy) << sink.error()->message;
      EXPECT_GT(asked.job.longest_ms, 0);
    } else if (sink.how() == Finish::kGone) {
      EXPECT_TRUE(std::ranges::any_of(asked.sinks, &FickleSink::left)) << "what ends a prompt ends its replies";
    } else if (asked.job.longest_ms == 0) {
      EXPECT_EQ(sink.tokens().size(), expected.size());
    }
  }

  // On the engine thread, when all have ended.
  static void expect_nothing_held(World& world) {
    std::promise<void> looked;
    ASSERT_TRUE(world.scheduler
                    .ask([&](const Error* stopped, Places& places, Sequences& sequences, cache::Cache&) {
                      EXPECT_EQ(stopped, nullptr);
                      EXPECT_TRUE(std::ranges::none_of(places.all(), &Place::running));
                      sequences.clear_idle();
                      std::uint32_t held = world.engine.memory().cells_used();
                      const auto count = static_cast<std::int32_t>(world.engine.memory().sequence_count());
                      for (std::int32_t i = 0; i < count; ++i) {
                        held += world.engine.memory().length(SeqId{i}).value();
                        EXPECT_NE(sequences[SeqId{i}].state, Sequence::State::kBusy) << "sequence " << i;
                      }
                      EXPECT_EQ(held, 0U) << "cells that no request has";
                      looked.set_value();
                    })
                    .ok());
    ASSERT_EQ(looked.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  }

  static bool wait_until_ended(const std::vector<Asked>& all) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (const Asked& asked : all) {
      for (const auto& sink : asked.sinks) {
        while (!sink->ended()) {
          if (std::chrono::steady_clock::now() > end) return false;
          std::this_thread::yield();
        }
      }
    }
    return true;
  }

  SteppingClock clock_;
  std::mt19937 random_{seed()};
  std::mt19937 leaves_{seed()};  // used on the engine thread only
  std::vector<std::vector<TokenId>> prompts_{random_tokens(random_, 100)};
  std::vector<Asked> all_;  // of a wave; set while the engine computes nothing
  std::function<void()> wake_;
};

TEST_P(RandomLoad, EndsEachRequestOnceAndHoldsNothingAfterwards) {
  spdlog::set_level(spdlog::level::off);
  World world(options());
  wake_ = [&world] { world.scheduler.wake(); };
  leave_at_random_calls(world);
  world.start();
  for (int wave = 0; wave < 25 && !HasFailure(); ++wave) {
    std::vector<Asked> all;
    for (int i = 0; i < 8; ++i) all.push_back(make());
    all_ = all;
    for (const Asked& asked : all) {
      ASSERT_TRUE(world.scheduler.submit({{asked.job, {asked.sinks.begin(), asked.sinks.end()}}}).ok());
    }
    ASSERT_TRUE(wait_until_ended(all)) << "a request does not end, wave " << wave;
    while (!world.scheduler.idle()) std::this_thread::yield();
    expect_nothing_held(world);
    for (const Asked& asked : all) {
      for (const auto& sink : asked.sinks) expect_right(world, asked, *sink);
      prompts_.push_back(asked.job.prompt + asked.sinks.front()->tokens());
    }
  }
  EXPECT_EQ(world.scheduler.stats().running + world.scheduler.stats().waiting, 0U);
  EXPECT_EQ(world.scheduler.stats().layout_changes > 1, GetParam().chosen);
  EXPECT_EQ(world.scheduler.stats().joint_calls > 0, GetParam().calls == policy::DecodeWithPrefill::kTogether);
  world.stop();
  spdlog::set_level(spdlog::level::info);
}

INSTANTIATE_TEST_SUITE_P(Classes, RandomLoad,
                         testing::Values(Load{"Sliceable", MemoryClass::kSliceable},
                                         Load{"Windowed", MemoryClass::kWindowed}, Load{"Hybrid", MemoryClass::kHybrid},
                                         Load{"Recurrent", MemoryClass::kRecurrent},
                                         Load{"Opaque", MemoryClass::kOpaque}, Load{"Uncached", MemoryClass::kUncached},
                                         Load{"SliceableOwnCells", MemoryClass::kSliceable, true},
                                         Load{"WindowedOwnCells", MemoryClass::kWindowed, true}),
                         [](const auto& load) { return std::string(load.param.name); });

constexpr auto kTogether = policy::DecodeWithPrefill::kTogether;
constexpr auto kApart = policy::DecodeWithPrefill::kApart;
INSTANTIATE_TEST_SUITE_P(ChosenLayout, RandomLoad,
                         testing::Values(Load{"Sliceable", MemoryClass::kSliceable, false, kApart, true},
                                         Load{"Windowed", MemoryClass::kWindowed, false, kApart, true},
                                         Load{"Hybrid", MemoryClass::kHybrid, false, kApart, true}),
                         [](const auto& load) { return std::string(load.param.name); });

INSTANTIATE_TEST_SUITE_P(SharedCalls, RandomLoad,
                         testing::Values(Load{"Sliceable", MemoryClass::kSliceable, false, kTogether},
                                         Load{"Windowed", MemoryClass::kWindowed, false, kTogether},
                                         Load{"Hybrid", MemoryClass::kHybrid, false, kTogether},
                                         Load{"Recurrent", MemoryClass::kRecurrent, false, kTogether},
                                         Load{"Opaque", MemoryClass::kOpaque, false, kTogether},
                                         Load{"Uncached", MemoryClass::kUncached, false, kTogether},
                                         Load{"SliceableOwnCells", MemoryClass::kSliceable, true, kTogether},
                                         Load{"WindowedOwnCells", MemoryClass::kWindowed, true, kTogether}),
                         [](const auto& load) { return std::string(load.param.name); });

}  // namespace
}  // namespace kvkeep::server
