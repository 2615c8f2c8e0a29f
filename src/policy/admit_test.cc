#include "policy/admit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/test_seed.h"

namespace kvkeep::policy {
namespace {

constexpr ByteCount kMost{1000};

WriteOffer offer_of(std::uint32_t tokens, std::uint32_t begin = 0, double returns = 0) {
  return {.bytes = ByteCount{tokens}, .tokens = tokens, .begin = Position{begin}, .returns = returns};
}

TEST(Admit, EveryOfferMeetsEveryAllowance) {
  for (std::uint64_t left = 0; left <= kMost.value(); left += 5) {
    for (const double usual : {0.0, 0.5, 1.0, 4.0}) {
      for (const std::uint32_t begin : {0U, 16384U, 100'000U}) {
        for (const double returns : {0.0, 1.0, 7.0}) {
          const AdmitView view{.left = ByteCount{left}, .most = kMost, .usual_saved = usual};
          WriteOffer offer = offer_of(10, begin, returns);
          const double saved = (1 + returns) * (1 + (begin + 5) / 16384.0);
          ASSERT_NEAR(expected_saved_per_byte(offer), saved, 1e-9);
          const bool passes = left >= 500 || (left > 0 && saved >= 4 * (1 - static_cast<double>(left) / 500) * usual);
          ASSERT_EQ(admits(view, offer), passes) << left << " " << usual << " " << saved;
          offer.kept = true;
          ASSERT_EQ(admits(view, offer), left > 0);
        }
      }
    }
  }
}

TEST(Admit, AnOfferThatSavesMoreOrMeetsMoreRoomIsNotRefusedWhereLessPasses) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  const auto below = [&](std::uint64_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  for (int i = 0; i < 20'000; ++i) {
    const AdmitView view{.left = ByteCount{below(1001)}, .most = kMost, .usual_saved = below(100) / 10.0};
    const WriteOffer offer = offer_of(1 + below(100), below(50'000), below(5));
    if (!admits(view, offer)) continue;
    AdmitView more = view;
    more.left = view.left + ByteCount{below(1001 - view.left.value())};
    ASSERT_TRUE(admits(more, offer));
    WriteOffer later = offer;
    later.begin = offer.begin + below(1000);
    ASSERT_TRUE(admits(view, later));
    WriteOffer again = offer;
    again.returns += 1;
    ASSERT_TRUE(admits(view, again));
    WriteOffer smaller = offer;
    smaller.bytes = ByteCount{1 + below(offer.bytes.value())};
    ASSERT_TRUE(admits(view, smaller));
  }
}

TEST(Admit, WithoutAnAllowanceNothingPasses) { EXPECT_FALSE(admits({}, offer_of(10))); }

TEST(Admit, TheUsualSavingFollowsTheOffersByTheirBytes) {
  AdmitView view{.left = kMost, .most = kMost};
  view.usual_saved = next_usual_saved(view, offer_of(10, 0, 3));
  EXPECT_NEAR(view.usual_saved, expected_saved_per_byte(offer_of(10, 0, 3)), 1e-9) << "the first is all that is known";
  double last = view.usual_saved;
  for (int i = 0; i < 500; ++i) {
    view.usual_saved = next_usual_saved(view, offer_of(10));
    ASSERT_LE(view.usual_saved, last);
    last = view.usual_saved;
  }
  EXPECT_NEAR(view.usual_saved, 1, 0.05);
  WriteOffer huge = offer_of(4000, 0, 9);
  EXPECT_NEAR(next_usual_saved(view, huge), expected_saved_per_byte(huge), 1e-9) << "never beyond what is offered";
}

// An allowance that refills while more is offered than it has: it is used up nearly, and the admitted offers save more
// than what was offered on average.
class AdmitOverTime : public testing::Test {
 protected:
  struct Outcome {
    double written = 0;
    double saved = 0;
    std::size_t shorts = 0;
    std::size_t longs = 0;
  };
  // So many bytes come back each turn; half of the offered bytes save five times as much as the rest.
  static Outcome run(double refill, bool all_alike, std::mt19937_64& random) {
    Outcome outcome;
    double left = kMost.value();
    double usual = 0;
    for (int turn = 0; turn < 20'000; ++turn) {
      left = std::min<double>(kMost.value(), left + refill);
      const bool is_long = random() % 2 == 0;
      const WriteOffer offer = offer_of(10, 0, is_long && !all_alike ? 4 : 0);
      const AdmitView view{
          .left = ByteCount{static_cast<std::uint64_t>(std::max(0.0, left))}, .most = kMost, .usual_saved = usual};
      usual = next_usual_saved(view, offer);
      if (!admits(view, offer)) continue;
      left -= 10;
      outcome.written += 10;
      outcome.saved += expected_saved_per_byte(offer) * 10;
      ++(is_long ? outcome.longs : outcome.shorts);
    }
    return outcome;
  }
  std::mt19937_64 random{test_seed()};
};

TEST_F(AdmitOverTime, AScarceAllowanceGoesToTheOffersThatSaveMost) {
  const Outcome outcome = run(3, false, random);  // of 10 that are offered, 5 of them long
  EXPECT_GT(outcome.written, 0.97 * 3 * 20'000);
  EXPECT_LE(outcome.written, 3 * 20'000 + kMost.value() + 10);
  EXPECT_LT(outcome.shorts, outcome.longs / 20);
}

TEST_F(AdmitOverTime, TheRestOfTheAllowanceGoesToTheRest) {
  const Outcome outcome = run(7, false, random);
  EXPECT_GT(outcome.written, 0.97 * 7 * 20'000);
  EXPECT_GT(outcome.longs, 9'500U);
  EXPECT_GT(outcome.shorts, 3'000U);
}

TEST_F(AdmitOverTime, WhereAllAreAlikeItIsUsedUpAsWell) { EXPECT_GT(run(3, true, random).written, 0.97 * 3 * 20'000); }

TEST_F(AdmitOverTime, WithEnoughAllIsWritten) { EXPECT_EQ(run(11, false, random).written, 10 * 20'000); }

}  // namespace
}  // namespace kvkeep::policy
