// How many tokens fit into a time: against machines whose times are known.

#include "policy/slice_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace kvkeep::policy {
namespace {

// A machine that takes `call_ms` for each call and `token_ms` for each token.
double takes(std::size_t tokens, double call_ms, double token_ms) {
  return call_ms + token_ms * static_cast<double>(tokens);
}

TEST(SliceMeter, BeginsShort) {
  SliceMeter meter;
  EXPECT_EQ(meter.within(150), kSliceTile);
  EXPECT_EQ(meter.efficient(), kLeastOwnSlice);
}

TEST(SliceMeter, TriesAtMostTwiceTheLongestThatItKnows) {
  SliceMeter meter;
  for (const std::size_t expected : {128U, 256U, 512U, 1'024U}) {
    meter.note({}, meter.within(150), 0.01);
    EXPECT_EQ(meter.within(150), expected);
  }
}

TEST(SliceMeter, FindsTheLengthOfATime) {
  SliceMeter meter;
  for (int i = 0; i < 100; ++i) {
    const std::size_t tokens = meter.within(150);
    EXPECT_LE(takes(tokens, 10, 1.5), 170) << i;
    meter.note({}, tokens, takes(tokens, 10, 1.5));
  }
  EXPECT_GE(takes(meter.within(150), 10, 1.5), 100);
}

TEST(SliceMeter, FollowsAGrowingContext) {
  SliceMeter meter;
  double token_ms = 1;
  for (int i = 0; i < 400; ++i, token_ms += 0.01) {
    const std::size_t tokens = meter.within(150);
    EXPECT_TRUE(takes(tokens, 5, token_ms) <= 200 || tokens == kSliceTile) << i;
    meter.note({}, tokens, takes(tokens, 5, token_ms));
  }
}

TEST(SliceMeter, LongSlicesSayHowLongShortOnesTake) {
  SliceMeter meter;
  meter.note({}, 512, 1'000);
  EXPECT_EQ(meter.within(150), 64U) << "76 tokens, in whole tiles";
}

TEST(SliceMeter, ABadMomentIsForgotten) {
  SliceMeter meter;
  for (int i = 0; i < 20; ++i) meter.note({}, meter.within(150), takes(meter.within(150), 5, 1));
  const std::size_t before = meter.within(150);
  meter.note({}, before, 2'000);
  EXPECT_LT(meter.within(150), before);
  int slices = 0;
  for (; meter.within(150) < before && slices < 1'000; ++slices) {
    const std::size_t tokens = meter.within(150);
    meter.note({}, tokens, takes(tokens, 5, 1));
  }
  EXPECT_LT(slices, 150);
}

TEST(SliceMeter, SlicesThatCannotBeShortEnoughAreTheLeast) {
  SliceMeter meter;
  for (int i = 0; i < 20; ++i) meter.note({}, 64, 5'000);
  EXPECT_EQ(meter.within(150), kSliceTile);
}

TEST(SliceMeter, TriesSlicesThatNobodyWaitsFor) {
  SliceMeter meter;
  Position at;
  for (int i = 0; i < 10; ++i) {
    const std::size_t tokens = meter.efficient();
    meter.note({.prompt = 1, .begin = at}, tokens, takes(tokens, 100, 1));
    at = at + tokens;
  }
  EXPECT_GT(meter.efficient(), kLeastOwnSlice);
}

// From every position, a series of slices ends at each multiple on its way, at its cuts and at the prompt's end.
TEST(NextSlice, PinnedSlicesEndAtMultiplesAndCuts) {
  for (std::size_t pin = 1; pin <= 9; ++pin) {
    for (std::size_t begin = 0; begin < 30; ++begin) {
      for (std::uint32_t cut = 0; cut < 40; ++cut) {
        std::vector<std::size_t> expected;
        for (std::size_t at = begin + 1; at <= 31; ++at) {
          if (at % pin == 0 || at == cut || at == 31) expected.push_back(at);
        }
        ScheduleView view;
        view.limits = {.batch_tokens = 12, .shared_slice_tokens = 2, .own_slice_tokens = 5, .ahead_slice_tokens = 1};
        view.limits.pinned_tokens = pin;
        view.admitted.push_back({.phase = ScheduledRequest::Phase::kPrefill, .ahead = begin % 2 == 1, .tokens = 31});
        std::vector<std::size_t> ends;
        for (std::size_t held = begin; held < 31; held = ends.back()) {
          view.admitted[0].held = held;
          view.admitted[0].next_cut = cut > held ? std::optional(Position{cut}) : std::nullopt;
          ends.push_back(held + next_slice(view)->tokens);
        }
        ASSERT_EQ(ends, expected) << "pin " << pin << " from " << begin << " cut " << cut;
      }
    }
  }
}

TEST(AheadSlice, LastsAsLongAsAsked) {
  EXPECT_EQ(ahead_slice(2000, 100), 200U);
  EXPECT_EQ(ahead_slice(100, 100), kSliceTile);
  EXPECT_EQ(ahead_slice(0, 100), kSliceTile) << "no rate is known yet";
}

}  // namespace
}  // namespace kvkeep::policy
