// One call or two: against backends whose times are known.

#include "policy/call_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace kvkeep::policy {
namespace {

// Each call costs `call_ms`, and each token as many as it is deep; tokens of runners cost `mixed` times as much in a
// call with a slice.
struct Backend {
  double call_ms = 0;
  double token_ms = 1;
  double depth_ms = 0;  // per token, in a depth of 1,000
  double mixed = 1;

  double slice_ms(const RoundWork& work) const {
    const double depth = static_cast<double>(work.from) + static_cast<double>(work.slice) / 2;
    return static_cast<double>(work.slice) * (token_ms + depth_ms * depth / 1'000);
  }
  double runners_ms(const RoundWork& work) const { return static_cast<double>(work.runners) * token_ms; }
  double ms(const RoundWork& work, CallWay way) const {
    return way == CallWay::kTogether ? call_ms + slice_ms(work) + mixed * runners_ms(work)
                                     : 2 * call_ms + slice_ms(work) + runners_ms(work);
  }
  // The share of time that one call saves.
  double gain(const RoundWork& work) const { return 1 - ms(work, CallWay::kTogether) / ms(work, CallWay::kApart); }
};

// Prompts of `prompt` tokens, one after the other, in slices of `slice` next to running replies.
class Server {
 public:
  explicit Server(const Backend& backend) : backend_(backend) {}
  void set_backend(const Backend& backend) { backend_ = backend; }
  void set_noise(double share, std::uint32_t seed) {
    noise_ = share;
    random_.seed(seed);
  }
  RoundWork work() const { return {.request = request_, .from = from_, .slice = slice, .runners = runners}; }

  CallChoice round() {
    const CallChoice choice = meter.next(work(), prompt - from_);
    const double noisy = 1 + noise_ * std::normal_distribution<double>()(random_);
    const auto result = meter.note(work(), choice, backend_.ms(work(), choice.way) * std::max(noisy, 0.1));
    if (result) results.push_back(*result);
    joint_rounds += choice.way == CallWay::kTogether ? 1 : 0;
    measured_rounds += choice.measured ? 1 : 0;
    from_ += slice;
    if (from_ >= prompt) {
      from_ = 0;
      ++request_;
    }
    return choice;
  }
  void rounds(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) round();
  }
  // Until the next trial has ended.
  CallMeter::Result trial() {
    const std::size_t before = results.size();
    for (std::size_t i = 0; i < 100'000 && results.size() == before; ++i) round();
    EXPECT_GT(results.size(), before) << "a trial ends";
    return results.size() > before ? results.back() : CallMeter::Result{};
  }

  CallMeter meter;
  std::size_t prompt = 64 * 256;
  std::size_t slice = 256;
  std::size_t runners = 3;
  std::vector<CallMeter::Result> results;
  std::size_t joint_rounds = 0;
  std::size_t measured_rounds = 0;

 private:
  Backend backend_;
  double noise_ = 0;
  std::mt19937 random_{1};
  std::uint64_t request_ = 1;
  std::size_t from_ = 0;
};

TEST(CallMeter, BeginsWithTwoCalls) {
  Server server({.call_ms = 100});
  for (std::uint32_t i = 0; i < CallMeter::kFirstRounds; ++i) {
    EXPECT_EQ(server.round(), (CallChoice{CallWay::kApart, false})) << i;
  }
  EXPECT_EQ(server.round(), (CallChoice{CallWay::kApart, true}));
  EXPECT_EQ(server.round(), (CallChoice{CallWay::kTogether, true}));
}

TEST(CallMeter, UsesOneCallWhereEachCallCosts) {
  Server server({.call_ms = 50, .depth_ms = 0.1});
  server.rounds(CallMeter::kFirstRounds + 8);
  ASSERT_EQ(server.results.size(), 1U) << "four pairs are enough if all say so";
  EXPECT_TRUE(server.results[0].changed);
  EXPECT_NEAR(server.results[0].gain, 0.14, 0.03);
  EXPECT_EQ(server.round(), (CallChoice{CallWay::kTogether, false}));
}

TEST(CallMeter, TriesOneCallTwiceWhereItIsDearer) {
  Server server({.mixed = 20});
  EXPECT_EQ(server.trial().way, CallWay::kApart);
  EXPECT_EQ(server.joint_rounds, 2U);
  EXPECT_FALSE(server.results[0].changed);
  EXPECT_LT(server.results[0].gain, -0.15);
  EXPECT_EQ(server.round(), (CallChoice{CallWay::kApart, false}));
}

// Costs per call, token, depth and mixing in all combinations: the cheaper way is found at any depth, one call only if
// it saves the margin.
TEST(CallMeter, FindsTheCheaperWayOnEveryBackend) {
  std::size_t together = 0;
  for (const double call_ms : {0.0, 2.0, 8.0, 15.0, 40.0, 200.0}) {
    for (const double depth_ms : {0.0, 0.02, 0.2, 1.0}) {
      for (const double mixed : {0.5, 1.0, 2.0, 5.0, 40.0}) {
        for (const std::size_t runners : {1U, 3U, 8U, 60U}) {
          const Backend backend{.call_ms = call_ms, .depth_ms = depth_ms, .mixed = mixed};
          Server server(backend);
          server.runners = runners;
          RoundWork work = server.work();
          const double at_begin = backend.gain(work);
          work.from = server.prompt;
          const double at_end = backend.gain(work);
          const CallWay way = server.trial().way;
          const auto told = testing::Message() << "call " << call_ms << " depth " << depth_ms << " mixed " << mixed
                                               << " runners " << runners << " gain " << at_begin << " to " << at_end;
          if (std::min(at_begin, at_end) > CallMeter::kMargin + 0.005) {
            EXPECT_EQ(way, CallWay::kTogether) << told;
          }
          if (std::max(at_begin, at_end) < CallMeter::kMargin - 0.005) {
            EXPECT_EQ(way, CallWay::kApart) << told;
          }
          together += way == CallWay::kTogether ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(together, 100U) << "both ways occur";
  EXPECT_LT(together, 380U);
}

// The second half of a pair lies deeper. Were the order the same in each pair, it would seem dearer or cheaper.
TEST(CallMeter, DepthSpeaksForNeitherWay) {
  for (const double depth_ms : {0.5, 2.0, 10.0}) {
    Server server({.depth_ms = depth_ms});
    server.prompt = 16 * server.slice;
    EXPECT_EQ(server.trial().way, CallWay::kApart) << depth_ms;
    Server gaining({.call_ms = 30, .depth_ms = 0.5});
    EXPECT_EQ(gaining.trial().way, CallWay::kTogether);
  }
}

TEST(CallMeter, NoiseHardlyTurnsIt) {
  std::size_t wrong = 0;
  for (std::uint32_t seed = 1; seed <= 500; ++seed) {
    Server equal({});
    equal.set_noise(0.05, seed);
    wrong += equal.trial().way == CallWay::kTogether ? 1 : 0;
    Server gaining({.call_ms = 80});
    gaining.set_noise(0.05, seed);
    EXPECT_EQ(gaining.trial().way, CallWay::kTogether) << "seed " << seed;
    Server losing({.mixed = 20});
    losing.set_noise(0.05, seed);
    EXPECT_EQ(losing.trial().way, CallWay::kApart) << "seed " << seed;
  }
  EXPECT_LE(wrong, 75U) << "of 500, each until the next trial";
}

TEST(CallMeter, KeepsOneCallAsLongAsItIsCheaperAtAll) {
  Server server({.call_ms = 50});
  ASSERT_EQ(server.trial().way, CallWay::kTogether);
  server.set_backend({.call_ms = 3});
  EXPECT_EQ(server.trial().way, CallWay::kTogether) << "by a hundredth";
  server.set_backend({.call_ms = 0, .mixed = 2});
  EXPECT_EQ(server.trial().way, CallWay::kApart);
  EXPECT_TRUE(server.results.back().changed);
  server.set_backend({.call_ms = 3});
  EXPECT_EQ(server.trial().way, CallWay::kApart);
}

TEST(CallMeter, TriesAgainLaterAndLater) {
  Server server({.mixed = 20});
  std::vector<std::size_t> between;
  for (int i = 0; i < 10; ++i) {
    std::size_t rounds = 0;
    for (const std::size_t before = server.results.size(); server.results.size() == before; ++rounds) server.round();
    between.push_back(rounds);
  }
  for (std::size_t i = 1; i < between.size(); ++i) {
    const std::size_t rest = std::min<std::size_t>(CallMeter::kFirstRest << (i - 1), CallMeter::kLongestRest);
    EXPECT_GE(between[i], rest + 4) << i;
    EXPECT_LE(between[i], rest + 16) << i;
  }
  EXPECT_EQ(server.joint_rounds, 20U);
  server.set_backend({.call_ms = 50});
  EXPECT_EQ(server.trial().way, CallWay::kTogether);
  const std::size_t before = server.measured_rounds;
  server.rounds(CallMeter::kFirstRest);
  EXPECT_EQ(server.measured_rounds, before);
  server.rounds(2);
  EXPECT_EQ(server.measured_rounds, before + 2) << "after a change it is tried as soon as in the beginning";
}

TEST(CallMeter, EachNumberOfRunnersHasItsOwnWay) {
  Server server({.call_ms = 50});
  ASSERT_EQ(server.trial().way, CallWay::kTogether);
  server.runners = 2;
  EXPECT_EQ(server.round().way, CallWay::kTogether) << "about as many";
  server.runners = 9;
  EXPECT_EQ(server.round().way, CallWay::kApart);
  server.set_backend({.mixed = 20});
  EXPECT_EQ(server.trial().way, CallWay::kApart);
  server.runners = 3;
  EXPECT_EQ(server.round().way, CallWay::kTogether);
}

// ---- pairs ----

// Both ways would give a result at once if these rounds made pairs: one call costs half of two.
class Pairs : public testing::Test {
 protected:
  Pairs() {
    for (std::uint32_t i = 0; i < CallMeter::kFirstRounds; ++i) play(next_, 1'000'000);
  }
  CallChoice play(const RoundWork& work, std::size_t left) {
    const CallChoice choice = meter_.next(work, left);
    if (meter_.note(work, choice, choice.way == CallWay::kTogether ? 50 : 100)) ended_ = true;
    joint_ += choice.way == CallWay::kTogether ? 1 : 0;
    return choice;
  }
  // Plays measured rounds in which `change` follows each.
  template <typename Change>
  void play_and(Change change) {
    for (int i = 0; i < 12; ++i) {
      play(next_, 1'000'000);
      change(next_);
    }
  }

  CallMeter meter_;
  RoundWork next_{.request = 1, .from = 0, .slice = 256, .runners = 4};
  bool ended_ = false;
  std::size_t joint_ = 0;
};

TEST_F(Pairs, AreNeighboursInOnePrompt) {
  play_and([](RoundWork& next) { next.from += next.slice; });
  EXPECT_TRUE(ended_);
}

TEST_F(Pairs, AreNotMadeAcrossPrompts) {
  play_and([](RoundWork& next) {
    next.from += next.slice;
    ++next.request;
  });
  EXPECT_FALSE(ended_);
  EXPECT_EQ(joint_, 0U) << "a first half is made in two calls as long as there is no pair";
}

TEST_F(Pairs, AreNotMadeAcrossGaps) {
  play_and([](RoundWork& next) { next.from += next.slice + 1; });
  EXPECT_FALSE(ended_);
}

TEST_F(Pairs, AreNotMadeOfSlicesThatDiffer) {
  play_and([](RoundWork& next) {
    next.from += next.slice;
    next.slice = next.slice == 256 ? 200 : 256;
  });
  EXPECT_FALSE(ended_);
}

TEST_F(Pairs, AreMadeOfSlicesThatLackTheRunnersTokens) {
  play_and([](RoundWork& next) {
    next.from += next.slice;
    next.slice = next.slice == 256 ? 252 : 256;
  });
  EXPECT_TRUE(ended_);
}

TEST_F(Pairs, AreNotMadeAcrossNumbersOfRunners) {
  play_and([](RoundWork& next) {
    next.from += next.slice;
    next.runners = next.runners == 4 ? 5 : 4;
  });
  EXPECT_FALSE(ended_);
}

TEST_F(Pairs, AreNotBegunWithThePromptsLastSlice) {
  EXPECT_EQ(play(next_, 511), (CallChoice{CallWay::kApart, false}));
  EXPECT_EQ(play(next_, 512), (CallChoice{CallWay::kApart, true}));
  next_.from += 256;
  EXPECT_EQ(play(next_, 256), (CallChoice{CallWay::kTogether, true})) << "the second half may be the last slice";
}

TEST_F(Pairs, FailToComeForSoLongOnly) {
  for (std::uint32_t i = 0; i < CallMeter::kLongestTrial && !ended_; ++i) {
    EXPECT_TRUE(play(next_, 1'000'000).measured);
    next_.request += 1;
  }
  EXPECT_TRUE(ended_);
  EXPECT_EQ(play(next_, 1'000'000), (CallChoice{CallWay::kApart, false}));
}

// ---- the slice in one call ----

// The most tokens that fit into the batch next to the runners, and need no more micro-batches than without them.
std::size_t naive_slice(std::size_t slice, std::size_t runners, const CallSize& size, bool may_be_shorter) {
  const auto micro_batches = [&](std::size_t tokens) { return (tokens + size.micro_batch - 1) / size.micro_batch; };
  std::size_t fits = slice;
  while (fits > 0 && fits + runners > size.batch) --fits;
  std::size_t found = fits;
  while (may_be_shorter && found > 0 && micro_batches(found + runners) > micro_batches(fits)) --found;
  return found;
}

TEST(SliceWithRunners, FitsTheBatchAndItsMicroBatches) {
  for (std::size_t batch = 1; batch <= 12; ++batch) {
    for (std::size_t micro = 1; micro <= batch; ++micro) {
      for (std::size_t slice = 1; slice <= 14; ++slice) {
        for (std::size_t runners = 1; runners <= 13; ++runners) {
          for (const bool shorter : {false, true}) {
            const CallSize size{.batch = batch, .micro_batch = micro};
            ASSERT_EQ(slice_with_runners(slice, runners, size, shorter), naive_slice(slice, runners, size, shorter))
                << batch << " " << micro << " " << slice << " " << runners << " " << shorter;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
