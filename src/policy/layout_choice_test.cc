// Which layout decodes faster: against measured times, a naive twin, and the best choice in hindsight.

#include "policy/layout_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace kvkeep::policy {
namespace {

DecodedView unrelated(std::size_t requests, std::size_t each) {
  return {.requests = requests, .tokens = requests * each, .distinct = requests * each};
}

DecodedView sharing(std::size_t requests, std::size_t prefix, std::size_t each) {
  return {.requests = requests, .tokens = requests * (prefix + each), .distinct = prefix + requests * each};
}

// The small model with rows in f16, as in docs/decisions/0016.
const LayoutFacts kSmall{.row_bytes = 6'144, .weight_bytes = 28e6};

TEST(PoolToOwn, IsAsMeasured) {
  EXPECT_NEAR(pool_to_own(kSmall, unrelated(8, 400)), 460.0 / 275, 0.2);
  EXPECT_NEAR(pool_to_own(kSmall, unrelated(8, 2'000)), 188.0 / 94, 0.2);
  EXPECT_NEAR(pool_to_own(kSmall, sharing(8, 2'000, 12)), 188.0 / 233, 0.05);
}

TEST(PoolToOwn, IsOneForOneRequest) {
  EXPECT_EQ(pool_to_own(kSmall, unrelated(1, 5'000)), 1);
  EXPECT_EQ(pool_to_own({}, unrelated(4, 100)), 1) << "nothing is known of the model";
  DecodedView among_idle = unrelated(1, 5'000);
  among_idle.other_cells = 50'000;
  EXPECT_GT(pool_to_own(kSmall, among_idle), 2) << "cells of idle conversations count in a pool";
}

// A slice of so many tokens of a prompt, next to others' cells in a pool.
SliceView sliced(std::size_t tokens, std::size_t masked) {
  return {.tokens = tokens, .masked = static_cast<double>(tokens * masked)};
}

// Keeps what each call lost and won, and adds up anew. All calls take 300 ms.
struct LossTwin {
  std::vector<double> losses = {};  // since the change
  std::vector<double> owed = {};    // since the beginning: what changes ahead of a loss cost, and what was won
  bool own_cells = false;
  double step_ms_per_byte = 0;
  double slice_ms = 0;

  void note(const DecodedView& decoded) {
    const double pool = pool_to_own(kSmall, decoded);
    const double other_ms = own_cells ? 300 * pool : 300 / pool;
    losses.push_back(300 - 1.1 * other_ms);
    if (!own_cells && !decoded.fits_own_cells) losses.clear();
    if (other_ms > 300) owed.push_back(300 - other_ms);
    step_ms_per_byte = (own_cells ? 300 : 300 / pool) / (28e6 + 6'144.0 * static_cast<double>(decoded.tokens));
  }
  void note(const SliceView& slice) {
    const double masked_ms = step_ms_per_byte * 6'144 * 0.2 / 10 * slice.masked;
    losses.push_back(own_cells ? -masked_ms : masked_ms);
    if (own_cells) owed.push_back(-masked_ms);
    slice_ms = 300;
  }
  void change(bool ahead, double cost) {
    losses.clear();
    own_cells = !own_cells;
    if (ahead) owed.push_back(cost);
  }
  // The most that any number of the last ones add up to.
  static double most(const std::vector<double>& all) {
    double most = 0;
    for (std::size_t from = 0; from < all.size(); ++from) {
      most = std::max(most, std::accumulate(all.begin() + static_cast<std::ptrdiff_t>(from), all.end(), 0.0));
    }
    return most;
  }
  double lost() const { return most(losses); }
  // 100 steps of requests that come, after slices of 200 tokens.
  bool coming_pays(const DecodedView& coming, double cost) const {
    if (coming.requests == 1 || most(owed) > 1e-9 || (!own_cells && !coming.fits_own_cells)) return false;
    const double reads_ms = step_ms_per_byte * (28e6 + 6'144.0 * static_cast<double>(coming.tokens));
    const double own_ms = std::max(reads_ms, slice_ms * static_cast<double>(coming.requests) / 200);
    const double pool_ms = own_ms * pool_to_own(kSmall, coming);
    return 100 * (own_cells ? own_ms - 1.1 * pool_ms : pool_ms - 1.1 * own_ms) >= cost;
  }
};

// All histories of five events: steps of five kinds, a slice, changes after a loss and ahead of one, refusals. After
// each event, both say of each kind whether a change would pay if such requests came.
TEST(LayoutChoice, DecidesAsTheTwinInEachShortHistory) {
  DecodedView long_one = unrelated(8, 2'000);
  long_one.fits_own_cells = false;
  const std::array views{unrelated(8, 2'000), unrelated(8, 400), sharing(8, 2'000, 12), unrelated(1, 400), long_one};
  constexpr std::size_t kEvents = views.size() + 4;
  std::size_t paid = 0;
  std::size_t comes = 0;
  std::size_t histories = 1;
  for (int i = 0; i < 5; ++i) histories *= kEvents;
  for (std::size_t history = 0; history < histories; ++history) {
    LayoutChoice choice(kSmall);
    LossTwin twin;
    std::size_t rest = history;
    for (int i = 0; i < 5; ++i, rest /= kEvents) {
      const std::size_t event = rest % kEvents;
      if (event < views.size()) {
        choice.note_step(views[event], 300);
        twin.note(views[event]);
      } else if (event == views.size()) {
        choice.note_slice(sliced(200, 2'800), 300);
        twin.note(sliced(200, 2'800));
      } else if (event == views.size() + 1) {
        choice.note_refused();
        twin.losses.clear();
      } else {
        const bool ahead = event == views.size() + 2;
        choice.note_changed(!twin.own_cells, 100, ahead);
        twin.change(ahead, choice.change_ms());
      }
      ASSERT_EQ(choice.change_pays(), twin.lost() >= choice.change_ms()) << "history " << history << " at " << i;
      paid += choice.change_pays() ? 1 : 0;
      for (const DecodedView& coming : views) {
        ASSERT_EQ(choice.coming_pays(coming, 100), twin.coming_pays(coming, choice.change_ms()))
            << "history " << history << " at " << i << ": " << coming.requests << " of " << coming.tokens;
        comes += choice.coming_pays(coming, 100) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(paid, histories / 20);
  EXPECT_LT(paid, histories * 3);
  EXPECT_GT(comes, histories);
  EXPECT_LT(comes, histories * 15);
}

// Lets steps of `decoded` pass, at most so many, until a change pays. Returns how many passed.
std::size_t steps_until_change(LayoutChoice& choice, const DecodedView& decoded, double ms, std::size_t most) {
  std::size_t steps = 0;
  while (steps < most && !choice.change_pays()) {
    choice.note_step(decoded, ms);
    ++steps;
  }
  return steps;
}

// Slices add up by hand: 48 MB are read in 14.4 ms, so that a masked cell costs a decoded token 0.2 * 6,144 bytes, or
// 0.00037 ms, and a token of a slice a tenth of that.
TEST(LayoutChoice, SlicesNextToOthersCellsLoseInAPool) {
  LayoutChoice choice({.row_bytes = 6'144, .weight_bytes = 48e6 - 6'144 * 400});
  const SliceView slice = sliced(512, 2'800);
  for (int i = 0; i < 100; ++i) choice.note_slice(slice, 400);
  EXPECT_FALSE(choice.change_pays()) << "no step has told how fast this device is";
  choice.note_step(unrelated(1, 400), 14.4);
  const double each = 14.4 / 48e6 * 6'144 * 0.2 / 10 * slice.masked;
  const auto enough = static_cast<int>(std::ceil(kFirstChangeMs / each));
  ASSERT_GT(enough, 2);
  for (int i = 1; i < enough; ++i) choice.note_slice(slice, 400);
  EXPECT_FALSE(choice.change_pays());
  choice.note_slice(sliced(512, 0), 400);
  EXPECT_FALSE(choice.change_pays());
  choice.note_slice(slice, 400);
  EXPECT_TRUE(choice.change_pays());
}

TEST(LayoutChoice, SlicesKeepCellsOfTheirOwn) {
  LayoutChoice choice(kSmall);
  choice.note_changed(true, 50);
  const DecodedView shared = sharing(8, 2'000, 12);
  const std::size_t alone = steps_until_change(choice, shared, 50, 10'000);
  ASSERT_LT(alone, 100U);
  choice.note_refused();
  for (std::size_t i = 0; i < 2 * alone; ++i) {
    choice.note_step(shared, 50);
    choice.note_slice(sliced(512, 2'800), 400);
  }
  EXPECT_FALSE(choice.change_pays()) << "what decoding loses is won by slices";
}

TEST(LayoutChoice, ASliceThatDoesNotFitKeepsThePool) {
  LayoutChoice choice(kSmall);
  choice.note_step(unrelated(1, 400), 14.4);
  choice.note_slice({.masked = 1e9}, 400);
  ASSERT_TRUE(choice.change_pays());
  choice.note_slice({.masked = 1e9, .fits_own_cells = false}, 400);
  EXPECT_FALSE(choice.change_pays());
}

// ---- requests that come ----

TEST(LayoutChoice, RequestsThatComeChangeNothingBeforeCallsToldHowLongTheyTake) {
  LayoutChoice choice(kSmall);
  EXPECT_FALSE(choice.is_timed());
  EXPECT_FALSE(choice.coming_pays(unrelated(8, 2'000), 1e6));
  choice.note_slice(sliced(kTimedSlice - 1, 0), 400);
  EXPECT_FALSE(choice.is_timed()) << "most of a short slice is the call";
  choice.note_slice(sliced(512, 0), 400);
  EXPECT_TRUE(choice.is_timed());
  EXPECT_TRUE(choice.coming_pays(unrelated(8, 2'000), kForeseen));
}

// A slice tells only the least that a step takes: a token of a slice takes less, and a step never more than a slice.
TEST(LayoutChoice, RequestsThatComeAreTakenToDecodeAsFastAsSlices) {
  LayoutChoice choice(kSmall);
  choice.note_slice(sliced(512, 0), 512);  // 1 ms each: 8 ms for a step of 8, and 1.58 times as much in a pool
  const double lost = 8 * (pool_to_own(kSmall, unrelated(8, 400)) - 1.1);
  EXPECT_FALSE(choice.coming_pays(unrelated(8, 400), kFirstChangeMs / lost - 0.1));
  EXPECT_TRUE(choice.coming_pays(unrelated(8, 400), kFirstChangeMs / lost + 0.1));
  LayoutChoice wide(kSmall);
  wide.note_slice(sliced(kTimedSlice, 0), 10);
  const DecodedView many = unrelated(10 * kTimedSlice, 400);
  const double each = 10 * (pool_to_own(kSmall, many) - 1.1);
  EXPECT_FALSE(wide.coming_pays(many, kFirstChangeMs / each - 0.1)) << "one slice, however many tokens";
  EXPECT_TRUE(wide.coming_pays(many, kFirstChangeMs / each + 0.1));
}

TEST(LayoutChoice, RequestsThatShareAPrefixBringThePoolBackWhenTheyCome) {
  LayoutChoice choice(kSmall);
  choice.note_changed(true, 50);
  choice.note_step(unrelated(8, 2'000), 50);
  EXPECT_FALSE(choice.coming_pays(unrelated(8, 2'000), 1'000));
  EXPECT_TRUE(choice.coming_pays(sharing(8, 2'000, 12), kForeseen));
  EXPECT_FALSE(choice.coming_pays(sharing(8, 2'000, 12), 5)) << "for a few tokens it does not pay";
}

TEST(LayoutChoice, RequestsThatComeWaitWherePricesAreNotKnown) {
  LayoutChoice choice({.row_bytes = 6'144, .weight_bytes = 28e6, .are_priced = false});
  const DecodedView coming = unrelated(8, 2'000);
  for (int i = 0; i < 10; ++i) choice.note_step(coming, 40);
  EXPECT_FALSE(choice.coming_pays(coming, 1'000));
  choice.note_changed(true, 50);
  for (int i = 0; i < 12; ++i) choice.note_step(coming, 20);
  choice.note_changed(false, 50);
  EXPECT_TRUE(choice.coming_pays(coming, 1'000)) << "they have been compared";
}

TEST(LayoutChoice, StaysWhereNothingOrLittleIsWon) {
  LayoutChoice choice(kSmall);
  EXPECT_EQ(steps_until_change(choice, sharing(8, 2'000, 100), 50, 10'000), 10'000U);
  EXPECT_EQ(steps_until_change(choice, unrelated(1, 20'000), 50, 10'000), 10'000U);
  EXPECT_EQ(steps_until_change(choice, unrelated(2, 2'000), 50, 10'000), 10'000U) << "9 %";
  EXPECT_LT(steps_until_change(choice, unrelated(8, 400), 50, 10'000), 20U);
  choice.note_changed(true, 50);
  const double own_ms = 50 / pool_to_own(kSmall, unrelated(8, 400));
  EXPECT_EQ(steps_until_change(choice, unrelated(8, 400), own_ms, 10'000), 10'000U);
  EXPECT_EQ(steps_until_change(choice, unrelated(2, 2'000), 50, 10'000), 10'000U) << "and no more by going back";
  EXPECT_LT(steps_until_change(choice, sharing(8, 2'000, 12), 50, 10'000), 100U);
}

TEST(LayoutChoice, WaitsLongerWhereAChangeTakesLong) {
  LayoutChoice choice(kSmall);
  const std::size_t first = steps_until_change(choice, unrelated(8, 2'000), 10, 10'000);
  choice.note_changed(true, 5'000);
  choice.note_changed(false, 5'000);
  EXPECT_GT(choice.change_ms(), 5'000);
  EXPECT_GT(steps_until_change(choice, unrelated(8, 2'000), 10, 10'000), 20 * first);
}

// Steps take `truth` times as long in a pool as in cells of their own, whatever is estimated.
void pass(LayoutChoice& choice, bool own_cells, double truth, std::size_t steps,
          const DecodedView& decoded = unrelated(8, 2'000)) {
  for (std::size_t i = 0; i < steps; ++i) choice.note_step(decoded, own_cells ? 20 : 20 * truth);
}

// A change from a pool, after which the steps before and after it have been compared.
LayoutChoice compared(double truth, const DecodedView& decoded) {
  LayoutChoice choice(kSmall);
  pass(choice, false, truth, 10, decoded);
  choice.note_changed(true, 50);
  pass(choice, true, truth, 10, decoded);
  return choice;
}

TEST(LayoutChoice, LearnsFromAChangeThatWonNothing) {
  LayoutChoice choice(kSmall);
  pass(choice, false, 0.8, 40);  // this device does not pay for masked cells
  ASSERT_TRUE(choice.change_pays());
  choice.note_changed(true, 50);
  pass(choice, true, 0.8, 12);
  EXPECT_NEAR(pool_to_own(kSmall, unrelated(8, 2'000), choice.prices()), 0.8, 0.01);
  EXPECT_LT(steps_until_change(choice, unrelated(8, 2'000), 20, 1'000), 500U) << "it goes back";
  choice.note_changed(false, 50);
  EXPECT_EQ(steps_until_change(choice, unrelated(8, 2'000), 16, 5'000), 5'000U) << "and stays";
}

TEST(LayoutChoice, ARequestAloneIsTheSameInBothWhateverWasMeasured) {
  for (const double truth : {0.5, 0.7, 1.0, 1.3, 5.0, 100.0}) {
    for (const DecodedView& decoded : {unrelated(8, 2'000), sharing(8, 2'000, 12)}) {
      LayoutChoice choice = compared(truth, decoded);
      EXPECT_EQ(pool_to_own(kSmall, unrelated(1, 5'000), choice.prices()), 1) << truth;
      EXPECT_EQ(steps_until_change(choice, unrelated(1, 5'000), 20, 10'000), 10'000U) << truth;
      choice.note_changed(false, 50);
      EXPECT_EQ(steps_until_change(choice, unrelated(1, 5'000), 20, 10'000), 10'000U) << truth;
    }
  }
}

TEST(LayoutChoice, AComparisonCorrectsThePriceThatItMeasured) {
  const LayoutChoice apart = compared(1, unrelated(8, 2'000));
  EXPECT_NEAR(apart.prices().masked_cell, 0, 1e-9);
  EXPECT_EQ(apart.prices().shared_row, LayoutPrices{}.shared_row);
  const LayoutChoice together = compared(0.6, sharing(8, 2'000, 12));
  EXPECT_EQ(together.prices().masked_cell, LayoutPrices{}.masked_cell);
  EXPECT_NEAR(pool_to_own(kSmall, sharing(8, 2'000, 12), together.prices()), 0.6, 1e-9);
  const LayoutChoice alone = compared(1.4, unrelated(1, 2'000));
  EXPECT_EQ(alone.prices().masked_cell, LayoutPrices{}.masked_cell) << "no part of it is of either price";
  EXPECT_EQ(alone.prices().shared_row, LayoutPrices{}.shared_row);
}

TEST(LayoutChoice, PricesStayWithinReason) {
  EXPECT_NEAR(compared(100, unrelated(8, 2'000)).prices().masked_cell, 0.8, 1e-9);
  EXPECT_NEAR(compared(0.01, sharing(8, 2'000, 12)).prices().shared_row, 1, 1e-9);
  const LayoutChoice least = compared(0.01, unrelated(2, 2'000));
  EXPECT_NEAR(least.prices().masked_cell, -0.2, 1e-9);
  EXPECT_GT(pool_to_own(kSmall, unrelated(64, 2'000), least.prices()), 0);
}

TEST(LayoutChoice, OtherProgramsDoNotMisleadIt) {
  LayoutChoice choice(kSmall);
  pass(choice, false, 2, 20);
  choice.note_changed(true, 50);
  for (int i = 0; i < 12; ++i) choice.note_step(unrelated(8, 2'000), i % 4 == 0 ? 20 : 90);
  EXPECT_NEAR(pool_to_own(kSmall, unrelated(8, 2'000), choice.prices()), 2, 0.05);
}

TEST(LayoutChoice, ComparesOnlyTheSameNumberOfRequests) {
  LayoutChoice choice(kSmall);
  pass(choice, false, 2, 20);
  choice.note_changed(true, 50);
  for (int i = 0; i < 30; ++i) choice.note_step(unrelated(4, 2'000), 1);
  EXPECT_EQ(choice.prices().masked_cell, LayoutPrices{}.masked_cell);
  pass(choice, true, 2, 10);
  EXPECT_NEAR(pool_to_own(kSmall, unrelated(8, 2'000), choice.prices()), 2, 0.05) << "they decode together again";
  pass(choice, true, 2, 3);
  choice.note_changed(false, 50);
  for (int i = 0; i < 70; ++i) choice.note_step(unrelated(4, 2'000), 1);
  const double before = choice.prices().masked_cell;
  pass(choice, false, 9, 10);
  EXPECT_EQ(choice.prices().masked_cell, before) << "too long ago";
}

// Loads that change at random, with costs as estimated: never much more than the best choice in hindsight, changes
// included; also where requests come that end at once.
TEST(LayoutChoice, IsNeverFarFromTheBestInHindsight) {
  std::mt19937 random(20261127);
  std::size_t ahead = 0;
  for (int run = 0; run < 300; ++run) {
    LayoutChoice choice(kSmall);
    bool own = false;
    double spent = 0;
    std::array<double, 2> best{0, kFirstChangeMs};  // the least cost of ending in a pool, and in cells of their own
    const auto change = [&](bool coming) {
      own = !own;
      spent += kFirstChangeMs;
      choice.note_changed(own, kFirstChangeMs / 2, coming);
    };
    for (int phase = 0; phase < 40; ++phase) {
      const std::size_t requests = 1 + random() % 8;
      const DecodedView decoded =
          random() % 2 == 0 ? unrelated(requests, 100 + random() % 2'000) : sharing(requests, random() % 4'000, 50);
      const double own_ms = 5 + static_cast<double>(random() % 40);
      const double pool_ms = own_ms * pool_to_own(kSmall, decoded);
      if (choice.coming_pays(decoded, kForeseen)) {
        change(true);
        ++ahead;
      }
      for (std::size_t step = random() % (run % 2 == 0 ? 100 : 10); step-- > 0;) {
        const double ms = own ? own_ms : pool_ms;
        choice.note_step(decoded, ms);
        spent += ms;
        best = {best[0] + pool_ms, best[1] + own_ms};
        best = {std::min(best[0], best[1] + kFirstChangeMs), std::min(best[1], best[0] + kFirstChangeMs)};
        if (choice.change_pays()) change(false);
      }
    }
    EXPECT_LE(spent, 1.4 * std::min(best[0], best[1]) + 3 * kFirstChangeMs) << "run " << run;
  }
  EXPECT_GT(ahead, 300U);
}

}  // namespace
}  // namespace kvkeep::policy
